"""Lenses that keep every straight line straight."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array, Lens, from_centre


class Pinhole(Lens):
    """A perspective camera without distortion."""

    pinhole: ClassVar[bool] = True

    def project(self, point: Array, k: Array) -> Array:
        """x/z, y/z."""
        return point[:2] / point[2]

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """Rays leave the camera's centre."""
        return from_centre(jnp.append(xy, 1))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near

    def covers(self, xy: Array, k: Array) -> Array:
        """Everywhere."""
        return jnp.bool_(True)


class Orthographic(Lens):
    """Parallel rays along z: size on the screen does not depend on depth."""

    perspective: ClassVar[bool] = False
    central: ClassVar[bool] = False

    def project(self, point: Array, k: Array) -> Array:
        """x, y; K's focal lengths are px per world unit."""
        return point[:2]

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """Rays leave the plane z = 0."""
        zero = jnp.zeros_like(xy[:1])
        return jnp.append(xy, zero), jnp.concatenate([zero, zero, zero + 1])

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near

    def covers(self, xy: Array, k: Array) -> Array:
        """Everywhere."""
        return jnp.bool_(True)
