"""3D Gaussian splatting (Kerbl et al. 2023, https://arxiv.org/abs/2308.04079)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from xpr.camera import Camera
from xpr.math import quat_to_rotation
from xpr.methods.gaussian import Gaussian, RawGaussian
from xpr.types import Array, Hit, Projected, QuadraticSplat, Vec2, Vec3

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


def splat(gaussian: Gaussian, camera: Camera, *, eps2d: float, antialiased: bool) -> Projected:
    """Elliptical weighted average: the Gaussian through the lens, linearised at its mean.

    Sigma' = J W Sigma W^T J^T (paper, Eq. 5), then `eps2d` px^2 on the diagonal; in antialiased
    mode the opacity falls with the area that the blur adds (Mip-Splatting). Through a rolling
    shutter the whole splat is seen from the pose that exposes its mean.
    """
    depth = camera.sort_key(gaussian.mean)
    camera = camera.seeing(gaussian.mean)
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
    return Projected(record, camera.to_pixel(point), extent, depth)


class Gaussian3D(RawGaussian):
    """An anisotropic 3D Gaussian, drawn as an ellipse. See `RawGaussian` for its parameters.

    Attributes:
      antialiased: opacity compensates the screen-space blur. Static.
      eps2d: px^2 added to the projected variance. Static.
    """

    antialiased: bool = struct.field(pytree_node=False, default=False)
    eps2d: float = struct.field(pytree_node=False, default=0.3)

    def project(self, camera: Camera) -> Projected:
        """The ellipse that this Gaussian is on the image plane."""
        gaussian = self.seen_from(camera)
        return splat(gaussian, camera, eps2d=self.eps2d, antialiased=self.antialiased)
