"""What the dialects of Pallas do differently: how a kernel is called, and a few of its words."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from xpr.pipeline.settings import Kernel
from xpr.types import Array


@dataclasses.dataclass(frozen=True)
class Dialect(abc.ABC):
    """One way to compile a kernel. Static."""

    kernel: Kernel

    @abc.abstractmethod
    def why_not(self, platform: str, tile_size: int) -> str | None:
        """What keeps it from running on this platform ("cpu", "gpu", "tpu"), if anything."""

    def call(
        self, body: Callable[..., None], programs: int, inputs: tuple, outputs: Any, update: bool
    ) -> Any:
        """Run `body(*references to inputs, references to outputs)` once for every program.

        Args:
          body: the kernel.
          programs: how many; each finds its number in `pl.program_id(0)`.
          inputs: trees of arrays.
          outputs: tree of shapes and dtypes.
          update: whether the only output starts as the last input.

        Returns:
          The outputs.
        """
        return pl.pallas_call(
            body,
            grid=(programs,),
            out_shape=outputs,
            input_output_aliases={len(jax.tree.leaves(inputs)) - 1: 0} if update else {},
            **self.options(inputs, outputs),
        )(*inputs)

    @abc.abstractmethod
    def options(self, inputs: tuple, outputs: Any) -> dict[str, Any]:
        """What `pl.pallas_call` is told besides."""

    @abc.abstractmethod
    def add(self, ref: Any, index: tuple[Array, int], value: Array, mask: Array | None) -> None:
        """Add to one number, while other programs do.

        Args:
          ref: to the array.
          index: of the number.
          value: [], or [P] with a mask.
          mask: [P] the elements that are added, one by one. None for a scalar.
        """

    def zeros(self, pixels: int, dtype: Any) -> Array:
        """[P] zeros, laid out as the state of a loop."""
        return jnp.zeros(pixels, dtype)

    def vjp(self, function: Callable, *args: Any) -> tuple[Any, Callable[[Any], Any]]:
        """As `jax.vjp`."""
        return jax.vjp(function, *args)


def dialect(kernel: Kernel) -> Dialect:
    """The dialect that the settings name."""
    module = importlib.import_module(f"xpr.pipeline.backends.{kernel.dialect}")
    return module.Words(kernel)
