"""3D Gaussian unscented transform (Wu et al. 2025, https://arxiv.org/abs/2412.12507).

A Gaussian is met along the ray itself, so that any lens and a rolling shutter are exact. Only its
box on the image is approximated, by projecting seven points instead of linearising the lens. That
is too tight for wide Gaussians nearby; the box here holds their outline as well.
"""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from xpr.camera import Camera
from xpr.math import quat_to_rotation
from xpr.methods.gaussian import Gaussian, RawGaussian
from xpr.methods.screen import Landing, box, land, outline
from xpr.types import Array, Blend, Hit, Projected, Ray, Splat, Vec3

BETA = 2.0  # of the unscented transform; its kappa is 0
MARGIN = 0.1  # of the image: a sigma point may lie so far outside


class RaySplat(Splat):
    """A 3D Gaussian along rays, by the rules of the authors' code (3dgrut).

    Attributes:
      mean: world units.
      whiten: rows of S^-1 R^T: world to the frame in which the Gaussian is round, of variance 1.
      opacity: in [0, 1].
      color: linear RGB.
      normals: whether hits carry the third axis, turned towards the camera. Static.
    """

    blend: ClassVar[Blend] = Blend(keeps_last=True)
    least_response: ClassVar[float] = 0.0113

    mean: Vec3
    whiten: tuple[Vec3, Vec3, Vec3]
    opacity: Array
    color: Vec3
    normals: bool = struct.field(pytree_node=False, default=False)

    def evaluate(self, ray: Ray) -> Hit:
        """Alpha = o exp(-q/2), q the squared distance of ray and mean in the round frame.

        The hit is where the Gaussian is densest along the ray, which must not lie behind it.
        """
        offset = ray.origin - self.mean
        origin = Vec3(*(row.dot(offset) for row in self.whiten))
        direction = Vec3(*(row.dot(ray.direction) for row in self.whiten))
        across, along = direction.cross(origin), direction.dot(direction)
        response = jnp.exp(-0.5 * across.dot(across) / along)
        distance = -direction.dot(origin) / along
        met = (distance > 0) & (response > self.least_response)
        alpha = jnp.where(met, self.opacity * response, 0)
        return Hit(alpha, self.color, distance, self._normal(ray) if self.normals else ())

    def _normal(self, ray: Ray) -> tuple[Array, ...]:
        axis = self.whiten[2]
        away = axis.dot(ray.direction) > 0
        return tuple(axis * (jnp.where(away, -1, 1) * jax.lax.rsqrt(axis.dot(axis))))


class SortedSplat(RaySplat):
    """The paper's sorted variant: hits in the order of their distance, not of their centres'."""

    blend: ClassVar[Blend] = Blend(keeps_last=True, reorder=16)


class GsplatSplat(RaySplat):
    """By the rules of gsplat: those of 3DGS."""

    blend: ClassVar[Blend] = Blend()
    least_response: ClassVar[float] = 0.0


SPLATS = {"3dgrut": RaySplat, "3dgrut-sorted": SortedSplat, "gsplat": GsplatSplat}


def unscented(gaussian: Gaussian, camera: Camera, spread: float) -> tuple[Array, Array, Landing]:
    """Mean [2] px and covariance [2, 2] px^2 of the Gaussian on the image, and its sigma points.

    The weights of the seven points add up to 1 in the mean: differences to the central one keep
    their digits however close together the points are.

    Args:
      gaussian: in physical units.
      camera: any lens.
      spread: alpha of the transform: the points lie sqrt(3) alpha standard deviations out.
    """
    axes = (quat_to_rotation(gaussian.quat) * gaussian.scale).T
    steps = math.sqrt(3) * spread * jnp.concatenate([jnp.zeros((1, 3)), axes, -axes])
    landing = land(gaussian.mean + steps, camera)
    weight = 1 / (6 * spread**2)
    offsets = landing.pixels[1:] - landing.pixels[0]
    shift = weight * jnp.sum(offsets, axis=0)
    around = offsets - shift
    central = (1 - 1 / spread**2) + (1 - spread**2 + BETA)
    covariance = central * jnp.outer(shift, shift) + weight * around.T @ around
    return landing.pixels[0] + shift, covariance, landing


class Gaussian3DUT(RawGaussian):
    """An anisotropic 3D Gaussian, met along the ray. See `RawGaussian` for its parameters.

    Attributes:
      variant: whose rules of blending, one of `SPLATS`. Static.
      spread: alpha of the unscented transform: 1 in 3dgrut, 0.1 in gsplat. Static.
      eps2d: px^2 that the box's variance grows by. Static.
      normals: whether to blend normals, as `Output.features`. Static.
    """

    variant: str = struct.field(pytree_node=False, default="3dgrut")
    spread: float = struct.field(pytree_node=False, default=1.0)
    eps2d: float = struct.field(pytree_node=False, default=0.3)
    normals: bool = struct.field(pytree_node=False, default=False)

    def project(self, camera: Camera) -> Projected:
        """The Gaussian in the frame of the world, and its box, which is not differentiated."""
        gaussian = self.seen_from(camera)
        a, b, c = quat_to_rotation(gaussian.quat).T / gaussian.scale[:, None]
        whiten = Vec3.of(a), Vec3.of(b), Vec3.of(c)
        mean, color = Vec3.of(gaussian.mean), Vec3.of(gaussian.color)
        record = SPLATS[self.variant](mean, whiten, gaussian.opacity, color, self.normals)
        return Projected(record, *self._place(jax.lax.stop_gradient(gaussian), camera))

    def _place(self, gaussian: Gaussian, camera: Camera) -> tuple[Array, Array, Array]:
        """Centre and extent of the box, and the sort key."""
        camera = jax.lax.stop_gradient(camera)
        mean, covariance, landing = unscented(gaussian, camera, self.spread)
        reach = jnp.sqrt(2 * jnp.log(jnp.maximum(gaussian.opacity / RaySplat.blend.alpha_min, 1)))
        half = reach * jnp.sqrt(jnp.diag(covariance) + self.eps2d)
        rotation = quat_to_rotation(gaussian.quat)
        corners = land(outline(gaussian.mean, rotation, reach * gaussian.scale, camera), camera)
        pixels = jnp.concatenate([corners.pixels, jnp.stack([mean - half, mean + half])])
        center, extent = box(pixels, corners, camera)
        there = camera.to_camera(gaussian.mean)
        kept = camera.sees(there) & jnp.any(landing.within(camera, MARGIN)) & (reach > 0)
        return center, jnp.where(kept, extent, 0), camera.sort_key(gaussian.mean)


class SortedGaussian3DUT(Gaussian3DUT):
    """The same, with its hits in the order of their distance."""

    variant: str = struct.field(pytree_node=False, default="3dgrut-sorted")
