"""Binning by counting: how many splats each tile gets, then their numbers into its list.

Splats are walked nearest first, so that every list is in order without a sort. A splat's tiles in
one row are tested `LANES` at a time; the outcome is kept as a byte of bits for the second pass.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from xpr.pipeline.bin import BOUND_SLACK
from xpr.pipeline.grid import Grid
from xpr.pipeline.kernels.emit import emit_scalars
from xpr.pipeline.kernels.program import (
    Entry,
    Program,
    bits,
    count_trailing_zeros,
    load,
    long,
    store,
)
from xpr.pipeline.kernels.values import (
    FLOAT,
    INT,
    LANES,
    LONG,
    Builder,
    Value,
    as_lanes,
    convert,
    splat,
    vector,
)
from xpr.pipeline.kernels.workers import digest, pack, run
from xpr.types import Array, Splat, Vec2

BYTE = ir.IntType(8)
RANGE: dict[str, ir.Type | None] = {
    "first": None,
    "end": None,
    "columns": None,
    "records": FLOAT,
    "rectangles": INT,
    "masks": BYTE,
}
COUNT = RANGE | {"counts": LONG}
FILL = RANGE | {"places": LONG, "capacity": None, "ids": INT}


def bound_jaxpr(splats: Splat) -> Any:
    """`tile_bound` over scalars: the leaves, then low x, low y, high x, high y."""
    leaves, treedef = jax.tree.flatten(splats)
    scalar: Any = jax.ShapeDtypeStruct((), jnp.float32)

    def bound(*values: Array) -> Array:
        *own, x0, y0, x1, y1 = values
        return treedef.unflatten(own).tile_bound(Vec2(x0, y0), Vec2(x1, y1))

    return jax.make_jaxpr(bound)(*[scalar] * (len(leaves) + 4))


class Counter:
    """The counting kernel of a splat class and a tile size, compiled when it is first called.

    Attributes:
      digest: a name of its own.
    """

    def __init__(self, splats: Splat, tile_size: int) -> None:
        bound, least = bound_jaxpr(splats), BOUND_SLACK * splats.blend.alpha_min
        self.digest = digest(bound, tile_size, least)
        self.entry = functools.cache(lambda: count(bound, tile_size, least).compile())


class _Spans:
    """The loops over splats, the rows of their tiles and `LANES` tiles of a row at a time."""

    def __init__(self, name: str, kinds: dict[str, ir.Type | None]) -> None:
        self.program = Program(name)
        self.b, self.view = self.program.b, self.program.arguments(kinds)
        self.cursor = self.program.variable(LONG, long(0))

    @contextmanager
    def splats(self) -> Iterator[Value]:
        """The splats of this thread's range."""
        with self.program.loop(self.view.first, self.view.end) as number:
            yield number

    @contextmanager
    def spans(self, number: Value) -> Iterator[tuple[Value, Value, Value]]:
        """Of a splat's tiles: row, first column, and how many columns there are from it on."""
        b = self.b
        at = b.mul(number, long(4))
        x0, y0, x1, y1 = (
            b.sext(load(b, self.view.rectangles, b.add(at, long(i))), LONG) for i in range(4)
        )
        wide = b.sdiv(b.add(b.sub(x1, x0), long(LANES - 1)), long(LANES))
        with self.program.loop(y0, y1) as row, self.program.loop(long(0), wide) as step:
            column = b.add(x0, b.mul(step, long(LANES)))
            yield row, column, b.sub(x1, column)
            b.store(b.add(b.load(self.cursor), long(1)), self.cursor)

    @contextmanager
    def touched(self, mask: Value, row: Value, column: Value) -> Iterator[Value]:
        """The tiles whose bits are set in a mask."""
        b = self.b
        rest = self.program.variable(LONG, long(0))
        b.store(mask, rest)
        first = b.add(b.mul(row, self.view.columns), column)
        with self.program.repeat(lambda: b.icmp_signed("!=", b.load(rest), long(0))):
            left = b.load(rest)
            yield b.add(first, count_trailing_zeros(b, left))
            b.store(b.and_(left, b.sub(left, long(1))), rest)


