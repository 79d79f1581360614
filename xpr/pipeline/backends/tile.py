"""One tile: the loop over its splats, as it runs inside a kernel, forwards and replayed.

Written once for every dialect of Pallas. A splat's numbers are scalars here, a pixel's state is one
element of a [P] array, and the arrays in memory are references that are read element by element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.blend import opaque, over, replay
from xpr.types import Array, Blend, Ray, Vec3

World = tuple[Vec3, Vec3]  # origin and direction of a tile's rays
# Told of each splat that is replayed: the place of the pair, the rank of the splat, which pixels it
# is blended into, and the gradients there, one [P] array a parameter.
Emit = Callable[[Array, Array, Array, list[Array]], None]


class Lists(NamedTuple):
    """References to what the loop reads of the splats.

    Attributes:
      ids: [M] ranks, tile after tile, front to back.
      starts: [T + 1] where each tile's ranks begin.
      rows: [V, D] leaves that alpha depends on.
      values: [V, n] channels that are constant over a splat; None if there are none.
    """

    ids: Any
    starts: Any
    rows: Any
    values: Any

    def leaves(self, rank: Array) -> list[Array]:
        """Of one splat, [] each."""
        return [self.rows[rank, i] for i in range(self.rows.shape[1])]

    def channels(self, rank: Array) -> list[Array]:
        """Of one splat, [] each."""
        return [self.values[rank, i] for i in range(self.width)]

    @property
    def width(self) -> int:
        """The number n of constant channels."""
        return 0 if self.values is None else self.values.shape[1]


class Pixels(NamedTuple):
    """One tile's pixels, and in a replay their cotangents. [P] each.

    Attributes:
      ray: theirs.
      zero: laid out as the dialect wants the state of the loop.
      g: of the constant channels.
      g_moving: of the varying channels.
      behind: all layers and the background, times their cotangents.
    """

    ray: Ray
    zero: Array
    g: list[Array]
    g_moving: list[Array]
    behind: Array


@dataclasses.dataclass(frozen=True)
class TileLoop:
    """The loop and its static choices.

    Attributes:
      anatomy: of the record.
      blend: the method's rule.
      chunk: splats between two looks at whether every pixel is done.
      vjp: `jax.vjp`, or what the dialect has in its place.
    """

    anatomy: Anatomy
    blend: Blend
    chunk: int
    vjp: Callable[..., tuple[Any, Callable[[Any], Any]]]

    def forward(
        self, tile: Array, lists: Lists, ray: Ray, zero: Array
    ) -> tuple[list[Array], list[Array], Array]:
        """Blend the list of one tile.

        Args:
          tile: [] its number.
          lists: of all tiles.
          ray: of its pixels.
          zero: as in `Pixels`.

        Returns:
          The constant channels, the varying channels, and the transmittance. [P] each.
        """

        def step(place: Array, state: tuple) -> tuple:
            transmittance, moving, blended = state
            rank = lists.ids[place]
            splat = self.anatomy.unpack(lists.leaves(rank))
            alpha, channels = self.anatomy.respond(splat, ray)
            alpha = opaque(self.blend, alpha, self.blend.alpha_min)
            weight, transmittance = over(self.blend, transmittance, alpha)
            moving = [m + weight * c for m, c in zip(moving, channels, strict=True)]
            values = lists.channels(rank)
            blended = [b + weight * v for b, v in zip(blended, values, strict=True)]
            return transmittance, moving, blended

        start = (zero + 1, [zero] * len(self.anatomy.varying), [zero] * lists.width)
        transmittance, moving, blended = self._walk(tile, lists, step, start)
        return blended, moving, jnp.abs(transmittance)

    def replay(
        self, tile: Array, lists: Lists, pixels: Pixels, emit: Emit, world: World | None
    ) -> World | None:
        """Step through the list of one tile again and emit the gradients of every splat.

        Args:
          tile: [] its number.
          lists: of all tiles; of the channels only those that the loss looks at.
          pixels: of the tile.
          emit: takes the gradients of the leaves, then those of the values.
          world: the rays' origins and directions, if their gradients are asked for.

        Returns:
          The gradients of `world`.
        """
        least: Any = self.blend.alpha_min
        start = (pixels.zero + 1, pixels.behind, jax.tree.map(lambda _: pixels.zero, world))

        def step(place: Array, state: tuple) -> tuple:
            transmittance, behind, g_world = state
            rank = lists.ids[place]

            def respond(leaves: list[Array], world: World | None) -> tuple[Array, tuple]:
                ray = pixels.ray if world is None else Ray(pixels.ray.pixel, *world)
                return self.anatomy.respond(self.anatomy.unpack(leaves), ray)

            leaves = [jnp.broadcast_to(x, pixels.zero.shape) for x in lists.leaves(rank)]
            (raw, moving), pull = self.vjp(respond, leaves, world)
            seen = pixels.zero
            for g, channel in zip(pixels.g, lists.channels(rank), strict=True):
                seen = seen + channel * g
            for g, channel in zip(pixels.g_moving, moving, strict=True):
                seen = seen + channel * g
            layer = replay(self.blend, transmittance, raw, least, seen, behind)
            g_leaves, more = pull((layer.g_alpha, tuple(layer.weight * g for g in pixels.g_moving)))
            g_values = [layer.weight * g for g in pixels.g]
            emit(place, rank, layer.weight > 0, [*g_leaves, *g_values])
            return layer.transmittance, layer.behind, jax.tree.map(jnp.add, g_world, more)

        return self._walk(tile, lists, step, start)[-1]

    def _walk(
        self, tile: Array, lists: Lists, step: Callable[[Array, tuple], tuple], start: tuple
    ) -> tuple:
        """Step through a tile's list until every pixel is done. The transmittance comes first."""
        first, end = lists.starts[tile], lists.starts[tile + 1]

        def goes_on(loop: tuple[Array, tuple]) -> Array:
            place, state = loop
            return (place < end) & (jnp.max(state[0]) > 0)

        def advance(loop: tuple[Array, tuple]) -> tuple[Array, tuple]:
            place, state = loop
            stop = jnp.minimum(place + self.chunk, end)
            return stop, jax.lax.fori_loop(place, stop, step, state)

        return jax.lax.while_loop(goes_on, advance, (first, start))[1]
