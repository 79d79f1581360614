"""The Mosaic dialect: GPUs of NVIDIA from Hopper on."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu
from jax.extend.core import Literal

from xpr.pipeline.backends.dialect import Dialect
from xpr.types import Array

THREADS = 128  # of a program


class Words(Dialect):
    """See `Dialect`."""

    def why_not(self, platform: str, tile_size: int) -> str | None:
        """It needs such a GPU, pixels for all of its threads, and knows no atomic addition."""
        if platform != "gpu":
            return (
                "its Mosaic kernels are compiled for NVIDIA's GPUs, JAX's default device is a "
                f"{platform}."
            )
        if tile_size**2 % THREADS:
            return (
                f"its Mosaic kernels need tiles of a multiple of {THREADS} pixels, not of "
                f"{tile_size} x {tile_size}."
            )
        if self.kernel.accumulate != "rows":
            return (
                f"its Mosaic kernels know no atomic addition for {self.kernel.accumulate!r}; "
                "accumulate='rows' needs none."
            )
        return None

    def options(self, inputs: tuple, outputs: Any) -> dict[str, Any]:
        """One warpgroup a program; everything stays in global memory."""
        whole = pl.BlockSpec(memory_space=mosaic_gpu.GMEM)
        return {
            "in_specs": jax.tree.map(lambda _: whole, inputs),
            "out_specs": jax.tree.map(lambda _: whole, outputs),
            "compiler_params": mosaic_gpu.CompilerParams(),
        }

    def add(self, ref: Any, index: tuple[Array, int], value: Array, mask: Array | None) -> None:
        """There is none: `why_not` has said so."""
        raise NotImplementedError

    def zeros(self, pixels: int, dtype: Any) -> Array:
        """Spread over the threads."""
        layout = mosaic_gpu.Layout.WG_STRIDED((pixels,), vec_size=pixels // THREADS)
        return mosaic_gpu.layout_cast(jnp.zeros(pixels, dtype), layout)

    def vjp(self, function: Callable, *args: Any) -> tuple[Any, Callable[[Any], Any]]:
        """As `jax.vjp`, in the words that Mosaic knows."""
        value, pull = _plainly(lambda *args: jax.vjp(function, *args), *args)
        return value, partial(_plainly, pull)


def _add(a: Array, b: Array) -> Array:
    return a + b


def _integer_pow(x: Array, *, y: int) -> Array:
    power: Any = math.prod([x] * abs(y))
    return power if y >= 0 else 1 / power


PLAIN = {"add_any": _add, "integer_pow": _integer_pow}  # what Mosaic lacks, in other words


def _plainly(function: Callable, *arguments: Any) -> Any:
    """Call a function with the primitives of `PLAIN` replaced."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    results = _run(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def _run(jaxpr: Any, constants: Any, arguments: list[Any]) -> list[Any]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        values, name = [read(v) for v in equation.invars], equation.primitive.name
        if name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            results = _run(inner.jaxpr, inner.consts, values)
        else:
            word = PLAIN.get(name, equation.primitive.bind)
            results = word(*values, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        known.update(zip(equation.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]
