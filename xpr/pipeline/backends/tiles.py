"""Walking the tiles' lists: what the ways to composite in XLA share.

Tiles go side by side in batches; the state of a batch is [B tiles, P pixels]. A batch ends when its
lists do, or when all of its pixels are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.backends.lift import Lift
from xpr.pipeline.frame import Pairs
from xpr.pipeline.grid import Grid
from xpr.pipeline.settings import Settings
from xpr.types import Array, Blend, Ray, Vec2, Vec3


class Recipe(NamedTuple):
    """What is static about a composite."""

    grid: Grid
    settings: Settings
    blend: Blend
    lift: Lift


class Chunk(NamedTuple):
    """The next S splats of each of B tiles: indices [S, B], and the least alpha that counts.

    Beyond the end of a list no alpha is enough.
    """

    ids: Array
    least: Array


def walk(
    recipe: Recipe, pairs: Pairs, tiles: Array, visit: Callable[[tuple, Chunk], tuple], start: tuple
) -> tuple:
    """Visit the lists of some tiles chunk by chunk. The state's first entry is the transmittance."""
    size = recipe.settings.chunk
    first, end = pairs.starts[tiles], pairs.starts[jnp.minimum(tiles + 1, recipe.grid.tiles)]
    longest = jnp.max(end - first)

    def goes_on(loop: tuple[Array, tuple]) -> Array:
        done, state = loop
        return (done < longest) & jnp.any(state[0] > 0)

    def advance(loop: tuple[Array, tuple]) -> tuple[Array, tuple]:
        done, state = loop
        place = first + done + jnp.arange(size, dtype=first.dtype)[:, None]
        listed = place < end
        ids = pairs.ids[jnp.where(listed, place, 0)]
        least = jnp.where(listed, recipe.blend.alpha_min, 2).astype(state[0].dtype)
        return done + size, visit(state, Chunk(ids, least))

    return jax.lax.while_loop(goes_on, advance, (jnp.zeros_like(longest), start))[1]


def along(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, entries: Any) -> tuple[Any, Any]:
    """`jax.lax.scan` along the second axis: no product of matrices then waits for a transposition.

    Args:
      step: takes the state and the entries of one splat a tile, [B, ...]; returns state and outputs.
      state: before the first step.
      entries: [B, S, ...] each.

    Returns:
      The last state and the outputs, [B, S, ...] each.
    """
    splats = jax.tree.leaves(entries)[0].shape[1]

    def entry(i: Array | int) -> Any:
        return jax.tree.map(
            lambda x: jax.lax.dynamic_index_in_dim(x, i, axis=1, keepdims=False), entries
        )

    def advance(i: Array, loop: tuple[Any, Any]) -> tuple[Any, Any]:
        state, outputs = loop
        state, found = step(state, entry(i))
        return state, jax.tree.map(
            lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, i, axis=1), outputs, found
        )

    shapes = jax.eval_shape(lambda: step(state, entry(0))[1])
    outputs = jax.tree.map(lambda x: jnp.zeros((x.shape[0], splats, *x.shape[1:]), x.dtype), shapes)
    return jax.lax.fori_loop(0, splats, advance, (state, outputs))


def over_batches(
    recipe: Recipe, pairs: Pairs, batch: Callable[[Any, Array], tuple[Any, Any]], carry: Any
) -> tuple[Any, Any]:
    """Scan `batch` over all tiles, in independent loops that run side by side.

    Tiles are sorted by the length of their lists, so that a batch ends together, and batches are
    dealt out in turn, so that the loops do. Each loop has its own copy of `carry` (they are added
    up); what a batch returns is put back in the order of the tiles.
    """
    settings, tiles = recipe.settings, recipe.grid.tiles
    loops = min(settings.loops, tiles)
    size = min(settings.batch, -(-tiles // loops))
    batches = -(-tiles // (size * loops))
    order = jnp.argsort(-jnp.diff(pairs.starts)).astype(jnp.int32)
    # A tile number beyond the last one is an empty tile.
    padded = jnp.full(batches * loops * size, tiles, jnp.int32).at[:tiles].set(order)
    dealt = padded.reshape(batches, loops, size)
    runs = [jax.lax.scan(batch, carry, dealt[:, i]) for i in range(loops)]
    carries, outputs = zip(*runs, strict=True)
    back = jnp.argsort(order)

    def restore(*parts: Array) -> Array:
        stacked = jnp.stack(parts, axis=1)
        return stacked.reshape(padded.size, *stacked.shape[3:])[back]

    return jax.tree.map(lambda *c: sum(c[1:], c[0]), *carries), jax.tree.map(restore, *outputs)


def tile_rays(
    recipe: Recipe, rays: tuple[Vec3, Vec3] | None, tiles: Array, dtype: Any
) -> tuple[Vec2, Ray]:
    """The middles [B, 1] of some tiles, and their rays [B, P] (zero where none are read)."""
    x, y = (origin.astype(dtype)[:, None] for origin in recipe.grid.origins(tiles))
    local = jnp.asarray(recipe.grid.local_pixels(), dtype)
    pixel = Vec2(x + local[:, 0], y + local[:, 1])
    zero = jnp.zeros_like(pixel.x)
    world = (Vec3(zero, zero, zero),) * 2
    if rays is not None:
        world = jax.tree.map(lambda leaf: rows_of(leaf, tiles), rays)
    half = recipe.grid.tile_size / 2
    return Vec2(x + half, y + half), Ray(pixel, *world)


def rows_of(tiled: Array, tiles: Array) -> Array:
    """[T, ...] -> [B, ...]; the empty tile borrows the last one's."""
    return tiled[jnp.minimum(tiles, len(tiled) - 1)]
