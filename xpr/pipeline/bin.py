"""Binning: which splats touch which tile, front to back."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.frame import Frame, Pairs
from xpr.pipeline.grid import Grid
from xpr.types import Array, Splat, Vec2

BOX_MARGIN = 1e-2  # px: rounding of the box must not cost a pixel at its border
BOUND_SLACK = 0.999  # likewise for the bound of alpha


class Rectangles(NamedTuple):
    """Tiles under each splat's box: columns x0 <= x < x1, rows y0 <= y < y1. int32 [V] each."""

    x0: Array
    y0: Array
    x1: Array
    y1: Array

    @property
    def counts(self) -> Array:
        """Tiles a splat."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)


def rectangles(low: Array, high: Array, valid: Array, grid: Grid) -> Rectangles:
    """The tiles that boxes [V, 2] (px) cover; none for an invalid one."""
    rows, columns = grid.shape

    def tile(edge: Array, limit: int) -> Array:
        return jnp.clip(edge / grid.tile_size, 0, limit).astype(jnp.int32)

    low, high = low - BOX_MARGIN, high + BOX_MARGIN
    x0, y0 = tile(jnp.floor(low[:, 0]), columns), tile(jnp.floor(low[:, 1]), rows)
    beyond = grid.tile_size - 1
    x1 = tile(jnp.ceil(high[:, 0]) + beyond, columns)
    y1 = tile(jnp.ceil(high[:, 1]) + beyond, rows)
    return Rectangles(x0, y0, jnp.where(valid, x1, x0), jnp.where(valid, y1, y0))


def pair(frame: Frame, boxes: Rectangles, capacity: int) -> Pairs:
    """Expand boxes to pairs, leave out tiles the splat misses, and sort.

    Args:
      frame: its splats, nearest first, and its tiles.
      boxes: the tiles under each splat's box.
      capacity: M, the number of pairs reserved; what goes beyond it is left out.
    """
    splats, grid = jax.lax.stop_gradient(frame.splats), frame.grid
    rank, column, row, valid = _expand(boxes, capacity)
    size = grid.tile_size
    low = Vec2(column * size + 0.5, row * size + 0.5)
    high = Vec2(low.x + (size - 1), low.y + (size - 1))
    bound = _gather(splats, rank).tile_bound(*_as(jax.tree.leaves(splats)[0].dtype, low, high))
    # A bound that is not a number leaves out nothing.
    touches = valid & ~(bound < BOUND_SLACK * splats.blend.alpha_min)
    tile = row * grid.shape[1] + column
    ids, starts = _sort(tile, rank, touches, grid.tiles, len(boxes.x0))
    return Pairs(ids, starts)


def _expand(boxes: Rectangles, capacity: int) -> tuple[Array, Array, Array, Array]:
    """(splat, column, row, valid) of each pair [M], splat after splat.

    A one at each splat's first pair, summed up, counts the splats so far.
    """
    counts = boxes.counts
    with jax.enable_x64(True):
        ends = jnp.cumsum(counts.astype(jnp.int64))
        first = jnp.minimum(ends - counts, capacity).astype(jnp.int32)
        total = jnp.minimum(ends[-1], capacity).astype(jnp.int32)
    marks = jnp.zeros(capacity, jnp.int32).at[first].add(1, mode="drop")
    rank = jnp.clip(jnp.cumsum(marks) - 1, 0)
    pair = jnp.arange(capacity, dtype=jnp.int32)
    inside = (pair - first[rank]).astype(jnp.uint32)
    columns = jnp.maximum(boxes.x1 - boxes.x0, 1)[rank].astype(jnp.uint32)
    down = inside // columns  # unsigned division is several times faster
    column = boxes.x0[rank] + (inside - down * columns).astype(jnp.int32)
    return rank, column, boxes.y0[rank] + down.astype(jnp.int32), pair < total


def _sort(tile: Array, rank: Array, touches: Array, tiles: int, splats: int) -> tuple[Array, Array]:
    """Sort pairs by tile, then depth, as one integer `tile << bits | rank`."""
    bits = max(math.ceil(math.log2(max(splats, 2))), 1)
    wide = (tiles + 1) << bits > 1 << 32
    with jax.enable_x64(True):
        word = jnp.uint64 if wide else jnp.uint32
        key = (tile.astype(word) << bits) | rank.astype(word)
        key = jnp.sort(jnp.where(touches, key, jnp.array(-1).astype(word)))
        ids = (key & word((1 << bits) - 1)).astype(jnp.int32)
        firsts = jnp.arange(tiles + 1, dtype=word) << bits
        starts = jnp.searchsorted(key, firsts).astype(jnp.int32)
    return jnp.minimum(ids, splats - 1), starts


def _gather(splats: Splat, rank: Array) -> Splat:
    """Records [V] -> [M]; packed, so that one gather fetches a whole row."""
    leaves, treedef = jax.tree.flatten(splats)
    rows = jnp.stack(leaves, axis=-1)[rank]
    return treedef.unflatten([rows[:, i] for i in range(len(leaves))])


def _as(dtype: jnp.dtype, *vectors: Vec2) -> list[Vec2]:
    return [Vec2(v.x.astype(dtype), v.y.astype(dtype)) for v in vectors]
