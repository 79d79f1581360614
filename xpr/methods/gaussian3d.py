"""3D Gaussian splatting (Kerbl et al. 2023, https://arxiv.org/abs/2308.04079)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from xpr import sh
from xpr.camera import Camera
from xpr.math import logit, normalize, quat_to_rotation
from xpr.types import Array, Hit, Mass, Primitive, Projected, QuadraticSplat, Vec2, Vec3

MIN_SPACING = 1e-7  # duplicate points still get a finite log-scale
COMPENSATION_FLOOR = 0.005  # of the antialiased opacity factor, as in gsplat


class EllipseSplat(QuadraticSplat):
    """A 2D Gaussian on the image plane.

    Attributes:
      mean: px.
      conic: inverse covariance [[x, y], [y, z]] in 1/px^2.
      log_opacity: at most 0.
      color: linear RGB.
    """

    mean: Vec2
    conic: Vec3
    log_opacity: Array
    color: Vec3

    def forms(self, pixel: Vec2) -> tuple[Array]:
        """The log of alpha: log o - 1/2 d^T conic d."""
        d, (a, b, c) = pixel - self.mean, self.conic
        return (self.log_opacity - 0.5 * (a * d.x * d.x + c * d.y * d.y) - b * d.x * d.y,)

    def respond(self, *forms: Array) -> Hit:
        """Alpha = o exp(-1/2 d^T conic d)."""
        return Hit(jnp.exp(forms[0]), self.color)

    def tile_bound(self, low: Vec2, high: Vec2) -> Array:
        """Alpha at the point of the rectangle that is nearest in the conic's metric.

        A convex quadratic has its minimum over a rectangle at its centre, if that lies inside,
        else on one of the two edges that face the centre.
        """
        (a, b, c), (x0, y0), (x1, y1) = self.conic, low - self.mean, high - self.mean
        x, y = jnp.clip(0, x0, x1), jnp.clip(0, y0, y1)
        y_on_edge = jnp.clip(-b * x / c, y0, y1)
        x_on_edge = jnp.clip(-b * y / a, x0, x1)

        def power(x: Array, y: Array) -> Array:
            return 0.5 * (a * x * x + c * y * y) + b * x * y

        nearest = jnp.minimum(power(x, y_on_edge), power(x_on_edge, y))
        return jnp.exp(self.log_opacity - jnp.maximum(nearest, 0))


class Gaussian(NamedTuple):
    """One Gaussian in physical units, with its colour already that of one view.

    Attributes:
      mean: [3] world units.
      quat: [4] (w, x, y, z), any norm.
      scale: [3] standard deviations in world units.
      opacity: [] in [0, 1].
      color: [3] linear RGB.
    """

    mean: Array
    quat: Array
    scale: Array
    opacity: Array
    color: Array


def splat(gaussian: Gaussian, camera: Camera, *, eps2d: float, antialiased: bool) -> Projected:
    """Elliptical weighted average: the Gaussian through the lens, linearised at its mean.

    Sigma' = J W Sigma W^T J^T (paper, Eq. 5), then `eps2d` px^2 on the diagonal; in antialiased
    mode the opacity falls with the area that the blur adds (Mip-Splatting).
    """
    point = camera.to_camera(gaussian.mean)
    seen = camera.sees(point)
    point = jnp.where(seen, point, jnp.array([0, 0, 1], point.dtype))
    jacobian = jax.jacfwd(camera.to_pixel)(camera.linearization_point(point))
    axes = camera.viewmat[:3, :3] @ quat_to_rotation(gaussian.quat) * gaussian.scale
    u, v = jacobian @ axes
    xx, xy, yy = u @ u, u @ v, v @ v
    # As squares, neither determinant can cancel to zero or below.
    normal = jnp.cross(u, v)
    sharp = normal @ normal
    det = sharp + eps2d * (xx + yy) + eps2d * eps2d
    xx, yy = xx + eps2d, yy + eps2d
    opacity = gaussian.opacity
    if antialiased:
        opacity = opacity * jnp.sqrt(jnp.maximum(sharp / det, COMPENSATION_FLOOR**2))
    record = EllipseSplat(
        mean=Vec2.of(camera.to_pixel(point)),
        conic=Vec3(yy / det, -xy / det, xx / det),
        log_opacity=jnp.log(jnp.where(opacity > 0, opacity, 1)),
        color=Vec3.of(gaussian.color),
    )
    # At the border of the box, `reach` sigmas out, alpha falls to alpha_min.
    reach = jnp.sqrt(2 * jnp.log(jnp.maximum(opacity / EllipseSplat.blend.alpha_min, 1)))
    extent = jnp.where(seen, reach * jnp.sqrt(jnp.stack([xx, yy])), 0)
    # Along one ray |z| grows with distance, behind the plane of a fisheye as well.
    return Projected(record, camera.to_pixel(point), extent, depth=jnp.abs(point[2]))


class Gaussian3D(Primitive):
    """An anisotropic 3D Gaussian. Fields hold what the optimiser sees.

    Attributes:
      mean: [3] world units.
      quat: [4] (w, x, y, z), any norm.
      log_scale: [3] log of the standard deviations in world units.
      logit_opacity: [].
      sh0: [1, 3] constant spherical-harmonic coefficient of the colour.
      shN: [K - 1, 3] the higher coefficients, K = (degree + 1)^2.
      antialiased: opacity compensates the screen-space blur. Static.
      eps2d: px^2 added to the projected variance. Static.
    """

    decaying: ClassVar[tuple[str, ...]] = ("mean",)

    mean: Array
    quat: Array
    log_scale: Array
    logit_opacity: Array
    sh0: Array
    shN: Array
    antialiased: bool = struct.field(pytree_node=False, default=False)
    eps2d: float = struct.field(pytree_node=False, default=0.3)

    def project(self, camera: Camera) -> Projected:
        """The ellipse that this Gaussian is on the image plane."""
        direction = normalize(self.mean - camera.position)
        coefficients = jnp.concatenate([self.sh0, self.shN])
        color = jnp.maximum(sh.evaluate(coefficients, direction) + 0.5, 0)
        scale, opacity = jnp.exp(self.log_scale), jax.nn.sigmoid(self.logit_opacity)
        gaussian = Gaussian(self.mean, self.quat, scale, opacity, color)
        return splat(gaussian, camera, eps2d=self.eps2d, antialiased=self.antialiased)

    @classmethod
    def from_points(
        cls, points: Array, colors: Array, spacing: Array, *, key: Array, sh_degree: int = 3
    ) -> Gaussian3D:
        """Round Gaussians as wide as the spacing, of opacity 0.1. See `Primitive.from_points`."""
        del key
        n, rest = len(points), sh.coefficients(sh_degree) - 1
        identity = jnp.zeros((n, 4)).at[:, 0].set(1)
        return cls(
            mean=points,
            quat=identity,
            log_scale=jnp.tile(jnp.log(jnp.maximum(spacing, MIN_SPACING))[:, None], 3),
            logit_opacity=jnp.full(n, logit(jnp.array(0.1))),
            sh0=((colors - 0.5) / sh.C0)[:, None],
            shN=jnp.zeros((n, rest, 3)),
        )

    @classmethod
    def learning_rates(cls, extent: float) -> Gaussian3D:
        """The rates of the original code; positions move in proportion to the scene."""
        return cls(
            mean=1.6e-4 * extent,  # pyright: ignore[reportArgumentType]
            quat=1e-3,  # pyright: ignore[reportArgumentType]
            log_scale=5e-3,  # pyright: ignore[reportArgumentType]
            logit_opacity=5e-2,  # pyright: ignore[reportArgumentType]
            sh0=2.5e-3,  # pyright: ignore[reportArgumentType]
            shN=2.5e-3 / 20,  # pyright: ignore[reportArgumentType]
        )

    def mass(self) -> Mass:
        """Its own opacity, scale and axes."""
        opacity = jax.nn.sigmoid(self.logit_opacity)
        return Mass(opacity, jnp.exp(self.log_scale), quat_to_rotation(self.quat))

    def reshaped(self, opacity: Array, shrink: Array) -> Gaussian3D:
        """With another opacity and `shrink` times its size."""
        return self.replace(
            logit_opacity=logit(opacity), log_scale=self.log_scale + jnp.log(shrink)
        )

    def moved(self, offset: Array) -> Gaussian3D:
        """Shifted by `offset` [3]."""
        return self.replace(mean=self.mean + offset)

    def active(self, degree: Array) -> Gaussian3D:
        """With the harmonics above `degree` left out."""
        bands = jnp.array([sh.band_of(1 + i) for i in range(len(self.shN))], int)
        return self.replace(shN=jnp.where(bands[:, None] <= degree, self.shN, 0))
