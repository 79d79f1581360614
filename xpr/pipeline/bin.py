"""Binning: which splats touch which tile, front to back."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

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

    It goes block by block, as far as there are pairs: a block fits a cache, and what is reserved
    beyond the last one costs nothing. Blocks follow each other from front to back, so it is enough
    to count how many pairs of a tile come before those of a block.

    Args:
      frame: its splats, nearest first, and its tiles.
      boxes: the tiles under each splat's box.
      capacity: M, the number of pairs reserved; what goes beyond it is left out.
    """
    block, loops = min(frame.settings.block, capacity), frame.settings.loops
    blocks = -(-capacity // block)
    loops = min(loops, blocks)
    spread = _spread(boxes, capacity, blocks * block)
    keys = _Keys.of(frame.grid.tiles, len(boxes.x0), block)
    used = -(-spread.total // block)
    edges = [used * i // loops for i in range(loops + 1)]
    with jax.enable_x64(True):
        found = [
            _touching(frame, boxes, spread, keys, span, -(-blocks // loops))
            for span in itertools.pairwise(edges)
        ]
        runs = [_sort(keys, *each) for each in found]
        ids, starts = _merge(keys, capacity, runs)
    return Pairs(ids, starts)


class _Spread(NamedTuple):
    """Where each splat's pairs [V] begin, a one there among all pairs [M], and their number."""

    first: Array
    marks: Array
    total: Array


def _spread(boxes: Rectangles, capacity: int, length: int) -> _Spread:
    counts = boxes.counts
    with jax.enable_x64(True):
        ends = jnp.cumsum(counts.astype(jnp.int64))
        first = jnp.minimum(ends - counts, capacity).astype(jnp.int32)
        total = jnp.minimum(ends[-1], capacity).astype(jnp.int32)
    marks = jnp.zeros(length, jnp.int32).at[first].add(1, mode="drop")
    return _Spread(first, marks, total)


class _Keys(NamedTuple):
    """A pair as one integer, `tile << bits | rank`; all ones are none. A block at a time. Static."""

    tiles: int
    block: int
    bits: int
    word: Any

    @classmethod
    def of(cls, tiles: int, splats: int, block: int) -> _Keys:
        """In 32 bits if they suffice."""
        bits = max(math.ceil(math.log2(max(splats, 2))), 1)
        return cls(tiles, block, bits, jnp.uint64 if (tiles + 1) << bits > 1 << 32 else jnp.uint32)

    @property
    def none(self) -> Any:
        """Larger than any pair."""
        return jnp.iinfo(self.word).max

    def join(self, tile: Array, rank: Array) -> Array:
        """The integers."""
        return (tile.astype(self.word) << self.bits) | rank.astype(self.word)

    def split(self, key: Array) -> tuple[Array, Array]:
        """Tiles and ranks."""
        low = key & self.word((1 << self.bits) - 1)
        return (key >> self.bits).astype(jnp.int32), low.astype(jnp.int32)


class _Run(NamedTuple):
    """Some blocks of pairs: their keys, how many there are, and where tiles begin in each block.

    The keys are [n * block], sorted within a block, the starts [n, T + 1].
    """

    keys: Array
    found: Array
    starts: Array


def _expand(
    boxes: Rectangles, spread: _Spread, start: Array, block: int
) -> tuple[Array, Array, Array]:
    """(splat, column, row) of the pairs [block] from `start` on, splat after splat.

    A one at each splat's first pair, summed up, counts the splats so far.
    """
    marks = jax.lax.dynamic_slice_in_dim(spread.marks, start, block)
    before = jnp.searchsorted(spread.first, start).astype(jnp.int32)
    rank = jnp.clip(before + _running(marks) - 1, 0)
    places = jnp.stack([spread.first, boxes.x0, boxes.y0, boxes.x1 - boxes.x0], axis=-1)[rank]
    inside = (start + jnp.arange(block, dtype=jnp.int32) - places[:, 0]).astype(jnp.uint32)
    columns = jnp.maximum(places[:, 3], 1).astype(jnp.uint32)
    down = inside // columns  # unsigned division is several times faster
    column = places[:, 1] + (inside - down * columns).astype(jnp.int32)
    return rank, column, places[:, 2] + down.astype(jnp.int32)


def _touching(
    frame: Frame,
    boxes: Rectangles,
    spread: _Spread,
    keys: _Keys,
    span: tuple[Array, Array],
    most: int,
) -> tuple[Array, Array]:
    """The pairs of a span of blocks that touch their tiles, close together, and their number."""
    splats, grid = jax.lax.stop_gradient(frame.splats), frame.grid
    size, block = grid.tile_size, keys.block

    def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, found, out = state
        rank, column, row = _expand(boxes, spread, done * block, block)
        low = Vec2(column * size + 0.5, row * size + 0.5)
        high = Vec2(low.x + (size - 1), low.y + (size - 1))
        bound = _gather(splats, rank).tile_bound(*_as(jax.tree.leaves(splats)[0].dtype, low, high))
        listed = done * block + jnp.arange(block, dtype=jnp.int32) < spread.total
        # A bound that is not a number leaves out nothing.
        touches = listed & ~(bound < BOUND_SLACK * splats.blend.alpha_min)
        upto = found + _running(touches.astype(jnp.int32))
        key = keys.join(row * grid.shape[1] + column, rank)
        place = jnp.where(touches, upto - 1, len(out))
        return done + 1, upto[-1], out.at[place].set(key, mode="drop", unique_indices=True)

    out = jnp.full(most * block, keys.none, keys.word)
    start = (span[0], jnp.zeros((), jnp.int32), out)
    _, found, out = jax.lax.while_loop(lambda state: state[0] < span[1], advance, start)
    return out, found


def _sort(keys: _Keys, pairs: Array, found: Array) -> _Run:
    """Sort within blocks, by tile, then depth."""
    block = keys.block
    firsts = jnp.arange(keys.tiles + 1, dtype=keys.word) << keys.bits

    def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, pairs, starts = state
        part = jnp.sort(jax.lax.dynamic_slice_in_dim(pairs, done * block, block))
        begin = jnp.searchsorted(part, firsts).astype(jnp.int32)
        pairs = jax.lax.dynamic_update_slice_in_dim(pairs, part, done * block, 0)
        return done + 1, pairs, starts.at[done].set(begin)

    starts = jnp.zeros((len(pairs) // block, keys.tiles + 1), jnp.int32)
    start = (jnp.zeros((), jnp.int32), pairs, starts)
    _, pairs, starts = jax.lax.while_loop(lambda s: s[0] * block < found, advance, start)
    return _Run(pairs, found, starts)


def _merge(keys: _Keys, capacity: int, runs: list[_Run]) -> tuple[Array, Array]:
    """Ranks of all pairs [M], tile after tile, and where the tiles begin [T + 1]."""
    block, starts = keys.block, jnp.concatenate([run.starts for run in runs])
    counts = jnp.diff(starts, axis=1)
    upto = jnp.cumsum(counts, axis=0)
    begin = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(upto[-1])]).astype(jnp.int32)
    shift = (begin[:-1] + upto - counts - starts[:, :-1]).astype(jnp.int32)
    ids = jnp.zeros(capacity, jnp.int32)
    for i, run in enumerate(runs):
        row = sum(len(before.starts) for before in runs[:i])

        def advance(state: tuple[Array, Array], run: _Run = run, row: int = row) -> Any:
            done, ids = state
            key = jax.lax.dynamic_slice_in_dim(run.keys, done * block, block)
            tile, rank = keys.split(key)
            place = shift[row + done, tile] + jnp.arange(block, dtype=jnp.int32)
            place = jnp.where(key == keys.none, capacity, place)
            return done + 1, ids.at[place].set(rank, mode="drop", unique_indices=True)

        start = (jnp.zeros((), jnp.int32), ids)
        _, ids = jax.lax.while_loop(lambda s, run=run: s[0] * block < run.found, advance, start)
    return ids, begin


def _running(x: Array) -> Array:
    """Sums of all entries so far (several times faster than `cumsum` on a CPU)."""
    return jax.lax.associative_scan(jnp.add, x)


def _gather(splats: Splat, rank: Array) -> Splat:
    """Records [V] -> [M]; packed, so that one gather fetches a whole row."""
    leaves, treedef = jax.tree.flatten(splats)
    rows = jnp.stack(leaves, axis=-1)[rank]
    return treedef.unflatten([rows[:, i] for i in range(len(leaves))])


def _as(dtype: jnp.dtype, *vectors: Vec2) -> list[Vec2]:
    return [Vec2(v.x.astype(dtype), v.y.astype(dtype)) for v in vectors]
