"""Python functions as operations of a compiled JAX program on a CPU, without copies.

XLA calls a C function with a frame that describes its arrays (the typed FFI, `xla/ffi/api/c_api.h`);
the handlers here turn those into NumPy views. `jax.pure_callback` would do, but it copies, keeps
programs out of the compilation cache, and can wait for a thread that waits for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import jax
import numpy as np

from xpr.types import Array

Function = Callable[..., None]  # of the operands' views, then the results' to fill in

DTYPES = {
    1: np.bool_,
    4: np.int32,
    6: np.uint8,
    5: np.int64,
    8: np.uint32,
    9: np.uint64,
    11: np.float32,
    12: np.float64,
}
METADATA = 1  # the kind of extension by which XLA asks for the version
VERSION = (0, 1)  # of the interface, the oldest that has what is used here
ERROR_CREATE = 48  # bytes into the table of the interface's functions
INTERNAL = 13


class _Buffer(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class _Buffers(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", c_void_p),
        ("buffers", POINTER(POINTER(_Buffer))),
    )


class _Extension(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("next", c_void_p),
        ("metadata", c_void_p),
    )


class _Metadata(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("version_size", c_size_t),
        ("version_extension", c_void_p),
        ("major", c_int),
        ("minor", c_int),
    )


class _Frame(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", POINTER(_Extension)),
        ("api", c_void_p),
        ("context", c_void_p),
        ("stage", c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


class _Error(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("message", c_char_p),
        ("code", c_int),
    )


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
_HANDLERS: dict[str, Any] = {}  # XLA keeps their addresses for ever


def call(
    name: str, function: Function, results: Sequence[Any], *operands: Array
) -> tuple[Array, ...]:
    """An operation that runs `function` on the host.

    Args:
      name: of what it does, unique: a later function of the same name is not looked at.
      function: called with a read-only view of each operand, then a view of each result to fill.
        It runs on one of XLA's threads and must not call JAX.
      results: their shapes and dtypes.
      *operands: arrays.
    """
    if name not in _HANDLERS:
        handler = _Handler(lambda frame: _handle(function, frame))
        _HANDLERS[name] = handler
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    outputs = jax.ffi.ffi_call(name, tuple(results), vmap_method="sequential")(*operands)
    return tuple(outputs)


def _handle(function: Function, frame: Any) -> int | None:
    frame = frame.contents
    extension = frame.extension
    if extension and extension.contents.kind == METADATA:
        metadata = ctypes.cast(extension.contents.metadata, POINTER(_Metadata)).contents
        metadata.major, metadata.minor = VERSION
        return None
    try:
        function(*_views(frame.arguments), *_views(frame.results))
    except BaseException as error:  # nothing may pass through C; XLA raises it again
        return _error(frame.api, f"{type(error).__name__}: {error}")
    return None


def _views(buffers: Any) -> list[np.ndarray]:
    return [_view(buffers.buffers[i].contents) for i in range(buffers.size)]


def _view(buffer: Any) -> np.ndarray:
    shape = tuple(buffer.dims[i] for i in range(buffer.rank))
    dtype = np.dtype(DTYPES[buffer.dtype])
    if 0 in shape:
        return np.empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(buffer.data)
    return np.frombuffer(memory, dtype).reshape(shape)


def _error(api: int, message: str) -> int:
    create: Any = ctypes.cast(api + ERROR_CREATE, POINTER(c_void_p)).contents.value
    arguments = _Error(ctypes.sizeof(_Error), None, message.encode(), INTERNAL)
    return ctypes.CFUNCTYPE(c_void_p, POINTER(_Error))(create)(ctypes.byref(arguments))
