"""No dialect: the kernels' programs run one after the other, on any machine, to try them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.experimental import pallas as pl

from xpr.pipeline.backends.dialect import Dialect, aliases
from xpr.types import Array


class Words(Dialect):
    """See `Dialect`."""

    def why_not(self, platform: str, tile_size: int) -> str | None:
        """It runs anywhere."""
        del platform, tile_size
        return None

    def call(
        self, body: Callable[..., None], programs: int, inputs: tuple, outputs: Any, update: bool
    ) -> Any:
        """One program after the other."""
        return pl.pallas_call(
            body,
            grid=(programs,),
            out_shape=outputs,
            input_output_aliases=aliases(inputs) if update else {},
            interpret=True,
        )(*inputs)

    def add(self, ref: Any, index: tuple[Array, int], value: Array, mask: Array | None) -> None:
        """Nobody else adds meanwhile."""
        ref[index] += value if mask is None else jnp.sum(jnp.where(mask, value, 0))
