"""Cameras: pose, intrinsics and lens, all differentiable."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from xpr.errors import UserError, expect_shape
from xpr.lens import Lens, Pinhole
from xpr.math import inverse_3x3
from xpr.shutter import SHUTTERS, Sweep, exposed
from xpr.types import Array, Ray, Vec2, Vec3

SHUTTER_STEPS = 6  # until a point is found at the line that exposes it; even, as in gsplat

FIELD_MARGIN = 0.15  # of the image's width: how far beyond the border 3DGS still linearises


class Camera(struct.PyTreeNode):
    """One view. Every array is traced and differentiable; a batch has a leading axis C.

    Attributes:
      viewmat: [4, 4] camera-from-world, OpenCV axes (x right, y down, z forward).
      K: [3, 3] intrinsics in px; the whole upper 2x3 block counts, skew included.
      distortion: [len(lens.coefficients)], or None for a lens without.
      viewmat_end: [4, 4] at the end of the exposure, `viewmat` being its start; None for a global
        shutter.
      shutter: in which order the lines are exposed, one of `xpr.shutter.SHUTTERS`. Static.
      width: px. Static: it sets the image shape.
      height: px. Static.
      lens: the camera model. Static.
      near: what is closer is culled, world units. Static.
      far: what is farther is culled, world units. Static.
    """

    viewmat: Array
    K: Array
    distortion: Array | None = None
    viewmat_end: Array | None = struct.field(kw_only=True, default=None)
    shutter: str = struct.field(pytree_node=False, kw_only=True, default="global")
    width: int = struct.field(pytree_node=False, kw_only=True)
    height: int = struct.field(pytree_node=False, kw_only=True)
    lens: Lens = struct.field(pytree_node=False, default=Pinhole())
    near: float = struct.field(pytree_node=False, default=0.01)
    far: float = struct.field(pytree_node=False, default=float("inf"))

    def at(self, time: Array | float) -> Camera:
        """This camera frozen at a moment of its exposure, 0 (start) to 1 (end)."""
        if self.viewmat_end is None:
            return self
        pose = Sweep.between(self.viewmat, self.viewmat_end).pose(time)
        return self.replace(viewmat=pose, viewmat_end=None, shutter="global")

    def seeing(self, point: Array) -> Camera:
        """This camera frozen when it exposes the image of `point` [3], world units.

        The moment steps from line to line as the point moves: it has no gradient.
        """
        if self.viewmat_end is None:
            return self
        camera, end, point = jax.lax.stop_gradient((self, self.viewmat_end, point))
        path = Sweep.between(camera.viewmat, end).path(point)

        def follow(_: int, time: Array) -> Array:
            there = path(time)
            seen = camera.sees(there)
            pixel = camera.to_pixel(jnp.where(seen, there, jnp.array([0, 0, 1], there.dtype)))
            return jnp.where(seen, self._moment(pixel), time)

        return self.at(jax.lax.fori_loop(0, SHUTTER_STEPS, follow, jnp.zeros((), point.dtype)))

    @property
    def position(self) -> Array:
        """[3] camera centre in world units: the last column of the inverse of `viewmat`.

        All sixteen entries count, as in gsplat, so that their raw gradients agree as well. With a
        rolling shutter it is the centre in the middle of the exposure.
        """
        viewmat = self.at(0.5).viewmat
        rotation, shift = viewmat[:3, :3], viewmat[:3, 3] / viewmat[3, 3]
        return -inverse_3x3(rotation - jnp.outer(shift, viewmat[3, :3])) @ shift

    @property
    def central(self) -> bool:
        """Whether all rays of the image have one origin. Static."""
        return self.lens.central and self.viewmat_end is None

    @property
    def _coefficients(self) -> Array:
        return jnp.zeros(0, self.K.dtype) if self.distortion is None else self.distortion

    def _moment(self, pixel: Array) -> Array:
        return exposed(self.shutter, pixel, self.width, self.height)

    def to_camera(self, point: Array) -> Array:
        """[3] world -> [3] camera, at the moment at which the point is exposed."""
        viewmat = self.seeing(point).viewmat
        return viewmat[:3, :3] @ point + viewmat[:3, 3]

    def to_pixel(self, point: Array) -> Array:
        """[3] camera -> [2] px, through the lens."""
        return self.K[:2, :2] @ self.lens.project(point, self._coefficients) + self.K[:2, 2]

    def sees(self, point: Array) -> Array:
        """Whether a point [3] in the camera frame can have an image (in the picture or not)."""
        near_enough = self.depth(point) < self.far
        return self.lens.sees(point, self._coefficients, self.near) & near_enough

    def depth(self, point: Array) -> Array:
        """[] what grows along every ray that leaves the lens, for a point [3], camera frame.

        It is z; where a lens sees points behind its plane as well, |z|.
        """
        return jnp.abs(point[2]) if self.lens.sees_behind else point[2]

    def sort_key(self, point: Array) -> Array:
        """[] depth of a point [3] in the world, in the middle of the exposure."""
        return self.depth(self.at(0.5).to_camera(point))

    def linearization_point(self, point: Array) -> Array:
        """Where 3DGS takes the lens's Jacobian for a splat at `point` [3], camera frame.

        A perspective lens is linearised no further out than the field of view grown by 15 % of
        the image on each side, as the original and gsplat do; the limit has its gradient.
        """
        if not self.lens.perspective:
            return point
        size = jnp.array([self.width, self.height], point.dtype)
        focal, center = jnp.stack([self.K[0, 0], self.K[1, 1]]), self.K[:2, 2]
        low = -(center + FIELD_MARGIN * size) / focal
        high = (size - center + FIELD_MARGIN * size) / focal
        return jnp.append(point[2] * jnp.clip(point[:2] / point[2], low, high), point[2])

    def rays(self, pixels: Array) -> Ray:
        """[..., 2] px -> world-space rays whose components have shape [...].

        With a rolling shutter every pixel looks from the pose at which its line is exposed.
        """

        def ray(pixel: Array, xy: Array) -> tuple[Array, Array]:
            viewmat = self.at(self._moment(pixel)).viewmat
            world_from_camera = inverse_3x3(viewmat[:3, :3])
            origin, direction = self.lens.unproject(xy, self._coefficients)
            direction = world_from_camera @ direction
            direction = direction / jnp.sqrt(jnp.sum(direction * direction))
            return world_from_camera @ (origin - viewmat[:3, 3]), direction

        flat = jax.vmap(ray)(pixels.reshape(-1, 2), self._plane(pixels).reshape(-1, 2))
        origin, direction = (a.reshape(*pixels.shape[:-1], 3) for a in flat)
        return Ray(Vec2.of(pixels), Vec3.of(origin), Vec3.of(direction))

    def covers(self, pixels: Array) -> Array:
        """Where light reaches the image: beyond the lens's valid range it is dark. [...] bool."""
        flat = self._plane(pixels).reshape(-1, 2)
        lit = jax.vmap(lambda xy: self.lens.covers(xy, self._coefficients))(flat)
        return lit.reshape(pixels.shape[:-1])

    def _plane(self, pixels: Array) -> Array:
        """[..., 2] px -> [..., 2] on the normalised image plane."""
        (a, b), (c, d) = self.K[:2, :2]
        x, y = jnp.moveaxis(pixels - self.K[:2, 2], -1, 0)
        return jnp.stack([d * x - b * y, a * y - c * x], axis=-1) / (a * d - b * c)

    def resized(self, width: int, height: int) -> Camera:
        """The same view at another resolution: intrinsics scaled by the true W'/W and H'/H."""
        K = jnp.asarray(self.K)
        scale = jnp.array([width / self.width, height / self.height, 1.0], K.dtype)
        return self.replace(K=K * scale[:, None], width=width, height=height)

    def check(self) -> None:
        """Refuse wrong shapes, at trace time.

        Raises:
          UserError: naming the field, what it is and what was expected.
        """
        expect_shape("camera.viewmat", self.viewmat, (4, 4), "It maps world to camera (OpenCV).")
        expect_shape("camera.K", self.K, (3, 3), "Intrinsics in pixels, without distortion.")
        self.lens.check(self.distortion)
        self._check_shutter()
        if min(self.width, self.height) < 1:
            raise UserError(
                f"the camera's image is {self.width} x {self.height} px, expected at least 1 x 1."
            )

    def _check_shutter(self) -> None:
        if self.shutter not in SHUTTERS:
            raise UserError(
                f"camera.shutter is {self.shutter!r}, expected one of {', '.join(SHUTTERS)}."
            )
        if (self.viewmat_end is None) != (self.shutter == "global"):
            have = "no" if self.viewmat_end is None else "a"
            raise UserError(
                f"camera.shutter is {self.shutter!r} with {have} viewmat_end: a rolling shutter "
                "has an end pose and a direction, a global one neither."
            )
        if self.viewmat_end is not None:
            hint = "It maps world to camera at the end of the exposure."
            expect_shape("camera.viewmat_end", self.viewmat_end, (4, 4), hint)
