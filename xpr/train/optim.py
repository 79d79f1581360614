"""Adam with one rate a field, and what changes over a run."""

from __future__ import annotations

from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from xpr.train.config import FULL_RUN
from xpr.train.slots import all_finite, where
from xpr.types import Array, Primitive

P = TypeVar("P", bound=Primitive)

adam = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-15)
FINAL_RATE = 0.01  # of the position's rate, at the end of the run
STEPS_PER_BAND = 1000  # of a full run, until one more harmonic band is used


def decay(step: Array, steps: ArrayLike) -> Array:
    """What is left of the position's rate: from 1 exponentially to `FINAL_RATE` at the last step. []."""
    return jnp.power(FINAL_RATE, step / steps)


def rates(scene: P, extent: float, batch: int = 1) -> P:
    """The learning rate of every field at the start: the method's own, as a tree like `scene`.

    Args:
      scene: any number of primitives of the method.
      extent: of the scene, world units.
      batch: views a step; rates grow with its square root, as the noise of the gradient falls.
    """
    per_field = jax.tree.leaves(type(scene).learning_rates(extent))
    return jax.tree.unflatten(jax.tree.structure(scene), [r * batch**0.5 for r in per_field])


def decayed(rate: P, left: Array) -> P:
    """The rates with that of the method's position times `left` []."""
    name = type(rate).position_field
    return rate.replace(**{name: getattr(rate, name) * left})


def start(scene: Primitive) -> optax.ScaleByAdamState:
    """Moments of zero for every number of the scene."""
    return cast(optax.ScaleByAdamState, adam.init(cast(optax.Params, scene)))


def ascent(gradient: P, moments: optax.ScaleByAdamState) -> tuple[P, optax.ScaleByAdamState]:
    """Adam's direction for a gradient, and the moments after it."""
    direction, after = adam.update(cast(optax.Updates, gradient), moments)
    return cast(P, direction), cast(optax.ScaleByAdamState, after)


def descend(scene: P, direction: P, rate: P) -> P:
    """One step against Adam's direction, each field at its own rate."""
    return jax.tree.map(lambda x, d, r: x - (r * d).astype(x.dtype), scene, direction, rate)


def steps_per_band(steps: int) -> int:
    """How many steps each harmonic band is given before the next is used: 1000 of 30,000."""
    return max(round(STEPS_PER_BAND * steps / FULL_RUN), 1)


def warming(scene: P, degree: Array) -> P:
    """The scene with only its bands up to `degree` [] in use. See `Primitive.active`."""
    return jax.vmap(lambda primitive: primitive.active(degree))(scene)


def masked(gradient: P, alive: Array) -> tuple[P, Array]:
    """The gradient without dead slots and without splats where it is not finite.

    Args:
      gradient: like the scene, [N] primitives.
      alive: [N] bool.

    Returns:
      The gradient, and [] how many living splats were left out because theirs was not finite.
    """
    finite = all_finite(gradient)
    kept = alive & finite
    return where(kept, gradient, jax.tree.map(jnp.zeros_like, gradient)), jnp.sum(alive & ~finite)
