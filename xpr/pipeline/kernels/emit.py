"""From the jaxpr of an elementwise function to LLVM instructions.

A value is a scalar (the same for all lanes) or a vector of lanes; mixing the two spreads the scalar.
What depends on a splat alone is then computed once a splat, what depends on a row once a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core
from llvmlite import ir

from xpr.pipeline.kernels import mathematics
from xpr.pipeline.kernels.values import FAST, FLOAT, INT, constant, convert, select, spread

Emitter = Callable[..., ir.Value]


class UnknownPrimitive(Exception):
    """A primitive that has no instructions here; its name is the message."""


def emit(b: ir.IRBuilder, closed: Any, args: Sequence[ir.Value]) -> list[ir.Value]:
    """The instructions of a closed jaxpr over scalars, applied to values.

    Raises:
      UnknownPrimitive: the jaxpr has one that is not in the table below.
    """
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, args, strict=True))
    known |= {v: _literal(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

    def read(atom: Any) -> ir.Value:
        return _literal(atom.val) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = _inner(equation)
        if inner is not None:
            outputs = emit(b, inner, inputs[len(inputs) - len(inner.jaxpr.invars) :])
        else:
            outputs = [_apply(b, equation, inputs)]
        known |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def unknown_primitive(closed: Any) -> str | None:
    """The first primitive of a jaxpr that has no instructions here, or None."""
    for equation in closed.jaxpr.eqns:
        inner = _inner(equation)
        if inner is not None:
            found = unknown_primitive(inner)
            if found:
                return found
        elif equation.primitive.name not in PRIMITIVES:
            return equation.primitive.name
        elif any(v.aval.shape for v in equation.outvars):
            return f"{equation.primitive.name} of shape {equation.outvars[0].aval.shape}"
    return None


def _inner(equation: Any) -> Any:
    """The jaxpr that an equation calls, if it is a call."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return inner if hasattr(inner, "consts") else core.ClosedJaxpr(inner, ())
    return None


def _apply(b: ir.IRBuilder, equation: Any, inputs: list[ir.Value]) -> ir.Value:
    emitter = PRIMITIVES.get(equation.primitive.name)
    if emitter is None:
        raise UnknownPrimitive(equation.primitive.name)
    return emitter(b, equation.params, *spread(b, inputs))


def _literal(value: Any) -> ir.Value:
    value = np.asarray(value)
    if value.dtype == bool:
        return ir.Constant(ir.IntType(1), bool(value))
    if np.issubdtype(value.dtype, np.integer):
        return ir.Constant(INT, int(value))
    return ir.Constant(FLOAT, float(np.float32(value)))


def _is_float(value: ir.Value) -> bool:
    return isinstance(getattr(value.type, "element", value.type), ir.FloatType)


