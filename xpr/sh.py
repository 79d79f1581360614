"""Real spherical harmonics with the sign convention of 3DGS, degrees 0 to 4.

Basis functions as in Sloan, "Efficient Spherical Harmonic Evaluation" (JCGT 2013), as polynomials
of the unit direction; the signs follow the original 3DGS code.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

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


def rotation(turn: np.ndarray, degree: int) -> np.ndarray:
    """What an orthogonal map does to coefficients: colours turn with the scene.

    Found by evaluating the basis B at fixed directions d and solving B(d) R = B(turn^-1 d), which
    rounding alone limits: the turned functions lie in the span of the basis.

    Args:
      turn: [3, 3] orthogonal, new-world-from-old; a reflection will do.
      degree: 0 to 4.

    Returns:
      [K, K] float64; new coefficients are R @ old.
    """
    return _rotation(np.asarray(turn, np.float64).tobytes(), degree)


@functools.lru_cache(maxsize=64)
def _rotation(turn: bytes, degree: int) -> np.ndarray:
    """`rotation` of the matrix whose bytes these are: the same few turns come again and again."""
    matrix = np.frombuffer(turn).reshape(3, 3)
    directions = _directions(4 * coefficients(degree))
    with jax.enable_x64(True):
        seen = jax.vmap(lambda d: basis(d, degree))
        before, after = (np.asarray(seen(d)) for d in (directions, directions @ matrix))
    found = np.linalg.lstsq(before, after, rcond=None)[0]
    # A flip of axes gives exact signs: what is an integer but for rounding becomes one.
    found = np.where(np.abs(found - np.rint(found)) < 1e-12, np.rint(found), found)
    found.setflags(write=False)
    return found


def _directions(count: int) -> np.ndarray:
    """Unit vectors [count, 3] that cover the sphere evenly (a golden spiral)."""
    i = np.arange(count) + 0.5
    z, angle = 1 - 2 * i / count, np.pi * (1 + math.sqrt(5)) * i
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=-1)


def color(sh: Array, direction: Array) -> Array:
    """The linear RGB of 3DGS: `lit` of what `evaluate` gives. [3]."""
    return lit(evaluate(sh, direction))


def lit(rgb: Array) -> Array:
    """What 3DGS makes of a sum of harmonics: 0.5 is added, and it is at least 0. [3] -> [3].

    What is not finite stays so: -inf must not pass for black, its gradients are NaN.
    """
    rgb = rgb + 0.5
    return jnp.where((rgb < 0) & jnp.isfinite(rgb), 0, rgb)
