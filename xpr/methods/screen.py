"""Boxes on the image plane around a few world-space points: what the ray methods share."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.types import Array


class Landing(NamedTuple):
    """Where points land.

    Attributes:
      pixels: [n, 2] px; meaningless where not `seen`.
      seen: [n] bool, whether the point can have an image.
    """

    pixels: Array
    seen: Array

    def within(self, camera: Camera, margin: float) -> Array:
        """Which points are seen inside the picture, grown by `margin` of its size. [n] bool."""
        size = jnp.array([camera.width, camera.height], self.pixels.dtype)
        inside = (self.pixels > -margin * size) & (self.pixels < (1 + margin) * size)
        return self.seen & jnp.all(inside, axis=-1)


def land(points: Array, camera: Camera) -> Landing:
    """Project world points [n, 3]."""

    def one(point: Array) -> tuple[Array, Array]:
        there = camera.to_camera(point)
        seen = camera.sees(there)
        return camera.to_pixel(jnp.where(seen, there, jnp.array([0, 0, 1], there.dtype))), seen

    return Landing(*jax.vmap(one)(points))


def box(low: Array, high: Array, landing: Landing, camera: Camera) -> tuple[Array, Array]:
    """Centre and half size (px) of [low, high], or of the whole picture where a point is unseen.

    What reaches behind the camera may show anywhere.
    """
    size = jnp.array([camera.width, camera.height], low.dtype)
    whole = jnp.all(landing.seen)
    low, high = jnp.where(whole, low, 0), jnp.where(whole, high, size)
    return 0.5 * (low + high), 0.5 * (high - low)
