"""Static buffer sizes, and what did not fit."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from xpr.errors import CapacityError, UserError

Array = jax.Array

LARGEST = 2**31 - 1  # entries of one buffer: its indices are int32


@dataclasses.dataclass(frozen=True)
class Capacity:
    """How many entries the renderer reserves. Hashable, hence static under `jax.jit`.

    Attributes:
      visible: splats kept after culling.
      intersections: (tile, splat) pairs over the whole image.

    Raises:
      UserError: a size that no buffer can have.
    """

    visible: int
    intersections: int

    def __post_init__(self) -> None:
        for name, size in dataclasses.asdict(self).items():
            if not 1 <= size <= LARGEST:
                raise UserError(
                    f"capacity.{name} is {size:,}, expected 1 to {LARGEST:,}. "
                    "Let xpr.plan(scene, cameras) choose."
                )

    @classmethod
    def covering(cls, visible: int, intersections: int, *, headroom: float = 1.25) -> Capacity:
        """Powers of two with headroom, so that a growing scene seldom recompiles.

        Raises:
          CapacityError: more than any buffer holds.
        """
        _refuse_too_many(visible, intersections)
        rounded = (_next_power_of_two(headroom * n) for n in (visible, intersections))
        return cls(*(min(n, LARGEST) for n in rounded))


class Count(NamedTuple):
    """An exact count beyond 2^31, as two uint32 words."""

    high: Array
    low: Array

    @classmethod
    def total(cls, counts: Array) -> Count:
        """The sum of non-negative integers, without overflow."""
        with jax.enable_x64(True):
            total = jnp.sum(counts.astype(jnp.uint64))
            return cls((total >> 32).astype(jnp.uint32), total.astype(jnp.uint32))

    def exceeds(self, limit: int) -> Array:
        """Whether the count is above a limit below 2^32. [] bool."""
        return (self.high > 0) | (self.low > jnp.uint32(limit))

    def __int__(self) -> int:
        return (int(self.high) << 32) + int(self.low)


class Overflow(NamedTuple):
    """What an image needed against what was reserved. Arrays, so it passes through `jax.jit`.

    Attributes:
      visible: splats that were visible.
      intersections: (tile, splat) pairs of their boxes.
      any: [] bool, whether something did not fit; False means that the image is exact.
    """

    visible: Count
    intersections: Count
    any: Array

    def needed(self) -> Capacity:
        """The smallest capacity that would do. Blocks; reads a batch's largest numbers.

        Raises:
          CapacityError: more than any buffer holds.
        """
        sizes = self._largest()
        _refuse_too_many(**sizes)
        return Capacity(**{name: max(size, 1) for name, size in sizes.items()})

    def check(self, capacity: Capacity) -> None:
        """Raise on the host if anything was dropped. Blocks until the image is ready.

        Raises:
          CapacityError: naming each full buffer and the capacity that would do.
        """
        if not bool(jnp.any(self.any)):
            return
        have, need = dataclasses.asdict(capacity), self._largest()
        told = ", ".join(
            f"{k}: {have[k]:,} reserved, {need[k]:,} needed" for k in have if need[k] > have[k]
        )
        enough = Capacity.covering(**{k: max(have[k], need[k]) for k in have})
        raise CapacityError(
            f"the image lacks splats ({told}). Render with {enough}, "
            "or let xpr.plan(scene, cameras) choose."
        )

    def _largest(self) -> dict[str, int]:
        counts = {"visible": self.visible, "intersections": self.intersections}
        return {name: _largest(count) for name, count in counts.items()}


def _largest(count: Count) -> int:
    pairs = zip(count.high.ravel().tolist(), count.low.ravel().tolist(), strict=True)
    return max((high << 32) + low for high, low in pairs)


def _refuse_too_many(visible: int, intersections: int) -> None:
    if max(visible, intersections) > LARGEST:
        raise CapacityError(
            f"the image needs {visible:,} visible splats and {intersections:,} (tile, splat) "
            f"pairs, at most {LARGEST:,} can be indexed. Render it in parts (smaller cameras with "
            "shifted principal points), or with a larger Settings.tile_size."
        )


def _next_power_of_two(n: float) -> int:
    return 1 << max(int(n - 1e-9).bit_length(), 0)
