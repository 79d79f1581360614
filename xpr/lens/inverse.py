"""The inverse of whatever has none in closed form."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

Array = jax.Array

NEWTON_STEPS = 8  # doubles the digits each time; float64 needs four from a start of two digits


def invert(
    f: Callable[[Array, Array], Array], y: Array, k: Array, *, start: Array, bound: Array
) -> Array:
    """x [2] with f(x, k) = y [2], by Newton's method, differentiable in y and k.

    The search itself is not differentiated; one last step from the solution, with the slope held
    fixed, carries the exact first derivatives (the implicit function theorem).

    Args:
      f: smooth.
      y: what f is to reach.
      k: what else f depends on.
      start: [2], near the solution.
      bound: no component of x leaves [-bound, bound], where f must be finite.

    Returns:
      [2]; finite, but no solution, where f does not reach y.
    """

    def step(x: Array, y: Array, k: Array) -> Array:
        slope = jax.lax.stop_gradient(jax.jacfwd(f)(jax.lax.stop_gradient(x), k))
        return jnp.clip(x - _solve(slope, f(x, k) - y), -bound, bound)

    fixed = jax.lax.stop_gradient
    x = jax.lax.fori_loop(
        0, NEWTON_STEPS, lambda _, x: step(x, fixed(y), fixed(k)), fixed(start), unroll=False
    )
    return step(fixed(x), y, k)


def _solve(m: Array, v: Array) -> Array:
    """m^-1 v for a [2, 2] matrix; a singular one moves nothing."""
    det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    adjugate = jnp.array([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]])
    return jnp.where(det == 0, 0, adjugate @ v / jnp.where(det == 0, 1, det))
