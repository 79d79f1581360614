"""What a run is between two steps: one tree of arrays."""

from __future__ import annotations

import functools
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
import optax
from flax import struct

from xpr.train import optim
from xpr.train.refine import Refinement
from xpr.train.slots import padded
from xpr.types import Array, Primitive

P = TypeVar("P", bound=Primitive)


class TrainState(struct.PyTreeNode, Generic[P]):
    """Everything that a step changes.

    Attributes:
      scene: [cap] primitives.
      alive: [cap] bool, the slots in use.
      moments: Adam's, of the same shape.
      key: PRNG key of the run; every step derives its own from it.
      step: [] int32, steps done.
      refinement: of the cameras; None where they stay as the dataset has them.
    """

    scene: P
    alive: Array
    moments: optax.ScaleByAdamState
    key: Array
    step: Array
    refinement: Refinement | None = None

    @classmethod
    def start(
        cls, scene: P, cap: int, key: Array, refinement: Refinement | None = None
    ) -> TrainState[P]:
        """The state before the first step, padded to `cap` slots."""
        return _started(scene, key, refinement, cap=cap)


@functools.partial(jax.jit, static_argnames="cap")
def _started(scene: P, key: Array, refinement: Refinement | None, *, cap: int) -> TrainState[P]:
    slots, alive = padded(scene, cap)
    # A buffer of its own for every leaf: a donated one must not be given twice.
    state = TrainState(slots, alive, optim.start(slots), key, jnp.int32(0), refinement)
    return jax.tree.map(lambda leaf: leaf.copy(), state)
