"""Small geometric functions with no knowledge of rendering."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def safe_norm(v: Array) -> Array:
    """Length over the last axis, with gradient zero (not NaN) at zero. [..., n] -> [...]."""
    squared = jnp.sum(v * v, axis=-1)
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1)), 0)


def normalize(v: Array) -> Array:
    """Unit vector over the last axis; a zero vector stays zero, with gradient zero. [..., n]."""
    squared = jnp.sum(v * v, axis=-1, keepdims=True)
    zero = squared == 0
    return jnp.where(zero, 0, v * jax.lax.rsqrt(jnp.where(zero, 1, squared)))


def quat_to_rotation(quat: Array) -> Array:
    """Rotation matrix of a quaternion.

    Args:
      quat: [4] as (w, x, y, z), of any norm; zero stands for the identity.

    Returns:
      [3, 3] world-from-local rotation, same dtype.
    """
    w, x, y, z = normalize(quat)
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def inverse_3x3(m: Array) -> Array:
    """Inverse of a regular [3, 3] matrix by cofactors (cheap, and differentiable anywhere)."""
    a, b, c = m
    cofactors = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=1)
    return cofactors / jnp.dot(a, cofactors[:, 0])


def logit(p: Array) -> Array:
    """Inverse of the sigmoid, for p in (0, 1)."""
    return jnp.log(p) - jnp.log1p(-p)
