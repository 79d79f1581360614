"""Real spherical harmonics with the sign convention of 3DGS, degrees 0 to 4.

Basis functions as in Sloan, "Efficient Spherical Harmonic Evaluation" (JCGT 2013), as polynomials
of the unit direction; the signs follow the original 3DGS code.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

Array = jax.Array

MAX_DEGREE = 4
C0 = 0.5 / math.sqrt(math.pi)


def coefficients(degree: int) -> int:
    """How many coefficients a degree has: (degree + 1)^2."""
    return (degree + 1) ** 2


def degree_of(count: int) -> int:
    """The degree that has `count` coefficients.

    Raises:
      ValueError: when no degree up to 4 has.
    """
    for degree in range(MAX_DEGREE + 1):
        if coefficients(degree) == count:
            return degree
    raise ValueError(f"sh has {count} coefficients per colour, expected 1, 4, 9, 16 or 25.")


def band_of(index: int) -> int:
    """The degree l of the basis function with this index."""
    return math.isqrt(index)


def basis(direction: Array, degree: int) -> Array:
    """The (degree + 1)^2 basis functions.

    Args:
      direction: [3] unit vector.
      degree: 0 to 4.

    Returns:
      [(degree + 1)^2], ordered by degree l, then m from -l to l.
    """
    x, y, z = direction
    xx, yy, zz = x * x, y * y, z * z
    k = [math.sqrt(n / math.pi) for n in (3, 15, 5, 35 / 2, 105, 21 / 2, 7)]
    bands = [
        [C0 * jnp.ones_like(x)],
        [-k[0] / 2 * y, k[0] / 2 * z, -k[0] / 2 * x],
        [
            k[1] / 2 * x * y,
            -k[1] / 2 * y * z,
            k[2] / 4 * (2 * zz - xx - yy),
            -k[1] / 2 * x * z,
            k[1] / 4 * (xx - yy),
        ],
        [
            -k[3] / 4 * y * (3 * xx - yy),
            k[4] / 2 * x * y * z,
            -k[5] / 4 * y * (4 * zz - xx - yy),
            k[6] / 4 * z * (2 * zz - 3 * xx - 3 * yy),
            -k[5] / 4 * x * (4 * zz - xx - yy),
            k[4] / 4 * z * (xx - yy),
            -k[3] / 4 * x * (xx - 3 * yy),
        ],
        _band_4(x, y, z),
    ]
    return jnp.stack([f for band in bands[: degree + 1] for f in band])


def _band_4(x: Array, y: Array, z: Array) -> list[Array]:
    xx, yy, zz = x * x, y * y, z * z
    k = [math.sqrt(n / math.pi) for n in (35, 35 / 2, 5, 5 / 2)]
    return [
        3 / 4 * k[0] * x * y * (xx - yy),
        -3 / 4 * k[1] * y * z * (3 * xx - yy),
        3 / 4 * k[2] * x * y * (7 * zz - 1),
        -3 / 4 * k[3] * y * z * (7 * zz - 3),
        3 / 16 / math.sqrt(math.pi) * (zz * (35 * zz - 30) + 3),
        -3 / 4 * k[3] * x * z * (7 * zz - 3),
        3 / 8 * k[2] * (xx - yy) * (7 * zz - 1),
        -3 / 4 * k[1] * x * z * (xx - 3 * yy),
        3 / 16 * k[0] * (xx * (xx - 3 * yy) - yy * (3 * xx - yy)),
    ]


def evaluate(sh: Array, direction: Array) -> Array:
    """The colour that coefficients `sh` [K, 3] give in a unit direction [3], without offset. [3]."""
    return basis(direction, degree_of(sh.shape[0])) @ sh


def color(sh: Array, direction: Array) -> Array:
    """The linear RGB of 3DGS: that of `evaluate` plus 0.5, at least 0. [3].

    What is not finite stays so: -inf must not pass for black, its gradients are NaN.
    """
    rgb = evaluate(sh, direction) + 0.5
    return jnp.where((rgb < 0) & jnp.isfinite(rgb), 0, rgb)
