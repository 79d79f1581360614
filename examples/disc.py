"""A flat 2D Gaussian, met where the ray crosses its plane (2DGS, Huang et al. 2024), with normals.

xpr check ./examples/disc.py
xpr train DATA --method ./examples/disc.py
"""

import jax
import jax.numpy as jnp

import xpr
from xpr.math import logit, quat_to_rotation
from xpr.methods.screen import place

REACH = 3.4  # sigmas: exp(-REACH**2 / 2) is below the least alpha, 1/255
EDGE = 1e-6  # of the cosine between ray and plane: the disc seen edge on


class DiscSplat(xpr.Splat):
    center: xpr.Vec3
    u: xpr.Vec3  # tangents over their standard deviations
    v: xpr.Vec3
    normal: xpr.Vec3
    opacity: jax.Array
    color: xpr.Vec3

    def evaluate(self, ray):
        slope = self.normal.dot(ray.direction)
        safe = jnp.where(jnp.abs(slope) < EDGE, 1, slope)
        distance = self.normal.dot(self.center - ray.origin) / safe
        offset = ray.origin + ray.direction * distance - self.center
        a, b = self.u.dot(offset), self.v.dot(offset)
        met = (jnp.abs(slope) >= EDGE) & (distance > 0)
        alpha = jnp.where(met, self.opacity * jnp.exp(-0.5 * (a * a + b * b)), 0)
        towards = self.normal * jnp.where(slope > 0, -1, 1)
        return xpr.Hit(alpha, self.color, distance, tuple(towards))


class Disc(xpr.Primitive):
    """Attributes: mean [3], quat [4], log_scale [2] (world units), logit_opacity [], color [3]."""

    mean: jax.Array
    quat: jax.Array
    log_scale: jax.Array
    logit_opacity: jax.Array
    color: jax.Array

    def project(self, camera):
        (u, v, n), scale = quat_to_rotation(self.quat).T, jnp.exp(self.log_scale)
        vectors = (xpr.Vec3.of(x) for x in (self.mean, u / scale[0], v / scale[1], n))
        opacity = jax.nn.sigmoid(self.logit_opacity)
        splat = DiscSplat(*vectors, opacity, xpr.Vec3.of(self.color))
        a, b = REACH * u * scale[0], REACH * v * scale[1]
        corners = self.mean + jnp.stack([a + b, a - b, b - a, -a - b])
        return xpr.Projected(splat, *place(self.mean, corners, camera))

    @classmethod
    def from_points(cls, points, colors, spacing, *, key, sh_degree=3):
        quats = jax.random.normal(key, (len(points), 4))
        faint = jnp.full(len(points), logit(jnp.array(0.1)))
        return cls(points, quats, jnp.log(spacing)[:, None].repeat(2, axis=1), faint, colors)

    @classmethod
    def learning_rates(cls, extent):
        return cls(1.6e-4 * extent, quat=1e-3, log_scale=5e-3, logit_opacity=5e-2, color=2.5e-3)

    def mass(self):
        scale = jnp.append(jnp.exp(self.log_scale), 0)
        return xpr.Mass(jax.nn.sigmoid(self.logit_opacity), scale, quat_to_rotation(self.quat))