def count(bound: Any, tile_size: int, least: float) -> Program:
    """Test every tile of every splat; add up how many each tile has."""
    spans = _Spans("count", COUNT)
    b, view = spans.b, spans.view
    leaves = len(bound.jaxpr.invars) - 4
    with spans.splats() as number:
        at = b.mul(number, long(leaves))
        own = [load(b, view.records, b.add(at, long(i))) for i in range(leaves)]
        with spans.spans(number) as (row, column, width):
            low, high = _corners(b, row, column, tile_size)
            value = as_lanes(b, emit_scalars(b, bound, [*own, *low, *high])[0])
            # A bound that is not a number leaves out nothing.
            mask = bits(b, b.fcmp_unordered(">=", value, vector([least] * LANES)))
            few = b.icmp_signed("<", width, long(LANES))
            kept = b.sub(b.shl(long(1), b.select(few, width, long(LANES))), long(1))
            mask = b.and_(mask, kept)
            store(b, b.trunc(mask, BYTE), view.masks, b.load(spans.cursor))
            with spans.touched(mask, row, column) as tile:
                store(b, b.add(load(b, view.counts, tile), long(1)), view.counts, tile)
    return spans.program


def fill() -> Program:
    """Write every splat's number to the lists of the tiles it touches, as far as there is room."""
    spans = _Spans("fill", FILL)
    b, view = spans.b, spans.view
    with spans.splats() as number, spans.spans(number) as (row, column, _):
        mask = b.zext(load(b, view.masks, b.load(spans.cursor)), LONG)
        with spans.touched(mask, row, column) as tile:
            place = load(b, view.places, tile)
            store(b, b.add(place, long(1)), view.places, tile)
            with b.if_then(b.icmp_signed("<", place, view.capacity)):
                store(b, b.trunc(number, INT), view.ids, place)
    return spans.program


def _corners(b: Builder, row: Value, column: Value, size: int) -> tuple[list[Value], list[Value]]:
    """The outermost pixel centres of `LANES` tiles: x a vector, y a scalar."""
    left = splat(b, convert(b, b.mul(column, long(size)), "f"))
    x = b.fadd(left, vector([i * size + 0.5 for i in range(LANES)]))
    y = b.fadd(convert(b, b.mul(row, long(size)), "f"), ir.Constant(FLOAT, 0.5))
    beyond = float(size - 1)
    high = [b.fadd(x, vector([beyond] * LANES)), b.fadd(y, ir.Constant(FLOAT, beyond))]
    return [x, y], high


def fill_lists(counter: Counter, grid: Grid, threads: int, *arrays: np.ndarray) -> None:
    """The lists of all tiles, from records and rectangles into ids and starts."""
    records, rectangles, ids, starts = arrays
    wide, high = (rectangles[:, i + 2] - rectangles[:, i] for i in range(2))
    steps = np.cumsum((wide + (LANES - 1)) // LANES * high, dtype=np.int64)
    # Each thread gets an equal share of the work.
    cuts = np.searchsorted(steps, steps[-1] * np.arange(1, threads) / threads)
    edges = [0, *cuts.tolist(), len(steps)]
    begins = [int(steps[edge - 1]) if edge else 0 for edge in edges[:-1]]
    masks = np.empty(steps[-1] + 1, np.uint8)
    counts = np.zeros((threads, grid.tiles), np.int64)
    ranges = [
        (first, end, grid.shape[1], records, rectangles, masks[begin:])
        for first, end, begin in zip(edges[:-1], edges[1:], begins, strict=True)
    ]
    run(counter.entry(), [pack([*r, c]) for r, c in zip(ranges, counts, strict=True)])
    ends = np.cumsum(counts.T.ravel()).reshape(grid.tiles, threads).T
    places = np.ascontiguousarray(ends - counts)
    starts[0], starts[1:] = 0, np.minimum(ends[-1], len(ids))
    run(_fill_entry(), [pack([*r, p, len(ids), ids]) for r, p in zip(ranges, places, strict=True)])


@functools.cache
def _fill_entry() -> Entry:
    return fill().compile()
