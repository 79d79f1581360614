"""Cameras: pose, intrinsics and lens, all differentiable."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from xpr.errors import UserError, expect_shape
from xpr.lens import Lens, Pinhole
from xpr.math import inverse_3x3
from xpr.types import Array, Ray, Vec2, Vec3

FIELD_MARGIN = 0.15  # of the image's width: how far beyond the border 3DGS still linearises


class Camera(struct.PyTreeNode):
    """One view. Every array is traced and differentiable; a batch has a leading axis C.

    Attributes:
      viewmat: [4, 4] camera-from-world, OpenCV axes (x right, y down, z forward).
      K: [3, 3] intrinsics in px; the whole upper 2x3 block counts, skew included.
      distortion: [len(lens.coefficients)], or None for a lens without.
      width: px. Static: it sets the image shape.
      height: px. Static.
      lens: the camera model. Static.
      near: what is closer is culled, world units. Static.
      far: what is farther is culled, world units. Static.
    """

    viewmat: Array
    K: Array
    distortion: Array | None = None
    width: int = struct.field(pytree_node=False, kw_only=True)
    height: int = struct.field(pytree_node=False, kw_only=True)
    lens: Lens = struct.field(pytree_node=False, default=Pinhole())
    near: float = struct.field(pytree_node=False, default=0.01)
    far: float = struct.field(pytree_node=False, default=float("inf"))

    @property
    def position(self) -> Array:
        """[3] camera centre in world units: the last column of the inverse of `viewmat`.

        All sixteen entries count, as in gsplat, so that their raw gradients agree as well.
        """
        rotation, shift = self.viewmat[:3, :3], self.viewmat[:3, 3] / self.viewmat[3, 3]
        return -inverse_3x3(rotation - jnp.outer(shift, self.viewmat[3, :3])) @ shift

    @property
    def _coefficients(self) -> Array:
        return jnp.zeros(0, self.K.dtype) if self.distortion is None else self.distortion

    def to_camera(self, point: Array) -> Array:
        """[3] world -> [3] camera."""
        return self.viewmat[:3, :3] @ point + self.viewmat[:3, 3]

    def to_pixel(self, point: Array) -> Array:
        """[3] camera -> [2] px, through the lens."""
        return self.K[:2, :2] @ self.lens.distort(point, self._coefficients) + self.K[:2, 2]

    def sees(self, point: Array) -> Array:
        """Whether a point [3] in the camera frame can have an image (in the picture or not)."""
        near_enough = self.depth(point) < self.far
        return self.lens.sees(point, self._coefficients, self.near) & near_enough

    def depth(self, point: Array) -> Array:
        """[] what grows along every ray that leaves the lens, for a point [3], camera frame.

        It is z; where a lens sees points behind its plane as well, |z|.
        """
        return jnp.abs(point[2]) if self.lens.sees_behind else point[2]

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
        """[..., 2] px -> world-space rays whose components have shape [...]."""
        (a, b), (c, d) = self.K[:2, :2]
        x, y = jnp.moveaxis(pixels - self.K[:2, 2], -1, 0)
        det = a * d - b * c
        plane = jnp.stack([d * x - b * y, a * y - c * x], axis=-1) / det
        world_from_camera = inverse_3x3(self.viewmat[:3, :3])

        def ray(xy: Array) -> tuple[Array, Array]:
            origin, direction = self.lens.undistort(xy, self._coefficients)
            direction = world_from_camera @ direction
            direction = direction / jnp.sqrt(jnp.sum(direction * direction))
            return world_from_camera @ (origin - self.viewmat[:3, 3]), direction

        flat = jax.vmap(ray)(plane.reshape(-1, 2))
        origin, direction = (a.reshape(*pixels.shape[:-1], 3) for a in flat)
        return Ray(Vec2.of(pixels), Vec3.of(origin), Vec3.of(direction))

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
        if min(self.width, self.height) < 1:
            raise UserError(
                f"the camera's image is {self.width} x {self.height} px, expected at least 1 x 1."
            )
