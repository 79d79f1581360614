"""A function of one primitive and one camera, over all primitives: what `jax.vmap` does, faster.

`LANES` primitives at a time are gathered from the scene's rows, and every number of the function is
one instruction on them: small matrices are unrolled, nothing between input and output touches memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from xpr.pipeline.kernels.emit import emit, instructions, unknown_primitive
from xpr.pipeline.kernels.program import (
    Program,
    load,
    load_lanes,
    long,
    store,
    store_lanes,
    total,
)
from xpr.pipeline.kernels.structure import Values, filled
from xpr.pipeline.kernels.values import (
    FLOAT,
    INT,
    LANES,
    LONG,
    Builder,
    Value,
    as_lanes,
    convert,
    is_float,
    vector,
)
from xpr.pipeline.kernels.workers import digest
from xpr.types import Array

MOST_INSTRUCTIONS = 30_000  # LLVM compiles some 5,000 a second
RANGE: dict[str, ir.Type | None] = {"first": None, "end": None, "count": None, "index": INT}


class Map(NamedTuple):
    """A function of one row of some arrays and of some shared numbers, traced.

    Attributes:
      own: shapes of one row of each array.
      shared: shapes of the shared arrays.
      forward: jaxpr of own, shared -> outputs.
      backward: jaxpr of own, shared, cotangents of the outputs -> cotangents of own, shared.
      outputs: shapes of the outputs.
    """

    own: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[int, ...], ...]
    forward: Any
    backward: Any
    outputs: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, function: Callable[..., list[Array]], own: Any, shared: Any) -> Map:
        """Trace a function of lists of arrays."""
        forward = jax.make_jaxpr(function)(own, shared)

        def pulled(own: list[Array], shared: list[Array], given: list[Array]) -> Any:
            return jax.vjp(function, own, shared)[1](given)

        results = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
        floats = all(jnp.issubdtype(r.dtype, jnp.floating) for r in results)
        backward = jax.make_jaxpr(pulled)(own, shared, results) if floats else None
        shapes = (tuple(tuple(x.shape) for x in group) for group in (own, shared, results))
        rows, numbers, outputs = shapes
        return cls(rows, numbers, forward, backward, outputs)

    def why_not(self) -> str | None:
        """What keeps it from a kernel: an unknown primitive, or a length that compiles for minutes."""
        for closed in (self.forward, self.backward):
            if closed is None:
                continue
            unknown = unknown_primitive(closed)
            if unknown is not None:
                return f"it has no instructions for the primitive {unknown!r}"
            length = instructions(closed)
            if length > MOST_INSTRUCTIONS:
                return f"it would take {length:,} instructions, more than {MOST_INSTRUCTIONS:,}"
        return None

    @property
    def width(self) -> int:
        """Numbers in the outputs."""
        return sum(_size(shape) for shape in self.outputs)

    def digest(self) -> str:
        """A name of its own."""
        return digest(self.forward, self.backward)


class _Kernel:
    """The loop over blocks of rows, and the numbers of one block."""

    def __init__(self, name: str, mapped: Map, more: dict[str, ir.Type | None]) -> None:
        arrays = {f"own{i}": FLOAT for i in range(len(mapped.own))}
        arrays |= {f"shared{i}": FLOAT for i in range(len(mapped.shared))}
        self.mapped, self.program = mapped, Program(name)
        self.b, self.view = self.program.b, self.program.arguments(RANGE | arrays | more)
        shared = [getattr(self.view, f"shared{i}") for i in range(len(mapped.shared))]
        self.shared = [
            filled(shape, lambda j, at=at: load(self.b, at, long(j)))
            for shape, at in zip(mapped.shared, shared, strict=True)
        ]

    def rows(self, start: Value) -> list[Value]:
        """The rows that the lanes of a block stand for; past the end, the last one."""
        b, last = self.b, self.b.sub(self.view.count, long(1))
        rows = []
        for lane in range(LANES):
            i = b.add(start, long(lane))
            i = b.select(b.icmp_signed("<", i, last), i, last)
            rows.append(b.sext(load(b, self.view.index, i), LONG))
        return rows

    def own(self, rows: list[Value]) -> list[Values]:
        """The block's own numbers, lanes each."""
        return [
            filled(shape, lambda j, i=i, shape=shape: self._gathered(i, _size(shape), j, rows))
            for i, shape in enumerate(self.mapped.own)
        ]

    def _gathered(self, leaf: int, size: int, entry: int, rows: list[Value]) -> Value:
        b, array = self.b, getattr(self.view, f"own{leaf}")
        lanes: Value = ir.Constant(ir.VectorType(FLOAT, LANES), ir.Undefined)
        for lane, row in enumerate(rows):
            at = b.add(b.mul(row, long(size)), long(entry))
            lanes = b.insert_element(lanes, load(b, array, at), ir.Constant(INT, lane))
        return lanes


