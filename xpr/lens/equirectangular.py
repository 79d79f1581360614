"""The panorama: longitude across, latitude down."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array, Lens
from xpr.math import safe_norm


class Equirectangular(Lens):
    """All directions; x is the angle to the right and y the angle downwards, in radians.

    It has a seam behind the camera and poles above and below, where a method that draws on the
    image plane shows a splat on one side only; a method along the ray does not mind.
    """

    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True

    def project(self, point: Array, k: Array) -> Array:
        """atan2(x, z), atan2(y, hypot(x, z))."""
        level = point[jnp.array([0, 2])]
        pole = safe_norm(level) == 0
        x, z = jnp.where(pole, 0, level[0]), jnp.where(pole, 1, level[1])
        across = jnp.where(pole, 0, safe_norm(level))
        return jnp.stack([jnp.arctan2(x, z), jnp.arctan2(point[1], across)])

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """The direction at a longitude and a latitude."""
        longitude, latitude = xy
        level = jnp.cos(latitude)
        direction = [jnp.sin(longitude) * level, jnp.sin(latitude), jnp.cos(longitude) * level]
        return jnp.zeros(3, xy.dtype), jnp.stack(direction)

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Far enough from the centre."""
        return safe_norm(point) > near

    def covers(self, xy: Array, k: Array) -> Array:
        """Once round, and from pole to pole."""
        return (jnp.abs(xy[0]) <= math.pi) & (jnp.abs(xy[1]) <= math.pi / 2)
