"""Primitives that move entries of small arrays about, or add them up: arrays of values.

An array is a NumPy array of LLVM values, so that most of these are NumPy's own functions: they cost
no instruction at all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir

from xpr.pipeline.kernels.elementwise import PRIMITIVES
from xpr.pipeline.kernels.values import INT, Builder, Value, literal, select, spread

Values = np.ndarray  # of Value
Shaper = Callable[..., Any]  # builder, parameters, arrays -> an array or a list of them


def filled(shape: tuple[int, ...], entry: Callable[[int], Value]) -> Values:
    """The array whose entries, row by row, are entry(0), entry(1) and so on."""
    array = np.empty(math.prod(shape), dtype=object)
    for j in range(array.size):
        array[j] = entry(j)
    return array.reshape(shape)


def binary(b: Builder, primitive: str, x: Value, y: Value) -> Value:
    """One entry of an elementwise primitive."""
    return PRIMITIVES[primitive](b, {}, *spread(b, (x, y)))


def _broadcast(b: Builder, params: Any, x: Values) -> Values:
    del b
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _slice(b: Builder, params: Any, x: Values) -> Values:
    del b
    starts, limits = params["start_indices"], params["limit_indices"]
    steps = params["strides"] or [1] * x.ndim
    return x[(*(slice(*span) for span in zip(starts, limits, steps, strict=True)), ...)]


def _split(b: Builder, params: Any, x: Values) -> list[Values]:
    del b
    return np.split(x, np.cumsum(params["sizes"])[:-1], axis=params["axis"])


def _unstack(b: Builder, params: Any, x: Values) -> list[Values]:
    del b
    axis = params["axis"]
    return [np.squeeze(part, axis) for part in np.split(x, x.shape[axis], axis=axis)]


def _pad(b: Builder, params: Any, x: Values, fill: Values) -> Values:
    del b
    config = params["padding_config"]
    shape = [
        low + high + n + max(n - 1, 0) * gap for n, (low, high, gap) in _pairs(x.shape, config)
    ]
    result = np.full([max(n, 0) for n in shape], fill[()], dtype=object)
    for index in np.ndindex(*x.shape):
        place = tuple(low + i * (gap + 1) for i, (low, _, gap) in _pairs(index, config))
        if all(0 <= i < n for i, n in _pairs(place, result.shape)):
            result[place] = x[index]
    return result


_pairs = functools.partial(zip, strict=True)


def _iota(b: Builder, params: Any) -> Values:
    del b
    shape, axis = params["shape"], params["dimension"]
    numbers = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return literal(np.broadcast_to(numbers, shape).astype(params["dtype"]))


def _reduce(primitive: str) -> Shaper:
    def shaper(b: Builder, params: Any, x: Values) -> Values:
        axes = sorted(params["axes"])
        kept = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose(*kept, *axes).reshape([x.shape[i] for i in kept] + [-1])
        result = np.empty(rows.shape[:-1], dtype=object)
        for index in np.ndindex(*result.shape):
            entries = list(rows[index])
            result[index] = functools.reduce(functools.partial(binary, b, primitive), entries)
        return result

    return shaper


def _extreme_place(primitive: str) -> Shaper:
    def shaper(b: Builder, params: Any, x: Values) -> Values:
        (axis,) = params["axes"]
        rows = np.moveaxis(x, axis, -1)
        result = np.empty(rows.shape[:-1], dtype=object)
        for index in np.ndindex(*result.shape):
            best, place = rows[index][0], ir.Constant(INT, 0)
            for i, entry in enumerate(rows[index][1:], 1):
                better = binary(b, primitive, entry, best)
                best, place = (
                    select(b, better, entry, best),
                    select(b, better, ir.Constant(INT, i), place),
                )
            result[index] = place
        return result

    return shaper


def _scan(primitive: str) -> Shaper:
    def shaper(b: Builder, params: Any, x: Values) -> Values:
        rows = list(np.moveaxis(x, params["axis"], 0)[:, None])
        rows = rows[::-1] if params["reverse"] else rows
        combine = np.frompyfunc(functools.partial(binary, b, primitive), 2, 1)
        found = list(itertools.accumulate(rows, combine))
        found = found[::-1] if params["reverse"] else found
        return np.moveaxis(np.concatenate(found), 0, params["axis"])

    return shaper


def _dot(b: Builder, params: Any, x: Values, y: Values) -> Values:
    (x_in, y_in), (x_batch, y_batch) = params["dimension_numbers"]
    x_out = [i for i in range(x.ndim) if i not in (*x_in, *x_batch)]
    y_out = [i for i in range(y.ndim) if i not in (*y_in, *y_batch)]
    batch = [x.shape[i] for i in x_batch]
    shape = batch + [x.shape[i] for i in x_out] + [y.shape[i] for i in y_out]
    inner = math.prod(x.shape[i] for i in x_in)
    left = x.transpose(*x_batch, *x_out, *x_in).reshape(math.prod(batch), -1, inner)
    right = y.transpose(*y_batch, *y_out, *y_in).reshape(math.prod(batch), -1, inner)
    result = np.empty((len(left), left.shape[1], right.shape[1]), dtype=object)
    for i, j, k in np.ndindex(*result.shape):
        products = [binary(b, "mul", p, q) for p, q in zip(left[i, j], right[i, k], strict=True)]
        result[i, j, k] = functools.reduce(functools.partial(binary, b, "add"), products)
    return result.reshape(shape)


def _dynamic_slice(b: Builder, params: Any, x: Values, *starts: Values) -> Values:
    """Every slice that there is, and a choice among them."""
    result = np.full(params["slice_sizes"], None, dtype=object)
    for here, part in _windows(b, x.shape, result.shape, starts):
        result = _choose(b, here, x[part], result)
    return result


def _dynamic_update_slice(
    b: Builder, params: Any, x: Values, update: Values, *starts: Values
) -> Values:
    """Every place that there is, and a choice among the outcomes."""
    del params
    result = x
    for here, part in _windows(b, x.shape, update.shape, starts):
        placed = x.copy()
        placed[part] = update
        result = _choose(b, here, placed, result)
    return result


def _windows(
    b: Builder, shape: tuple[int, ...], sizes: tuple[int, ...], starts: tuple[Values, ...]
) -> Iterator[tuple[Value | None, tuple[slice, ...]]]:
    """Where a window may lie, and whether it starts there or beyond on every axis.

    The last that does is where it is: a start out of range is the nearest that fits. The first
    window is where it is if no other is (None).
    """
    for corner in np.ndindex(*(n - size + 1 for n, size in _pairs(shape, sizes))):
        reached = [
            binary(b, "ge", start[()], ir.Constant(INT, i)) for start, i in _pairs(starts, corner)
        ]
        here = functools.reduce(functools.partial(binary, b, "and"), reached)
        yield (
            here if any(corner) else None,
            tuple(slice(i, i + n) for i, n in _pairs(corner, sizes)),
        )


def _choose(b: Builder, here: Value | None, yes: Values, no: Values) -> Values:
    if here is None:
        return yes
    result = np.empty(yes.shape, dtype=object)
    for index in np.ndindex(*yes.shape):
        result[index] = select(b, here, yes[index], no[index])
    return result


def _numpy(function: Callable[[Any, Values], Any]) -> Shaper:
    return lambda b, params, x: function(params, x)


SHAPERS: dict[str, Shaper] = (
    {
        "broadcast_in_dim": _broadcast,
        "slice": _slice,
        "split": _split,
        "pad": _pad,
        "iota": _iota,
        "empty2": lambda b, params: literal(np.zeros((), params["dtype"])),
        "dot_general": _dot,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "reshape": _numpy(lambda params, x: x.reshape(params["new_sizes"])),
        "squeeze": _numpy(lambda params, x: np.squeeze(x, tuple(params["dimensions"]))),
        "expand_dims": _numpy(lambda params, x: np.expand_dims(x, tuple(params["dimensions"]))),
        "transpose": _numpy(lambda params, x: x.transpose(params["permutation"])),
        "rev": _numpy(lambda params, x: np.flip(x, tuple(params["dimensions"]))),
        "unstack": _unstack,
        "concatenate": lambda b, params, *xs: np.concatenate(xs, axis=params["dimension"]),
        "stack": lambda b, params, *xs: np.stack(xs, axis=params["axis"]),
        "argmin": _extreme_place("lt"),
        "argmax": _extreme_place("gt"),
    }
    | {
        f"cum{name}": _scan(primitive)
        for name, primitive in (("sum", "add"), ("prod", "mul"), ("max", "max"), ("min", "min"))
    }
    | {
        f"reduce_{name}": _reduce(primitive)
        for name, primitive in (
            ("sum", "add"),
            ("prod", "mul"),
            ("max", "max"),
            ("min", "min"),
            ("and", "and"),
            ("or", "or"),
        )
    }
)
