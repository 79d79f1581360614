"""A soft sphere, met along the ray: a whole method in one file.

xpr check ./examples/sphere.py
xpr train DATA --method ./examples/sphere.py
"""

import jax
import jax.numpy as jnp

import xpr
from xpr.methods.screen import place_ellipsoid


class SphereSplat(xpr.Splat):
    center: xpr.Vec3
    radius: jax.Array
    opacity: jax.Array
    color: xpr.Vec3

    def evaluate(self, ray):
        across = (ray.origin - self.center).cross(ray.direction) * (1 / self.radius)
        return xpr.Hit(self.opacity * jnp.exp(-0.5 * across.dot(across)), self.color)


class Sphere(xpr.Primitive):
    """Attributes: mean [3] and log_scale [] in world units, logit_opacity [], color [3]."""

    mean: jax.Array
    log_scale: jax.Array
    logit_opacity: jax.Array
    color: jax.Array

    def project(self, camera):
        radius, opacity = jnp.exp(self.log_scale), jax.nn.sigmoid(self.logit_opacity)
        splat = SphereSplat(xpr.Vec3.of(self.mean), radius, opacity, xpr.Vec3.of(self.color))
        reach = jnp.full(3, 3.4 * radius)  # exp(-3.4**2 / 2) is below the least alpha, 1/255
        return xpr.Projected(splat, *place_ellipsoid(self.mean, jnp.eye(3), reach, camera))
