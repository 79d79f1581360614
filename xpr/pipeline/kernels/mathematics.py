"""Functions that a processor has no instruction for, on scalars and vectors of lanes.

Those that a kernel spends its time in are polynomials (relative error about 1e-7); the rest call
the C library lane by lane.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir

from xpr.pipeline.kernels.values import (
    FAST,
    FLOAT,
    INT,
    Builder,
    Value,
    constant,
    integer,
    is_vector,
    kind_like,
    select,
)

_POWERS = np.polynomial.chebyshev.Chebyshev.interpolate(np.exp2, 5, domain=[-0.5, 0.5])
# 2^f on [-1/2, 1/2], lowest power first, at 8e-8.
EXP2 = _POWERS.convert(kind=np.polynomial.Polynomial).coef
# log((1 + s) / (1 - s)) / s, in powers of s^2; the next term is below 2e-9 for m in [0.7, 1.42].
LOG = tuple(2 / (2 * k + 1) for k in range(5))
_OVER_R = np.polynomial.chebyshev.Chebyshev.interpolate(
    lambda u: np.sinc(np.sqrt(u) / np.pi), 4, domain=[0, (np.pi / 2) ** 2]
)
# sin(r) / r on [-pi/2, pi/2], in powers of r^2, at 7e-9.
SINE = _OVER_R.convert(kind=np.polynomial.Polynomial).coef
_OVER_T = np.polynomial.chebyshev.Chebyshev.interpolate(
    lambda u: np.arctan(np.sqrt(u)) / np.sqrt(u), 8, domain=[0, 1]
)
# atan(t) / t on [-1, 1], in powers of t^2, at 2e-8.
ARCTANGENT = _OVER_T.convert(kind=np.polynomial.Polynomial).coef
MANTISSA, ONE, BIAS = 0x7FFFFF, 0x3F800000, 127


def intrinsic(name: str, b: Builder, *args: Value) -> Value:
    """An LLVM intrinsic of floats, such as "llvm.sqrt"."""
    kind = args[0].type
    suffix = f"v{args[0].type.count}f32" if is_vector(args[0]) else "f32"
    return b.call(_declare(b, f"{name}.{suffix}", kind, len(args)), args)


def library(b: Builder, symbol: str, *args: Value) -> Value:
    """A function of the C library, such as "tanhf", lane by lane."""
    function = _declare(b, symbol, FLOAT, len(args))
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    if not is_vector(args[0]):
        return b.call(function, args)
    result: Value = ir.Constant(args[0].type, ir.Undefined)
    for lane in (ir.Constant(INT, i) for i in range(args[0].type.count)):
        value = b.call(function, [b.extract_element(a, lane) for a in args])
        result = b.insert_element(result, value, lane)
    return result


def exp2(b: Builder, x: Value) -> Value:
    """2^x: a polynomial of the fraction, times a power of two made from its bits."""
    return _exp(b, x, 1)


def exp(b: Builder, x: Value) -> Value:
    """e^x; at least 2^-126 and finite."""
    return _exp(b, x, math.log2(math.e))


def _exp(b: Builder, x: Value, log2_base: float) -> Value:
    scale = constant(x, log2_base)
    # What is not a number passes through both.
    low, high = constant(x, -126 / log2_base), constant(x, 127 / log2_base)
    x = b.select(b.fcmp_ordered("<", x, low), low, x)
    x = b.select(b.fcmp_ordered(">", x, high), high, x)
    whole = intrinsic("llvm.rint", b, b.fmul(x, scale))
    # The product's rounding error would be that of a large number; fused, it is the fraction's.
    fraction = intrinsic("llvm.fmuladd", b, x, scale, b.fneg(whole))
    exponent = b.add(b.fptosi(whole, kind_like(x, INT)), integer(x, BIAS))
    power = b.bitcast(b.shl(exponent, integer(x, 23)), x.type)
    return b.fmul(_polynomial(b, EXP2, fraction), power, flags=FAST)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm: e log 2 + log m, m in [0.7, 1.42] from the bits of x = m 2^e."""
    bits = b.bitcast(x, kind_like(x, INT))
    # Shifting by 1/sqrt(2) first puts the cut between exponents where m is largest.
    shifted = b.sub(bits, integer(x, 0x3F3504F3))
    exponent = b.ashr(shifted, integer(x, 23))
    mantissa = b.bitcast(b.sub(bits, b.shl(exponent, integer(x, 23))), x.type)
    one = constant(x, 1)
    s = b.fdiv(b.fsub(mantissa, one), b.fadd(mantissa, one))
    series = b.fmul(s, _polynomial(b, LOG, b.fmul(s, s, flags=FAST)), flags=FAST)
    whole = b.sitofp(exponent, x.type)
    value = intrinsic("llvm.fmuladd", b, whole, constant(x, math.log(2)), series)
    positive = b.fcmp_ordered(">", x, constant(x, 0))
    edge = select(b, b.fcmp_ordered("==", x, constant(x, 0)), _inf(x, -1), constant(x, math.nan))
    value = select(b, b.fcmp_ordered("==", x, _inf(x, 1)), x, value)
    return select(b, positive, value, edge)


