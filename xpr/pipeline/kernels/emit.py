"""From a jaxpr over small arrays to LLVM instructions.

A value is a scalar (the same for all lanes) or a vector of lanes; mixing the two spreads the scalar.
What depends on a splat alone is then computed once a splat, what depends on a row once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core
from llvmlite import ir

from xpr.pipeline.kernels.elementwise import PRIMITIVES
from xpr.pipeline.kernels.loops import Loop, closed as with_constants
from xpr.pipeline.kernels.structure import SHAPERS, Values, filled
from xpr.pipeline.kernels.values import INT, Builder, Value, as_lanes, lane_count, literal, spread

LARGEST = 4096  # entries of one array: each is an instruction
LONGEST = 16  # steps of a loop that is unrolled
MOST_UNROLLED = 1000  # instructions of a loop that is unrolled if it need not be


def emit(b: Builder, closed: Any, args: Sequence[Values]) -> list[Values]:
    """The instructions of a closed jaxpr, applied to arrays of values.

    The jaxpr must have no `unknown_primitive`.
    """
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, args, strict=True))
    known |= {v: literal(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

    def read(atom: Any) -> Values:
        return literal(atom.val) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner, name = _inner(equation), equation.primitive.name
        if inner is not None:
            outputs = emit(b, inner, inputs[len(inputs) - len(inner.jaxpr.invars) :])
        elif name == "scan":
            written = _rolled if _rolls(equation) else _unrolled
            outputs = written(b, Loop.of(equation.params), inputs)
        elif name == "platform_index":
            outputs = [literal(0)]  # nobody reads it: see `_inner`
        elif name in SHAPERS:
            outputs = SHAPERS[name](b, equation.params, *inputs)
            outputs = outputs if isinstance(outputs, list) else [outputs]
        else:
            outputs = [_entrywise(b, equation, inputs)]
        known |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def emit_scalars(b: Builder, closed: Any, args: Sequence[Value]) -> list[Value]:
    """The instructions of a closed jaxpr over scalars."""
    return [x[()] for x in emit(b, closed, [boxed(a) for a in args])]


def boxed(value: Value) -> Values:
    """A value as an array without axes."""
    box = np.empty((), dtype=object)
    box[()] = value
    return box


def unknown_primitive(closed: Any) -> str | None:
    """The first primitive of a jaxpr that has no instructions here, or None."""
    for equation in closed.jaxpr.eqns:
        inner, name = _inner(equation), equation.primitive.name
        if name == "scan":
            loop = Loop.of(equation.params)
            inner = loop.body if loop.length <= LONGEST or _rolls(equation) else None
        if inner is not None:
            found = unknown_primitive(inner)
            if found:
                return found
        elif name not in PRIMITIVES and name not in SHAPERS and name != "platform_index":
            return name
        elif any(v.aval.size > LARGEST for v in equation.outvars):
            return f"{name} of {equation.outvars[0].aval.size:,} entries"
    return None


def instructions(closed: Any) -> int:
    """About how many a jaxpr becomes: an entry of an array is one, and all steps of an unrolled loop."""
    total = 0
    for equation in closed.jaxpr.eqns:
        inner, times = _inner(equation), 1
        if equation.primitive.name == "scan":
            loop = Loop.of(equation.params)
            inner, times = loop.body, 1 if _rolls(equation) else loop.length
        of_one = sum(v.aval.size for v in equation.outvars)
        total += of_one if inner is None else times * instructions(inner)
    return total


def _inner(equation: Any) -> Any:
    """The jaxpr that an equation calls, if it is a call.

    Where a platform has a branch of its own, all branches compute the same: the first will do that
    has instructions here.
    """
    if equation.primitive.name == "cond" and equation.params.get("branches_platforms"):
        branches = equation.params["branches"]
        return next((f for f in branches if unknown_primitive(f) is None), branches[0])
    if equation.primitive.name in ("scan", "while", "cond"):
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return with_constants(inner)
    return None


def _rolls(equation: Any) -> bool:
    """Whether a scan becomes a loop of the processor: it has many instructions, and no rows."""
    loop = Loop.of(equation.params)
    rows = len(equation.invars) - loop.constants - loop.carried
    stacked = len(equation.outvars) - loop.carried
    many = loop.length * instructions(loop.body) > MOST_UNROLLED
    return many and rows == stacked == 0 and loop.length > 0


def _rolled(b: Builder, loop: Loop, inputs: list[Values]) -> list[Values]:
    """A loop; whatever one of its values is, lanes or not, all that change are."""
    consts, start = inputs[: loop.constants], inputs[loop.constants :]
    lanes = max((lane_count(v) for x in inputs for v in x.ravel()), default=0)

    def flat(arrays: list[Values]) -> list[Value]:
        values = [v for x in arrays for v in x.ravel()]
        return [as_lanes(b, v, lanes) for v in values] if lanes else values

    first, before = flat(start), b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.branch(body)
    b.position_at_end(body)
    step, carry = b.phi(INT), [b.phi(value.type) for value in first]
    given = iter(carry)
    arrays = [filled(x.shape, lambda _: next(given)) for x in start]
    last = flat(emit(b, loop.body, [*consts, *arrays]))
    following = b.add(step, ir.Constant(INT, 1))
    for phi, entering, returning in zip(
        [step, *carry], [ir.Constant(INT, 0), *first], [following, *last], strict=True
    ):
        phi.add_incoming(entering, before)
        phi.add_incoming(returning, b.block)
    b.cbranch(b.icmp_signed("<", following, ir.Constant(INT, loop.length)), body, after)
    b.position_at_end(after)
    results = iter(last)
    return [filled(x.shape, lambda _: next(results)) for x in start]


def _unrolled(b: Builder, loop: Loop, inputs: list[Values]) -> list[Values]:
    """A short loop, step after step."""
    fixed, carried = loop.constants, loop.constants + loop.carried
    consts, carry, rows = inputs[:fixed], inputs[fixed:carried], inputs[carried:]
    steps: dict[int, list[Values]] = {}
    order = range(loop.length)
    for i in reversed(order) if loop.reverse else order:
        outputs = emit(b, loop.body, [*consts, *carry, *(x[i, ...] for x in rows)])
        carry, steps[i] = outputs[: loop.carried], outputs[loop.carried :]
    return [*carry, *(np.stack(parts) for parts in zip(*(steps[i] for i in order), strict=True))]


def _entrywise(b: Builder, equation: Any, inputs: list[Values]) -> Values:
    emitter = PRIMITIVES[equation.primitive.name]
    arrays = np.broadcast_arrays(*inputs)
    result = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(*result.shape):
        result[index] = emitter(b, equation.params, *spread(b, [a[index] for a in arrays]))
    return result
