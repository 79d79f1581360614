"""A kernel of bounded support with a learned exponent (Beta splatting, Liu et al. 2025).

    xpr check ./examples/beta.py
    xpr train DATA --method ./examples/beta.py

Alpha = o (1 - q)^beta inside the ellipsoid q <= 1, and nothing outside.
"""

import jax
import jax.numpy as jnp

import xpr
from xpr.math import quat_to_rotation
from xpr.methods.screen import place_ellipsoid

WIDTH = 3.0  # the ellipsoid's half axis over the standard deviation of a like Gaussian


class BetaSplat(xpr.Splat):
    center: xpr.Vec3
    whiten: tuple[xpr.Vec3, xpr.Vec3, xpr.Vec3]  # world to the unit ball
    beta: jax.Array
    opacity: jax.Array
    color: xpr.Vec3

    def evaluate(self, ray):
        offset = ray.origin - self.center
        origin = xpr.Vec3(*(row.dot(offset) for row in self.whiten))
        direction = xpr.Vec3(*(row.dot(ray.direction) for row in self.whiten))
        along = -direction.dot(origin) / direction.dot(direction)
        closest = origin + direction * along
        left = 1 - closest.dot(closest)
        met = (left > 0) & (along > 0)
        kernel = jnp.exp(self.beta * jnp.log(jnp.where(met, left, 1)))
        return xpr.Hit(jnp.where(met, self.opacity * kernel, 0), self.color, along)


class Beta(xpr.Primitive):
    """Attributes: mean [3], quat [4], log_axis [3] (half axes, world units), log_beta [],
    logit_opacity [], color [3]."""

    size_field = "log_axis"

    mean: jax.Array
    quat: jax.Array
    log_axis: jax.Array
    log_beta: jax.Array
    logit_opacity: jax.Array
    color: jax.Array

    def project(self, camera):
        rotation, axis = quat_to_rotation(self.quat), jnp.exp(self.log_axis)
        rows = tuple(xpr.Vec3.of(row) for row in rotation.T / axis[:, None])
        opacity, beta = jax.nn.sigmoid(self.logit_opacity), jnp.exp(self.log_beta)
        splat = BetaSplat(xpr.Vec3.of(self.mean), rows, beta, opacity, xpr.Vec3.of(self.color))
        return xpr.Projected(splat, *place_ellipsoid(self.mean, rotation, axis, camera))

    @classmethod
    def from_points(cls, points, colors, spacing, *, key, sh_degree=3):
        n = len(points)
        quats = jax.random.normal(key, (n, 4))
        axes = jnp.log(WIDTH * spacing)[:, None].repeat(3, axis=1)
        return cls(points, quats, axes, jnp.full(n, 1.4), jnp.full(n, -2.2), colors)

    @classmethod
    def learning_rates(cls, extent):
        return cls(1.6e-4 * extent, 1e-3, 5e-3, log_beta=1e-3, logit_opacity=5e-2, color=2.5e-3)

    def mass(self):
        scale = jnp.exp(self.log_axis) / WIDTH
        return xpr.Mass(jax.nn.sigmoid(self.logit_opacity), scale, quat_to_rotation(self.quat))
