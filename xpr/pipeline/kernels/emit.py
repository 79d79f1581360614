"""From a jaxpr over small arrays to LLVM instructions.

A value is a scalar (the same for all lanes) or a vector of lanes; mixing the two spreads the scalar.
What depends on a splat alone is then computed once a splat, what depends on a row once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from xpr.pipeline.kernels.elementwise import PRIMITIVES
from xpr.pipeline.kernels.structure import SHAPERS, Values
from xpr.pipeline.kernels.values import Builder, Value, literal, spread

LARGEST = 4096  # entries of one array: each is an instruction
LONGEST = 16  # steps of a loop that is unrolled


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
            outputs = _unrolled(b, equation.params, inputs)
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
        # Newer versions of JAX describe the parts of a loop otherwise: then it is not unrolled.
        if name == "scan" and "num_consts" in equation.params:
            inner = equation.params["jaxpr"] if equation.params["length"] <= LONGEST else None
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
    """About how many a jaxpr becomes: an entry of an array is one, a loop's body counts each time."""
    total = 0
    for equation in closed.jaxpr.eqns:
        inner, times = _inner(equation), 1
        if equation.primitive.name == "scan":
            inner, times = equation.params["jaxpr"], equation.params["length"]
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
            return inner if hasattr(inner, "consts") else core.ClosedJaxpr(inner, ())
    return None


def _unrolled(b: Builder, params: Any, inputs: list[Values]) -> list[Values]:
    """A short loop, step after step."""
    fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carry, rows = inputs[:fixed], inputs[fixed:carried], inputs[carried:]
    steps: dict[int, list[Values]] = {}
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        outputs = emit(b, params["jaxpr"], [*consts, *carry, *(x[i, ...] for x in rows)])
        carry, steps[i] = outputs[: params["num_carry"]], outputs[params["num_carry"] :]
    return [*carry, *(np.stack(parts) for parts in zip(*(steps[i] for i in order), strict=True))]


def _entrywise(b: Builder, equation: Any, inputs: list[Values]) -> Values:
    emitter = PRIMITIVES[equation.primitive.name]
    arrays = np.broadcast_arrays(*inputs)
    result = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(*result.shape):
        result[index] = emitter(b, equation.params, *spread(b, [a[index] for a in arrays]))
    return result
