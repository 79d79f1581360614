"""Depth order by counting digits: three passes over 11 bits each of the float's sortable bits."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from xpr.pipeline.kernels import foreign
from xpr.pipeline.kernels.program import Entry, Program, load, long, store
from xpr.pipeline.kernels.values import FLOAT, INT, LONG, Value
from xpr.pipeline.kernels.workers import pack, run
from xpr.pipeline.order import Order
from xpr.types import Array

BITS, DIGITS = 11, 3
BUCKETS = 1 << BITS
ARGUMENTS: dict[str, ir.Type | None] = {
    "count": None,
    "depth": FLOAT,
    "seen": ir.IntType(8),
    "entries": LONG,
    "spare": LONG,
    "places": LONG,
    "found": LONG,
}


def front_to_back(depth: Array, seen: Array, visible: int) -> Order:
    """See `xpr.pipeline.order.front_to_back`."""
    results = [jax.ShapeDtypeStruct((visible,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)]
    depth, seen = jax.lax.stop_gradient(depth), seen.astype(jnp.uint8)
    index, found = foreign.call(f"xpr_sort_{visible}", _sort, results, depth, seen)
    return Order(index, jnp.arange(visible) < found)


def _sort(depth: np.ndarray, seen: np.ndarray, index: np.ndarray, found: np.ndarray) -> None:
    entries, spare = (np.empty(len(depth), np.uint64) for _ in range(2))
    places, number = np.zeros(DIGITS * BUCKETS, np.int64), np.zeros(1, np.int64)
    run(_entry(), [pack([len(depth), depth, seen, entries, spare, places, number])])
    kept = min(int(number[0]), len(index))
    found[...] = kept
    # An odd number of passes leaves the outcome in the other array.
    index[:kept] = spare[:kept].astype(np.uint32)
    index[kept:] = index[0] if kept else 0


@functools.cache
def _entry() -> Entry:
    return _program().compile()


def _program() -> Program:
    """Entries `sortable depth << 32 | index` of what is seen, in order."""
    program = Program("sort")
    b, view = program.b, program.arguments(ARGUMENTS)
    found = program.variable(LONG, long(0))
    with program.loop(long(0), view.count) as i:
        seen = b.icmp_unsigned("!=", load(b, view.seen, i), ir.Constant(ir.IntType(8), 0))
        with b.if_then(seen):
            key = b.zext(_sortable(program, load(b, view.depth, i)), LONG)
            place = b.load(found)
            store(b, b.or_(b.shl(key, long(32)), i), view.entries, place)
            b.store(b.add(place, long(1)), found)
            for digit in range(DIGITS):
                bucket = b.add(_digit(program, key, BITS * digit), long(digit * BUCKETS))
                store(b, b.add(load(b, view.places, bucket), long(1)), view.places, bucket)
    arrays = [view.entries, view.spare]
    for digit in range(DIGITS):
        _starts(program, view.places, digit)
        with program.loop(long(0), b.load(found)) as i:
            entry = load(b, arrays[0], i)
            bucket = b.add(_digit(program, entry, 32 + BITS * digit), long(digit * BUCKETS))
            place = load(b, view.places, bucket)
            store(b, entry, arrays[1], place)
            store(b, b.add(place, long(1)), view.places, bucket)
        arrays.reverse()
    store(b, b.load(found), view.found, long(0))
    return program


def _sortable(program: Program, depth: Value) -> Value:
    """32 bits in the order of the floats; -0 equals 0."""
    b = program.b
    zero = ir.Constant(FLOAT, 0.0)
    depth = b.select(b.fcmp_ordered("==", depth, zero), zero, depth)
    word = b.bitcast(depth, INT)
    negative = b.icmp_signed("<", word, ir.Constant(INT, 0))
    return b.select(negative, b.not_(word), b.xor(word, ir.Constant(INT, 1 << 31)))


def _digit(program: Program, word: Value, shift: int) -> Value:
    b = program.b
    return b.and_(b.lshr(word, long(shift)), long(BUCKETS - 1))


def _starts(program: Program, places: Value, digit: int) -> None:
    """Counts of a digit's buckets to where each begins."""
    b, so_far = program.b, program.variable(LONG, long(0))
    b.store(long(0), so_far)
    with program.loop(long(digit * BUCKETS), long((digit + 1) * BUCKETS)) as bucket:
        count = load(b, places, bucket)
        store(b, b.load(so_far), places, bucket)
        b.store(b.add(b.load(so_far), count), so_far)
