"""Small geometric functions with no knowledge of rendering."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array

SMALL = 1e-8  # of a squared angle: below it a series of two terms is exact to float64


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


def cross_matrix(w: Array) -> Array:
    """The matrix [3, 3] that takes v to w x v, for w [3]."""
    x, y, z = w
    zero = jnp.zeros_like(x)
    return jnp.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])


def turn_weights(squared: Array) -> tuple[Array, Array]:
    """Of the cross matrix of w and of its square in `rotation_exp(w)`, from |w|^2 (Rodrigues)."""
    half = _sinc(squared / 4)
    return _sinc(squared), 0.5 * half * half


def rotation_exp(w: Array) -> Array:
    """The rotation [3, 3] by |w| radians about the axis w [3]; smooth at zero."""
    cross, (once, twice) = cross_matrix(w), turn_weights(w @ w)
    return jnp.eye(3, dtype=w.dtype) + once * cross + twice * cross @ cross


def rotation_log(rotation: Array) -> Array:
    """The vector w [3] with `rotation_exp(w)` = rotation [3, 3], for angles below pi."""
    odd = rotation - rotation.T
    v = 0.5 * jnp.stack([odd[2, 1], odd[0, 2], odd[1, 0]])  # the axis times the angle's sine
    sine2, cosine = v @ v, 0.5 * (jnp.trace(rotation) - 1)
    small = sine2 < SMALL
    sine = jnp.sqrt(jnp.where(small, 1, sine2))
    return v * jnp.where(small, 1 + sine2 / 6, jnp.arctan2(sine, cosine) / sine)


def _sinc(squared: Array) -> Array:
    """sin(x)/x of x^2."""
    small = squared < SMALL
    x = jnp.sqrt(jnp.where(small, 1, squared))
    return jnp.where(small, 1 - squared / 6, jnp.sin(x) / x)
