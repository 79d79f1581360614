"""Adam with one rate a field, and what changes over a run."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import optax

from xpr.train.config import FULL_RUN
from xpr.train.slots import all_finite, where
from xpr.types import Array, Primitive

P = TypeVar("P", bound=Primitive)

adam = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-15)
FINAL_RATE = 0.01  # of a decaying rate, at the end of the run
STEPS_PER_BAND = 1000  # of a full run, until one more harmonic band is used


def decay(step: Array, steps: int) -> Array:
    """What is left of a decaying rate: from 1 exponentially to `FINAL_RATE` at the last step. []."""
    return FINAL_RATE ** (step / max(steps, 1))


def rates(scene: P, extent: float, shrunk: Array, batch: int = 1) -> P:
    """The learning rate of every field: the method's own, as a tree like `scene`.

    Args:
      scene: any number of primitives of the method.
      extent: of the scene, world units.
      shrunk: [] what `decay` left of the method's `decaying` fields.
      batch: views a step; rates grow with its square root, as the noise of the gradient falls.
    """
    method = type(scene)
    start = method.learning_rates(extent)
    decayed = {name: getattr(start, name) * shrunk for name in method.decaying}
    per_field = jax.tree.leaves(start.replace(**decayed))
    return jax.tree.unflatten(jax.tree.structure(scene), [r * batch**0.5 for r in per_field])


def descend(scene: P, direction: P, rate: P) -> P:
    """One step against Adam's direction, each field at its own rate."""
    return jax.tree.map(lambda x, d, r: x - (r * d).astype(x.dtype), scene, direction, rate)


def active_degree(step: Array, steps: int) -> Array:
    """The highest harmonic band in use: one more every 1000 of 30,000 steps. [] int."""
    return step // max(round(STEPS_PER_BAND * steps / FULL_RUN), 1)


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
