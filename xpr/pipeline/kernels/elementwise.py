"""Elementwise primitives of JAX in LLVM instructions, on scalars or on lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from xpr.pipeline.kernels import mathematics
from xpr.pipeline.kernels.values import (
    FAST,
    FLOAT,
    INT,
    Builder,
    Value,
    constant,
    convert,
    is_float,
    kind_like,
    select,
)

Emitter = Callable[..., Value]


def _arithmetic(of_floats: str, of_integers: str) -> Emitter:
    def emitter(b: Builder, params: Any, x: Value, y: Value) -> Value:
        del params
        if is_float(x):
            zeros = (_is_zero(x), _is_zero(y))
            if of_floats == "fadd" and any(zeros):
                return y if zeros[0] else x
            return getattr(b, of_floats)(x, y, flags=FAST)
        return getattr(b, of_integers)(x, y)

    return emitter


def _is_zero(x: Value) -> bool:
    return isinstance(x, ir.Constant) and x.constant == 0


def _comparison(operator: str) -> Emitter:
    def emitter(b: Builder, params: Any, x: Value, y: Value) -> Value:
        del params
        if not is_float(x):
            return b.icmp_signed(operator, x, y)
        return (b.fcmp_unordered if operator == "!=" else b.fcmp_ordered)(operator, x, y)

    return emitter


def _extreme(operator: str) -> Emitter:
    def emitter(b: Builder, params: Any, x: Value, y: Value) -> Value:
        return select(b, _comparison(operator)(b, params, x, y), x, y)

    return emitter


def _clamp(b: Builder, params: Any, low: Value, x: Value, high: Value) -> Value:
    return _extreme("<")(b, params, _extreme(">")(b, params, x, low), high)


def _power(b: Builder, params: Any, x: Value) -> Value:
    exponent = params["y"]
    result = constant(x, 1)
    for bit in bin(abs(exponent))[2:]:
        result = b.fmul(result, result, flags=FAST)
        result = b.fmul(result, x, flags=FAST) if bit == "1" else result
    return b.fdiv(constant(x, 1), result, flags=FAST) if exponent < 0 else result


def _sign(b: Builder, params: Any, x: Value) -> Value:
    del params
    zero, one = constant(x, 0), constant(x, 1)
    negative = select(b, b.fcmp_ordered("<", x, zero), constant(x, -1), zero)
    return select(b, b.fcmp_ordered(">", x, zero), one, negative)


def _round(b: Builder, params: Any, x: Value) -> Value:
    if int(params["rounding_method"]) == 1:  # to the nearest, ties to even
        return mathematics.intrinsic("llvm.rint", b, x)
    return mathematics.intrinsic("llvm.round", b, x)


def _select(b: Builder, params: Any, which: Value, *cases: Value) -> Value:
    del params
    return select(b, which, cases[1], cases[0])


def _pass(b: Builder, params: Any, x: Value) -> Value:
    del b, params
    return x


def _convert(b: Builder, params: Any, x: Value) -> Value:
    kind = np.dtype(params["new_dtype"]).kind
    return convert(b, x, {"b": "b", "f": "f"}.get(kind, "i"))


def _same_bits(b: Builder, params: Any, x: Value) -> Value:
    to = FLOAT if np.issubdtype(params["new_dtype"], np.floating) else INT
    return b.bitcast(x, kind_like(x, to))


def _finite(b: Builder, params: Any, x: Value) -> Value:
    del params
    return b.fcmp_ordered("==", b.fsub(x, x), constant(x, 0))


def _unary(function: Callable[[Builder, Value], Value]) -> Emitter:
    return lambda b, params, x: function(b, x)


PRIMITIVES: dict[str, Emitter] = (
    {
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
        "neg": lambda b, params, x: b.fneg(x) if is_float(x) else b.neg(x),
        "clamp": _clamp,
        "integer_pow": _power,
        "square": lambda b, params, x: b.fmul(x, x, flags=FAST),
        "one_minus_square": lambda b, params, x: b.fsub(constant(x, 1), b.fmul(x, x)),
        "sign": _sign,
        "round": _round,
        "select_n": _select,
        "is_finite": _finite,
        "convert_element_type": _convert,
        "bitcast_convert_type": _same_bits,
        "copy": _pass,
        "stop_gradient": _pass,
        "optimization_barrier": _pass,
        "reduce_precision": _pass,
        "pow": lambda b, params, x, y: mathematics.power(b, x, convert(b, y, "f")),
        "atan2": lambda b, params, y, x: mathematics.atan2(b, y, x),
    }
    | {
        name: _unary(function)
        for name, function in (
            ("exp", mathematics.exp),
            ("exp2", mathematics.exp2),
            ("log", mathematics.log),
            ("sin", mathematics.sin),
            ("cos", mathematics.cos),
            ("sqrt", partial(mathematics.intrinsic, "llvm.sqrt")),
            ("rsqrt", mathematics.rsqrt),
            ("abs", partial(mathematics.intrinsic, "llvm.fabs")),
            ("floor", partial(mathematics.intrinsic, "llvm.floor")),
            ("ceil", partial(mathematics.intrinsic, "llvm.ceil")),
            ("logistic", mathematics.logistic),
        )
    }
    | {
        name: _unary(lambda b, x, symbol=symbol: mathematics.library(b, symbol, x))
        for name, symbol in (
            ("log1p", "log1pf"),
            ("expm1", "expm1f"),
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
)
