"""The numbers that depend on the machine, in one place."""

from __future__ import annotations

import dataclasses
import os

import jax

from xpr.errors import UserError
from xpr.pipeline.capacity import LARGEST

DIALECTS = ("triton", "mosaic", "interpret")
ACCUMULATIONS = ("rows", "reduced", "atomics")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """How the `pallas` backend's kernels are written. Static; the image does not depend on it.

    Attributes:
      dialect: "triton" (NVIDIA and AMD), "mosaic" (NVIDIA from Hopper on) or "interpret": no kernel
        at all, the same program on any machine, slowly.
      accumulate: how gradients of pixels become those of splats: "rows", "reduced" or "atomics"
        (see `backends/accumulate.py`). The first alone gives the same bits in every run.
      threshold: pixels of a tile that must see a splat for "reduced" to sum them first.
      warps: of 32 threads, a tile.
    """

    dialect: str = "triton"
    accumulate: str = "rows"
    threshold: int = 8
    warps: int = 4

    def __post_init__(self) -> None:
        """Raise a UserError for a name that does not exist."""
        names = {"dialect": DIALECTS, "accumulate": ACCUMULATIONS}
        for field, known in names.items():
            if getattr(self, field) not in known:
                raise UserError(
                    f"Kernel.{field} is {getattr(self, field)!r}; known: {', '.join(known)}."
                )


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the tiled backends cut up their work. Static; the image does not depend on it.

    Attributes:
      tile_size: px, the side of a square tile.
      batch: tiles that are composited side by side.
      chunk: splats between two looks at whether every pixel is done.
      block: (tile, splat) pairs that are sorted at a time.
      loops: threads of the `cpu` backend; independent loops over batches in `xla`, which runs
        them on as many cores.
      kernel: of the `pallas` backend.
    """

    tile_size: int = 16
    batch: int = 16
    chunk: int = 32
    block: int = 1 << 16
    loops: int = 1
    kernel: Kernel = Kernel()

    @classmethod
    def for_this_machine(cls) -> Settings:
        """The choice for the default device's platform, measured on CPUs only.

        On two cores, forward and backward of 10,000 splats at 135x240, the `cpu` backend takes
        15 ms with tiles of 8 px and 16 ms with 16; of `garden` at 648x420 tiles of 16 are faster.
        Blocks of 65,536 pairs are sorted in 38 ns a pair, and fit the cache.
        """
        if jax.default_backend() == "cpu":
            return cls(loops=min(os.cpu_count() or 1, 8))
        return cls(tile_size=16, batch=256, block=LARGEST)
