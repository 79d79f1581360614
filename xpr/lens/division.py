"""The division lens (Fitzgibbon 2001)."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array, Lens, from_centre
from xpr.math import safe_norm


class Division(Lens):
    """COLMAP's DIVISION: the ray through (x, y) of the image is (x, y, 1 + k r^2).

    With k < 0 it sees beside and behind its plane, with k > 0 as far as the radius grows.
    """

    coefficients: ClassVar[tuple[str, ...]] = ("k",)
    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True

    def project(self, point: Array, k: Array) -> Array:
        """The smaller root of a quadratic: 2 / (z + sqrt(z^2 - 4 k (x^2 + y^2)))."""
        inside = _discriminant(point, k)
        below = point[2] + jnp.sqrt(jnp.where(inside > 0, inside, 1))
        return point[:2] * 2 / jnp.where(below > 0, below, 1)

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """By definition."""
        return from_centre(jnp.append(xy, 1 + k[0] * xy @ xy))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Far enough, and where the quadratic has a root."""
        inside = _discriminant(point, k)
        below = point[2] + jnp.sqrt(jnp.maximum(inside, 0))
        return (safe_norm(point) > near) & (inside > 0) & (below > 1e-6 * safe_norm(point))

    def covers(self, xy: Array, k: Array) -> Array:
        """Where the radius of the ray grows with that of the image."""
        return k[0] * xy @ xy < 1


def _discriminant(point: Array, k: Array) -> Array:
    return point[2] ** 2 - 4 * k[0] * point[:2] @ point[:2]