def power(b: Builder, x: Value, y: Value) -> Value:
    """x^y for real y; of a negative x, whole y only."""
    zero, one, two = constant(x, 0), constant(x, 1), constant(x, 2)
    size = intrinsic("llvm.fabs", b, x)
    nothing = b.fcmp_ordered("==", x, zero)
    value = exp(b, b.fmul(y, log(b, select(b, nothing, one, size))))
    at_zero = select(b, b.fcmp_ordered("<", y, zero), _inf(x, 1), zero)
    value = select(b, nothing, select(b, b.fcmp_ordered("==", y, zero), one, at_zero), value)
    half = intrinsic("llvm.rint", b, b.fdiv(y, two))
    even = b.fcmp_ordered("==", b.fmul(half, two), y)
    whole = b.fcmp_ordered("==", intrinsic("llvm.rint", b, y), y)
    mirrored = select(b, even, value, b.fneg(value))
    mirrored = select(b, whole, mirrored, constant(x, math.nan))
    return select(b, b.fcmp_ordered("<", x, zero), mirrored, value)


def sin(b: Builder, x: Value) -> Value:
    """sin(x) = (-1)^n sin(x - n pi), n the nearest."""
    return _wave(b, x, intrinsic("llvm.rint", b, b.fmul(x, constant(x, 1 / math.pi))), 0)


def cos(b: Builder, x: Value) -> Value:
    """cos(x) = -(-1)^n sin(x - (n + 1/2) pi), n + 1/2 the nearest."""
    turns = b.fsub(b.fmul(x, constant(x, 1 / math.pi)), constant(x, 0.5))
    return b.fneg(_wave(b, x, intrinsic("llvm.rint", b, turns), 0.5))


def _wave(b: Builder, x: Value, n: Value, more: float) -> Value:
    """(-1)^n sin(x - (n + more) pi), for at most a quarter turn that is left."""
    turns, rest = b.fneg(b.fadd(n, constant(x, more))), math.pi
    # The product is exact only if it is fused; then what pi's digits leave is all that is missing.
    for _ in range(3):
        part = float(np.float32(rest))
        x, rest = intrinsic("llvm.fmuladd", b, turns, constant(x, part), x), rest - part
    value = b.fmul(x, _polynomial(b, SINE, b.fmul(x, x)))
    half = b.fmul(n, constant(x, 0.5))
    even = b.fcmp_ordered("==", half, intrinsic("llvm.rint", b, half))
    return b.select(even, value, b.fneg(value))


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y): that of the nearer axis, and how far from it."""
    zero, one = constant(x, 0), constant(x, 1)
    right, up = (intrinsic("llvm.fabs", b, v) for v in (x, y))
    steep = b.fcmp_ordered(">", up, right)
    large, small = b.select(steep, up, right), b.select(steep, right, up)
    diagonal = b.fcmp_ordered("==", large, small)  # infinite both, perhaps
    t = b.select(diagonal, one, b.fdiv(small, large))
    t = b.select(b.fcmp_ordered("==", large, zero), zero, t)
    angle = b.fmul(t, _polynomial(b, ARCTANGENT, b.fmul(t, t)))
    angle = b.select(steep, b.fsub(constant(x, math.pi / 2), angle), angle)
    left = b.fcmp_ordered("<", intrinsic("llvm.copysign", b, one, x), zero)
    angle = b.select(left, b.fsub(constant(x, math.pi), angle), angle)
    no_number = b.fcmp_unordered("uno", x, y)
    return b.select(no_number, constant(x, math.nan), intrinsic("llvm.copysign", b, angle, y))


def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return b.fdiv(constant(x, 1), intrinsic("llvm.sqrt", b, x), flags=FAST)


def logistic(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    one = constant(x, 1)
    return b.fdiv(one, b.fadd(one, exp(b, b.fneg(x))), flags=FAST)


def _polynomial(b: Builder, coefficients: object, x: Value) -> Value:
    *rest, result = (constant(x, c) for c in coefficients)  # pyright: ignore[reportGeneralTypeIssues]
    for c in reversed(rest):
        result = intrinsic("llvm.fmuladd", b, result, x, c)
    return result


def _inf(like: Value, sign: int) -> ir.Constant:
    return constant(like, sign * math.inf)


def _declare(b: Builder, name: str, kind: ir.Type, arity: int) -> ir.Function:
    module = b.module
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(kind, [kind] * arity), name)
