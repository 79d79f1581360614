"""Scalars and vectors of lanes in LLVM: what both the arithmetic and the loops are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

# llvmlite says nothing about its types.
Builder = Any  # ir.IRBuilder
Value = Any  # ir.Value

LANES = 8  # what one instruction works on, where nothing else is said
FLOAT, INT, LONG, BIT = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
# Products and sums may fuse. Nothing is assumed about infinities or what is not a number.
FAST = ("contract", "nsz")


def is_vector(value: Value) -> bool:
    """Whether it has one entry a lane."""
    return isinstance(value.type, ir.VectorType)


def lane_count(value: Value) -> int:
    """0 for a scalar."""
    return value.type.count if is_vector(value) else 0


def is_float(value: Value) -> bool:
    """Whether it is a float or a vector of them."""
    return isinstance(getattr(value.type, "element", value.type), ir.FloatType)


def constant(like: Value, number: float) -> ir.Constant:
    """A float, or a vector of equal ones, as `like` is."""
    return _filled(like, FLOAT, float(np.float32(number)))


def integer(like: Value, number: int) -> ir.Constant:
    """A 32-bit integer, or a vector of equal ones, as `like` is."""
    return _filled(like, INT, number)


def _filled(like: Value, kind: ir.Type, number: float) -> ir.Constant:
    if is_vector(like):
        return ir.Constant(ir.VectorType(kind, like.type.count), [number] * like.type.count)
    return ir.Constant(kind, number)


def kind_like(like: Value, kind: ir.Type) -> ir.Type:
    """`kind`, or the vector of it, as `like` is."""
    return ir.VectorType(kind, like.type.count) if is_vector(like) else kind


def vector(numbers: Sequence[float]) -> ir.Constant:
    """A vector of these floats."""
    return ir.Constant(ir.VectorType(FLOAT, len(numbers)), [float(x) for x in numbers])


def splat(b: Builder, scalar: Value, lanes: int = LANES) -> Value:
    """A vector of equal entries."""
    kind = ir.VectorType(scalar.type, lanes)
    first = b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT, 0))
    everywhere = ir.Constant(ir.VectorType(INT, lanes), [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), everywhere)


def spread(b: Builder, values: Sequence[Value]) -> list[Value]:
    """All as vectors if one of them is."""
    lanes = max(map(lane_count, values), default=0)
    return [v if is_vector(v) or not lanes else splat(b, v, lanes) for v in values]


def as_lanes(b: Builder, value: Value, lanes: int = LANES) -> Value:
    """A vector, whatever it was."""
    return value if is_vector(value) else splat(b, value, lanes)


def select(b: Builder, which: Value, yes: Value, no: Value) -> Value:
    """Entry by entry."""
    return b.select(*spread(b, (which, yes, no)))


def convert(b: Builder, x: Value, to: str) -> Value:
    """To floats ("f"), 32-bit integers ("i") or truth values ("b")."""
    kind = getattr(x.type, "element", x.type)
    if isinstance(kind, ir.FloatType):
        if to == "i":
            return b.fptosi(x, kind_like(x, INT))
        return x if to == "f" else b.fcmp_unordered("!=", x, constant(x, 0))
    narrow = kind.width == 1
    if to == "f":
        return (b.uitofp if narrow else b.sitofp)(x, kind_like(x, FLOAT))
    if to == "i":
        return b.zext(x, kind_like(x, INT)) if narrow else x
    return x if narrow else b.icmp_signed("!=", x, integer(x, 0))


def literal(number: Any) -> np.ndarray:
    """A NumPy array (or number) as an array of constants."""
    array = np.asarray(number)
    result = np.empty(array.shape, dtype=object)
    for index in np.ndindex(*array.shape):
        entry = array[index]
        if array.dtype == bool:
            result[index] = ir.Constant(BIT, bool(entry))
        elif np.issubdtype(array.dtype, np.integer):
            result[index] = ir.Constant(INT, int(entry))
        else:
            result[index] = ir.Constant(FLOAT, float(np.float32(entry)))
    return result
