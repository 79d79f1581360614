"""The field-of-view lens (Devernay and Faugeras 2001)."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array, Lens, from_centre
from xpr.math import safe_norm

SMALL = 1e-4  # in radians, below which both functions equal the first terms of their series


class Fov(Lens):
    """COLMAP's FOV: equal angles are equal distances, for an ideal lens as wide as `omega` (rad).

    Valid in front of the camera; the image ends where the angle would reach 90 degrees.
    """

    coefficients: ClassVar[tuple[str, ...]] = ("omega",)

    def project(self, point: Array, k: Array) -> Array:
        """The radius becomes atan(2 r tan(omega/2)) / omega."""
        flat = point[:2] / point[2]
        widening = _widening(k[0])
        angle = safe_norm(flat) * widening * k[0]
        small = jnp.abs(angle) < SMALL
        shrink = jnp.where(small, 1 - angle * angle / 3, jnp.arctan(angle) / _or_one(angle, small))
        return flat * widening * shrink

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """tan(r omega) / (2 tan(omega/2))."""
        angle = jnp.minimum(safe_norm(xy) * k[0], math.pi / 2 - SMALL)
        small = jnp.abs(angle) < SMALL
        stretch = jnp.where(small, 1 + angle * angle / 3, jnp.tan(angle) / _or_one(angle, small))
        return from_centre(jnp.append(xy * stretch / _widening(k[0]), 1))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near

    def covers(self, xy: Array, k: Array) -> Array:
        """Up to 90 degrees off the axis."""
        return safe_norm(xy) * k[0] < math.pi / 2 - SMALL


def _widening(omega: Array) -> Array:
    """2 tan(omega/2) / omega, the scale at the centre; 1 for an ideal pinhole."""
    small = jnp.abs(omega) < SMALL
    wide = 2 * jnp.tan(omega / 2) / _or_one(omega, small)
    return jnp.where(small, 1 + omega * omega / 12, wide)


def _or_one(x: Array, small: Array) -> Array:
    return jnp.where(small, 1, x)