def forward(mapped: Map, name: str = "map_forward") -> Program:
    """Outputs as planes: number after number, each for all rows."""
    kernel = _Kernel(name, mapped, {"results": FLOAT, "stride": None})
    b, view = kernel.b, kernel.view
    with kernel.program.loop(view.first, view.end) as block:
        start = b.mul(block, long(LANES))
        outputs = emit(b, mapped.forward, [*kernel.own(kernel.rows(start)), *kernel.shared])
        numbers = [value for output in outputs for value in output.ravel()]
        for j, value in enumerate(numbers):
            value = value if is_float(value) else convert(b, value, "f")
            at = b.add(b.mul(long(j), view.stride), start)
            store_lanes(b, as_lanes(b, value), view.results, at)
    return kernel.program


def backward(mapped: Map, name: str = "map_backward", *, of_shared: bool) -> Program:
    """Cotangents of own rows to their places, those of the shared numbers added to `sums`."""
    gradients = [f"gradient{i}" for i in range(len(mapped.own))]
    more: dict[str, ir.Type | None] = {"cotangents": FLOAT, "stride": None, "sums": FLOAT}
    kernel = _Kernel(name, mapped, more | dict.fromkeys(gradients, FLOAT))
    b, view = kernel.b, kernel.view
    with kernel.program.loop(view.first, view.end) as block:
        start = b.mul(block, long(LANES))
        rows, places = kernel.rows(start), iter(range(mapped.width))

        def cotangent(_: int) -> Value:
            return load_lanes(
                b, view.cotangents, b.add(b.mul(long(next(places)), view.stride), start)
            )

        given = [filled(shape, cotangent) for shape in mapped.outputs]
        grads = emit(b, mapped.backward, [*kernel.own(rows), *kernel.shared, *given])
        own, shared = grads[: len(mapped.own)], grads[len(mapped.own) :]
        if of_shared:
            inside = _inside(b, start, view.count)
            for j, value in enumerate(value for g in shared for value in g.ravel()):
                zero = vector([0.0] * LANES)
                value = total(b, b.select(inside, as_lanes(b, value), zero))
                store(b, b.fadd(load(b, view.sums, long(j)), value), view.sums, long(j))
        _scatter(b, [getattr(view, name) for name in gradients], own, rows)
    return kernel.program


def _scatter(b: Builder, arrays: list[Value], grads: list[Values], rows: list[Value]) -> None:
    """Lanes to rows, the first one last: what a lane past the end writes does not stay."""
    for array, grad in zip(arrays, grads, strict=True):
        for entry, value in enumerate(grad.ravel()):
            lanes = as_lanes(b, value)
            for lane, row in reversed(list(enumerate(rows))):
                at = b.add(b.mul(row, long(grad.size)), long(entry))
                store(b, b.extract_element(lanes, ir.Constant(INT, lane)), array, at)


def _inside(b: Builder, start: Value, count: Value) -> Value:
    lanes: Value = ir.Constant(ir.VectorType(ir.IntType(1), LANES), ir.Undefined)
    for lane in range(LANES):
        one = b.icmp_signed("<", b.add(start, long(lane)), count)
        lanes = b.insert_element(lanes, one, ir.Constant(INT, lane))
    return lanes


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
