"""Drawing items in proportion to their weights, however many there are."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

Array = jax.Array


def draw(key: Array, weights: Array, count: int) -> Array:
    """`count` indices, drawn with replacement in proportion to `weights`.

    One running sum over N weights in float32 loses the small ones beyond 2^24 items. So the items
    lie in about sqrt(N) blocks: one uniform number picks a block, another one an item inside it,
    and each running sum is only sqrt(N) long.

    Args:
      key: PRNG key.
      weights: [N] not negative, at least one positive (else the indices mean nothing).
      count: static.

    Returns:
      [count] int32. An item of weight zero is never drawn.
    """
    width = math.isqrt(len(weights) - 1) + 1
    blocks = -(-len(weights) // width)
    table = jnp.pad(weights, (0, blocks * width - len(weights))).reshape(blocks, width)
    within = jnp.cumsum(table, axis=1)
    across = jnp.cumsum(within[:, -1])
    to_block, to_item = jax.random.uniform(key, (2, count), weights.dtype)
    block = _first_above(across, to_block * across[-1], jnp.zeros(count, jnp.int32), blocks)
    start = block * width
    item = _first_above(within.ravel(), to_item * within[block, -1], start, width)
    return _weighted(weights, item)


def _first_above(sums: Array, target: Array, start: Array, width: int) -> Array:
    """The first index in [start, start + width) whose running sum exceeds `target`. [M]."""

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        above = sums[middle] > target
        return jnp.where(above, low, middle + 1), jnp.where(above, middle, high)

    halvings = max(width - 1, 1).bit_length()
    low, _ = jax.lax.fori_loop(0, halvings, halve, (start, start + width - 1))
    return low


def _weighted(weights: Array, index: Array) -> Array:
    """`index`, or the heaviest item where rounding at a block's end led to one of weight zero."""
    sound = (index < len(weights)) & (weights[jnp.minimum(index, len(weights) - 1)] > 0)
    return jnp.where(sound, index, jnp.argmax(weights))
