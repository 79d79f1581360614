"""How the gradients of a tile's pixels become those of a splat: three ways, equal in what they sum.

`atomics`: every pixel adds its own to the splat's. `reduced`: the block's pixels are summed first
and added once, unless so few of them see the splat that adding them one by one is cheaper (DISTWAR,
Durvasula et al. 2023). `rows`: every pair has a row of its own, and the rows of a splat are summed
up afterwards, in an order that is always the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from xpr.pipeline.frame import Pairs
from xpr.pipeline.settings import ACCUMULATIONS
from xpr.types import Array

# Add scalars, or one element of a [P] array for each pixel of a mask, to one number in memory.
Add = Callable[[Any, tuple[Array, int], Array, Array | None], None]


@dataclasses.dataclass(frozen=True)
class Accumulation:
    """One of the three ways.

    Attributes:
      mode: its name.
      threshold: pixels that must see a splat for `reduced` to sum them first.
      add: the dialect's atomic addition.
    """

    mode: str
    threshold: int
    add: Add

    def start(self, pairs: Pairs, splats: int, width: int, dtype: Any) -> Array:
        """Zeros for the kernel to add to: a row for each pair or splat."""
        assert self.mode in ACCUMULATIONS
        length = len(pairs.ids) if self.mode == "rows" else splats
        return jnp.zeros((length, width), dtype)

    def emit(self, out: Any, place: Array, rank: Array, lit: Array, grads: list[Array]) -> None:
        """Inside the kernel: add the gradients [P] of one pair's pixels to `out`.

        Args:
          out: reference to what `start` made.
          place: [] of the pair.
          rank: [] of the splat.
          lit: [P] the pixels that the splat is blended into; elsewhere the gradients are zero.
          grads: one array a parameter.
        """
        seen = jnp.sum(lit.astype(jnp.int32))

        def row() -> None:
            for i, g in enumerate(grads):
                out[place, i] = jnp.sum(g)

        def once() -> None:
            for i, g in enumerate(grads):
                self.add(out, (rank, i), jnp.sum(g), None)

        def each() -> None:
            for i, g in enumerate(grads):
                self.add(out, (rank, i), g, lit)

        if self.mode == "rows":
            pl.when(seen > 0)(row)
        elif self.mode == "atomics":
            pl.when(seen > 0)(each)
        else:
            pl.when(seen >= jnp.maximum(self.threshold, 1))(once)
            pl.when((seen > 0) & (seen < self.threshold))(each)

    def finish(self, out: Array, pairs: Pairs, splats: int) -> Array:
        """The splats' gradients, from what the kernel has made of `start`."""
        if self.mode != "rows":
            return out
        listed = jnp.arange(len(pairs.ids), dtype=pairs.starts.dtype) < pairs.starts[-1]
        return segment_sum(out, jnp.where(listed, pairs.ids, splats), splats)


def segment_sum(rows: Array, segments: Array, count: int) -> Array:
    """Sum rows [M, K] that belong to the same segment, to [count, K], without atomic additions.

    The rows are sorted, and each takes in those of its segment that follow, 1, 2, 4, ... at a time.
    So the order of the additions depends on nothing but the segments' lengths.

    Args:
      rows: to be summed.
      segments: [M] of each row; those from `count` on are left out.
      count: number of segments.
    """
    segments, order = jax.lax.sort_key_val(segments, jnp.arange(len(rows), dtype=segments.dtype))
    bounds = jnp.searchsorted(segments, jnp.arange(count + 1, dtype=segments.dtype))
    lengths = jnp.diff(bounds)
    longest, last = jnp.max(lengths), len(rows) - 1

    def goes_on(state: tuple[Array, Array]) -> Array:
        return state[0] < longest

    def double(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reach, sums = state
        ahead = jnp.arange(len(rows)) + reach
        there = jnp.minimum(ahead, last)
        follows = (ahead <= last) & (segments[there] == segments)
        return 2 * reach, sums + jnp.where(follows[:, None], sums[there], 0)

    start = (jnp.ones_like(longest), rows[order])
    _, sums = jax.lax.while_loop(goes_on, double, start)
    return jnp.where(lengths[:, None] > 0, sums[jnp.minimum(bounds[:-1], last)], 0)
