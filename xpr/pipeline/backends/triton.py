"""The Triton dialect: GPUs of NVIDIA and AMD."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.experimental.pallas import triton

from xpr.pipeline.backends.dialect import Dialect
from xpr.types import Array


class Words(Dialect):
    """See `Dialect`."""

    def why_not(self, platform: str, tile_size: int) -> str | None:
        """It needs a GPU, and arrays whose length is a power of two."""
        if platform != "gpu":
            return (
                f"its kernels are compiled for GPUs (CUDA, ROCm), JAX's default device is a "
                f"{platform}. To try them slowly: xpr.Settings(kernel=xpr.Kernel('interpret'))."
            )
        if tile_size & (tile_size - 1):
            return f"its kernels need a tile size that is a power of two, not {tile_size} px."
        return None

    def options(self, inputs: tuple, outputs: Any) -> dict[str, Any]:
        """One block of threads a program."""
        return {"compiler_params": triton.CompilerParams(num_warps=self.kernel.warps, num_stages=1)}

    def add(self, ref: Any, index: tuple[Array, int], value: Array, mask: Array | None) -> None:
        """With the machine's atomic addition."""
        rank, column = index
        if mask is not None:
            rank = jnp.broadcast_to(rank, value.shape)
        triton.atomic_add(ref, (rank, column), value, mask=mask)
