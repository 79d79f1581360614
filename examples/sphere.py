"""A soft sphere, met along the ray: a whole method in one file.

xpr check ./examples/sphere.py
xpr train DATA --method ./examples/sphere.py
"""

import jax
import jax.numpy as jnp

import xpr
from xpr.math import logit
from xpr.methods.screen import outline, place

REACH = 3.4  # sigmas: exp(-REACH**2 / 2) is below the least alpha, 1/255


class SphereSplat(xpr.Splat):
    center: xpr.Vec3
    radius: jax.Array
    opacity: jax.Array
    color: xpr.Vec3

    def evaluate(self, ray):
        offset = ray.origin - self.center
        closest = offset - ray.direction * offset.dot(ray.direction)
        q = closest.dot(closest) / (self.radius * self.radius)
        return xpr.Hit(self.opacity * jnp.exp(-0.5 * q), self.color)


class Sphere(xpr.Primitive):
    """Attributes: center [3] and log_radius [] in world units, logit_opacity [], color [3]."""

    position_field, size_field = "center", "log_radius"

    center: jax.Array
    log_radius: jax.Array
    logit_opacity: jax.Array
    color: jax.Array

    def project(self, camera):
        radius, opacity = jnp.exp(self.log_radius), jax.nn.sigmoid(self.logit_opacity)
        splat = SphereSplat(xpr.Vec3.of(self.center), radius, opacity, xpr.Vec3.of(self.color))
        corners = outline(self.center, jnp.eye(3), REACH * jnp.full(3, radius), camera)
        return xpr.Projected(splat, *place(self.center, corners, camera))

    @classmethod
    def from_points(cls, points, colors, spacing, *, key, sh_degree=3):
        faint = jnp.full(len(points), logit(jnp.array(0.1)))
        return cls(points, jnp.log(spacing), faint, colors)

    @classmethod
    def learning_rates(cls, extent):
        return cls(center=1.6e-4 * extent, log_radius=5e-3, logit_opacity=5e-2, color=2.5e-3)
