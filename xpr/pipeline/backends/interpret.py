"""No dialect: the kernels' programs run one after the other, on any machine, to try them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from xpr.pipeline.backends.dialect import Dialect
from xpr.types import Array


class Words(Dialect):
    """See `Dialect`."""

    def why_not(self, platform: str, tile_size: int) -> str | None:
        """It runs anywhere."""
        del platform, tile_size
        return None

    def options(self, inputs: tuple, outputs: Any) -> dict[str, Any]:
        """One program after the other."""
        return {"interpret": True}

    def add(self, ref: Any, index: tuple[Array, int], value: Array, mask: Array | None) -> None:
        """Nobody else adds meanwhile."""
        ref[index] += value if mask is None else jnp.sum(jnp.where(mask, value, 0))
