"""The enhanced unified camera model (Khomutenko et al. 2016)."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array, Lens, from_centre
from xpr.math import safe_norm

LEAST = 1e-6  # of the distance: closer to its horizon the lens is not used


class Eucm(Lens):
    """COLMAP's EUCM: points land on an ellipsoid of shape `beta`, seen from `alpha` off its centre.

    With alpha > 1/2 it sees behind its plane, and its image is a disc.
    """

    coefficients: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True

    def project(self, point: Array, k: Array) -> Array:
        """(x, y) / (alpha d + (1 - alpha) z), d^2 = beta (x^2 + y^2) + z^2."""
        below = k[0] * _distance(point, k) + (1 - k[0]) * point[2]
        return point[:2] / jnp.where(below > 0, below, 1)

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """The inverse in closed form."""
        alpha, beta = k
        r2 = beta * xy @ xy
        inside = 1 - (2 * alpha - 1) * r2
        root = jnp.sqrt(jnp.where(inside > 0, inside, 1))
        return from_centre(jnp.append(xy, (1 - alpha**2 * r2) / (alpha * root + 1 - alpha)))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Far enough, and on this side of the lens's horizon."""
        alpha, d = k[0], _distance(point, k)
        low, high = jnp.minimum(alpha, 1 - alpha), jnp.maximum(alpha, 1 - alpha)
        return (safe_norm(point) > near) & (point[2] > (LEAST - low / high) * d)

    def covers(self, xy: Array, k: Array) -> Array:
        """Within the disc that the horizon is."""
        return (2 * k[0] - 1) * k[1] * xy @ xy < 1 - LEAST


def _distance(point: Array, k: Array) -> Array:
    d2 = k[1] * point[:2] @ point[:2] + point[2] ** 2
    return jnp.sqrt(jnp.where(d2 > 0, d2, 1))