def _arithmetic(of_floats: str, of_integers: str) -> Emitter:
    def emitter(b: ir.IRBuilder, params: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        del params
        if _is_float(x):
            return getattr(b, of_floats)(x, y, flags=FAST)
        return getattr(b, of_integers)(x, y)

    return emitter


def _comparison(operator: str) -> Emitter:
    def emitter(b: ir.IRBuilder, params: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        del params
        if not _is_float(x):
            return b.icmp_signed(operator, x, y)
        return (b.fcmp_unordered if operator == "!=" else b.fcmp_ordered)(operator, x, y)

    return emitter


def _extreme(operator: str) -> Emitter:
    def emitter(b: ir.IRBuilder, params: Any, x: ir.Value, y: ir.Value) -> ir.Value:
        return select(b, _comparison(operator)(b, params, x, y), x, y)

    return emitter


def _clamp(b: ir.IRBuilder, params: Any, low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    return _extreme("<")(b, params, _extreme(">")(b, params, x, low), high)


def _power(b: ir.IRBuilder, params: Any, x: ir.Value) -> ir.Value:
    exponent = params["y"]
    result = constant(x, 1)
    for bit in bin(abs(exponent))[2:]:
        result = b.fmul(result, result, flags=FAST)
        result = b.fmul(result, x, flags=FAST) if bit == "1" else result
    return b.fdiv(constant(x, 1), result, flags=FAST) if exponent < 0 else result


def _sign(b: ir.IRBuilder, params: Any, x: ir.Value) -> ir.Value:
    del params
    zero, one = constant(x, 0), constant(x, 1)
    negative = select(b, b.fcmp_ordered("<", x, zero), constant(x, -1), zero)
    return select(b, b.fcmp_ordered(">", x, zero), one, negative)


def _select(b: ir.IRBuilder, params: Any, which: ir.Value, *cases: ir.Value) -> ir.Value:
    del params
    return select(b, which, cases[1], cases[0])


def _pass(b: ir.IRBuilder, params: Any, x: ir.Value) -> ir.Value:
    del b, params
    return x


def _convert(b: ir.IRBuilder, params: Any, x: ir.Value) -> ir.Value:
    kind = np.dtype(params["new_dtype"])
    return convert(b, x, "b" if kind == bool else "f" if kind.kind in "fV" else "i")


def _finite(b: ir.IRBuilder, params: Any, x: ir.Value) -> ir.Value:
    del params
    return b.fcmp_ordered("==", b.fsub(x, x), constant(x, 0))


def _unary(function: Callable[[ir.IRBuilder, ir.Value], ir.Value]) -> Emitter:
    return lambda b, params, x: function(b, x)


PRIMITIVES: dict[str, Emitter] = {
    "add": _arithmetic("fadd", "add"),
    "add_any": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _arithmetic("fdiv", "sdiv"),
    "max": _extreme(">"),
    "min": _extreme("<"),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "eq": _comparison("=="),
    "ne": _comparison("!="),
    "and": lambda b, params, x, y: b.and_(x, y),
    "or": lambda b, params, x, y: b.or_(x, y),
    "xor": lambda b, params, x, y: b.xor(x, y),
    "not": lambda b, params, x: b.not_(x),
    "neg": lambda b, params, x: b.fneg(x) if _is_float(x) else b.neg(x),
    "clamp": _clamp,
    "integer_pow": _power,
    "square": lambda b, params, x: b.fmul(x, x, flags=FAST),
    "sign": _sign,
    "select_n": _select,
    "is_finite": _finite,
    "convert_element_type": _convert,
    "copy": _pass,
    "stop_gradient": _pass,
    "broadcast_in_dim": _pass,
    "reshape": _pass,
    "squeeze": _pass,
    "optimization_barrier": _pass,
    "reduce_precision": _pass,
    "pow": lambda b, params, x, y: mathematics.power(b, x, convert(b, y, "f")),
    "atan2": lambda b, params, y, x: mathematics.library(b, "atan2f", y, x),
} | {
    name: _unary(function)
    for name, function in (
        ("exp", mathematics.exp),
        ("exp2", mathematics.exp2),
        ("log", mathematics.log),
        ("sqrt", partial(mathematics.intrinsic, "llvm.sqrt")),
        ("rsqrt", mathematics.rsqrt),
        ("abs", partial(mathematics.intrinsic, "llvm.fabs")),
        ("floor", partial(mathematics.intrinsic, "llvm.floor")),
        ("ceil", partial(mathematics.intrinsic, "llvm.ceil")),
        ("logistic", mathematics.logistic),
    )
} | {
    name: _unary(lambda b, x, symbol=symbol: mathematics.library(b, symbol, x))
    for name, symbol in (
        ("log1p", "log1pf"),
        ("expm1", "expm1f"),
        ("sin", "sinf"),
        ("cos", "cosf"),
        ("tan", "tanf"),
        ("asin", "asinf"),
        ("acos", "acosf"),
        ("atan", "atanf"),
        ("sinh", "sinhf"),
        ("cosh", "coshf"),
        ("tanh", "tanhf"),
        ("cbrt", "cbrtf"),
        ("erf", "erff"),
    )
}
