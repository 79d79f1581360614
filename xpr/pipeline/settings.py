"""The numbers that depend on the machine, in one place."""

from __future__ import annotations

import dataclasses
import os

import jax


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the tiled backends cut up their work. Static; the image does not depend on it.

    Attributes:
      tile_size: px, the side of a square tile.
      batch: tiles that are composited side by side.
      chunk: splats between two looks at whether every pixel is done.
      loops: independent loops over batches; XLA runs them on as many cores.
    """

    tile_size: int = 16
    batch: int = 16
    chunk: int = 32
    loops: int = 1

    @classmethod
    def for_this_machine(cls) -> Settings:
        """The choice for the default device's platform, measured on CPUs only.

        On two cores, forward and backward: the fox at 135x240 with 10,000 splats takes 32 ms with
        tiles of 8 px and 58 ms with 16 (batches of 16 and 8), `garden` at 648x420 638 and 594 ms.
        """
        if jax.default_backend() == "cpu":
            return cls(loops=min(os.cpu_count() or 1, 8))
        return cls(tile_size=16, batch=256)
