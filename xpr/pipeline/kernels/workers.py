"""Kernels on several threads."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jax.extend import core

from xpr.pipeline.kernels.program import Entry

ALIGNMENT = 64  # bytes of a cache line


def run(entry: Entry, packs: list[np.ndarray]) -> None:
    """Call a kernel once for each pack of arguments, side by side."""
    others = [_pool().submit(entry, pack.ctypes.data) for pack in packs[1:]]
    entry(packs[0].ctypes.data)
    for other in others:
        other.result()


def clear(arrays: Iterable[np.ndarray], parts: int) -> None:
    """Fill with zeros, a part a thread."""

    def fill(i: int) -> None:
        for array in arrays:
            array[len(array) * i // parts : len(array) * (i + 1) // parts].fill(0)

    arrays = list(arrays)
    list(_pool().map(fill, range(parts)))


def pack(values: Iterable[np.ndarray | int]) -> np.ndarray:
    """Arguments as a kernel reads them: arrays by their address.

    Raises:
      TypeError: an array that no kernel can read.
    """
    values = list(values)
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            raise TypeError("a kernel reads float32, this array is float64")
    return np.array(
        [v.ctypes.data if isinstance(v, np.ndarray) else v for v in values], dtype=np.int64
    )


def scratch(floats: int) -> np.ndarray:
    """Uninitialised float32 memory of a thread's own, from a cache line on."""
    extra = ALIGNMENT // 4
    memory = np.empty(floats + 2 * extra, np.float32)
    start = -memory.ctypes.data // 4 % extra
    return memory[start : start + floats]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="xpr")


def digest(*told: object) -> str:
    """A name that two processes give the same kernel, and no two kernels share.

    Arrays are told apart by their bytes: a jaxpr shows those it holds by a name or cut short.
    """
    name = hashlib.sha256(repr(told).encode())
    for array in map(np.asarray, _arrays(told)):
        name.update(repr((array.dtype, array.shape)).encode() + array.tobytes())
    return name.hexdigest()[:16]


def _arrays(told: Any) -> Iterator[Any]:
    """The constants and literals of all jaxprs within tuples, lists and parameters."""
    if isinstance(told, core.ClosedJaxpr):
        yield from told.consts
        told = told.jaxpr
    if isinstance(told, core.Jaxpr):
        for equation in told.eqns:
            yield from (atom.val for atom in equation.invars if isinstance(atom, core.Literal))
            yield from _arrays(tuple(equation.params.values()))
        yield from (atom.val for atom in told.outvars if isinstance(atom, core.Literal))
    elif isinstance(told, tuple | list):
        for part in told:
            yield from _arrays(part)
