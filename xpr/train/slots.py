"""The padded slots that a scene is trained in: [cap] primitives, of which some are alive."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from xpr.types import Array, Primitive, count

P = TypeVar("P", bound=Primitive)


def padded(scene: P, cap: int) -> tuple[P, Array]:
    """The scene in `cap` slots, and which of them are alive [cap] bool.

    The dead slots repeat the first primitive, so that no arithmetic on them is undefined.
    """
    n = count(scene)
    slots = jnp.where(jnp.arange(cap) < n, jnp.arange(cap), 0)
    return take(scene, slots), jnp.arange(cap) < n


def compact(scene: P, alive: Any) -> P:
    """The living primitives alone, as numpy arrays."""
    kept = np.asarray(alive)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[kept], scene)


def take(scene: P, index: Array) -> P:
    """The primitives at `index` [M]."""
    return jax.tree.map(lambda leaf: leaf[index], scene)


def where(chosen: Array, one: P, other: P) -> P:
    """Primitives of `one` where `chosen` [N] (or [], for all at once), else of `other`."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(chosen.reshape(chosen.shape + (1,) * (a.ndim - chosen.ndim)), a, b)

    return jax.tree.map(pick, one, other)


def all_finite(scene: Primitive) -> Array:
    """[N] bool: whether every number of a primitive is finite."""

    def finite(leaf: Array) -> Array:
        return jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim)))

    return jnp.all(jnp.stack([finite(leaf) for leaf in jax.tree.leaves(scene)]), axis=0)
