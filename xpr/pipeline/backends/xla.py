"""The portable backend: batches of tiles step through their splats, front to back.

One loop body for the forward pass and its replay in the backward pass. The state of a batch is
[B tiles, P pixels]; a chunk of S splats a tile is gathered, stepped through by a scan, and its
weights then meet the channels in one matrix product. A batch ends when its lists do, or when all
of its pixels are done.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.backends.lift import HIGHEST, Place, lift
from xpr.pipeline.backends.reorder import by_distance
from xpr.pipeline.backends.replay import Asked, Inputs, Outputs, Tiled, composite as blend_lists
from xpr.pipeline.backends.tiles import Chunk, Recipe, along, over_batches, rows_of, tile_rays, walk
from xpr.pipeline.bin import pair as pair
from xpr.pipeline.blend import opaque, over, replay
from xpr.pipeline.frame import Frame, Layers, Pairs, Request
from xpr.pipeline.order import each as each, front_to_back as front_to_back
from xpr.types import Array, Ray, Vec3


def why_not(request: Request) -> str | None:
    """It takes anything."""
    del request
    return None


def composite(frame: Frame) -> Layers:
    """Blend the tiles' lists."""
    blend = frame.splats.blend
    how = lift(frame.splats, frame.anatomy, frame.grid.tile_size)
    recipe = Recipe(frame.grid, frame.settings, blend, how)
    return blend_lists(frame, by_distance(recipe) if blend.reorder else Batches(recipe))


@dataclasses.dataclass(frozen=True)
class Batches(Tiled):
    """Batches of tiles, in the order of their lists."""

    recipe: Recipe

    def lists(self, frame: Frame) -> tuple[Pairs, Array]:
        """The tiles' lists, and the boxes."""
        return frame.pairs, frame.boxes

    def forward(self, inputs: Inputs, lists: tuple[Pairs, Array]) -> Outputs:
        """Blend the tiles' lists."""
        pairs, _ = lists
        recipe, values = self.recipe, jnp.concatenate(inputs.constants, axis=1)
        both = jnp.concatenate([inputs.rows, values], axis=1)
        dtype, pixels = values.dtype, recipe.grid.tile_size**2
        varying = len(recipe.lift.anatomy.varying)

        def batch(carry: None, tiles: Array) -> tuple[None, tuple[Array, ...]]:
            _, ray = tile_rays(recipe, inputs.rays, tiles, dtype)

            def visit(state: tuple, chunk: Chunk) -> tuple:
                ids = chunk.ids.T
                rows, values = jnp.split(both[ids], [inputs.rows.shape[1]], axis=-1)
                return along(partial(self._step, ray), state, (rows, values, chunk.least.T))[0]

            shape = (len(tiles), pixels)
            start = (
                jnp.ones(shape, dtype),
                tuple(jnp.zeros(shape, dtype) for _ in range(varying)),
                jnp.zeros((len(tiles), values.shape[1], pixels), dtype),
            )
            transmittance, moving, blended = walk(recipe, pairs, tiles, visit, start)
            none = jnp.zeros((len(tiles), 0, pixels), dtype)
            moving = jnp.stack(moving, axis=1) if moving else none
            return carry, (blended, moving, jnp.abs(transmittance))

        return Outputs(*over_batches(recipe, pairs, batch, None)[1])

    def _step(self, ray: Ray, state: tuple, entry: tuple) -> tuple[tuple, None]:
        """Put one more splat a tile behind."""
        recipe = self.recipe
        transmittance, moving, blended = state
        row, values, least = entry
        alpha, channels = recipe.lift.respond(recipe.lift.inputs(row, ray), ray)
        alpha = opaque(recipe.blend, alpha, least[:, None])
        weight, transmittance = over(recipe.blend, transmittance, alpha)
        moving = tuple(m + weight * c for m, c in zip(moving, channels, strict=True))
        blended = blended + values[..., None] * weight[:, None]
        return (transmittance, moving, blended), None

    def replay(self, inputs: Inputs, lists: tuple[Pairs, Array], asked: Asked) -> tuple[Array, Any]:
        """Replay the tiles' lists; each of the loops adds to gradients of its own."""
        (pairs, boxes), lift, rows = lists, self.recipe.lift, inputs.rows
        context = _Replay(self.recipe, inputs, asked, boxes)
        grads = jnp.zeros((len(rows), lift.width + asked.values.shape[1]), rows.dtype)
        grads, g_rays = over_batches(self.recipe, pairs, partial(context.batch, pairs), grads)
        collected, g_values = jnp.split(grads, [lift.width], axis=1)
        g_rows = lift.finish(collected, rows, Place.of(boxes))
        return jnp.concatenate([g_rows, g_values], axis=1), g_rays


class _Replay(NamedTuple):
    """The backward pass over batches of tiles."""

    recipe: Recipe
    inputs: Inputs
    asked: Asked
    boxes: Array

    def batch(self, pairs: Pairs, grads: Array, tiles: Array) -> tuple[Array, Any]:
        """Add the gradients of some tiles to `grads` [V, n]; return those of their rays."""
        asked, rows, lift = self.asked, self.inputs.rows, self.recipe.lift
        middle, ray = tile_rays(self.recipe, self.inputs.rays, tiles, rows.dtype)
        g, behind = rows_of(asked.g, tiles), rows_of(asked.behind, tiles)
        across = jnp.swapaxes(g, 1, 2)
        g, g_moving = (jnp.moveaxis(x, 1, 0) for x in (g, rows_of(asked.g_moving, tiles)))
        records = jnp.concatenate([rows, asked.values, self.boxes], axis=1)
        edges = [rows.shape[1], records.shape[1] - 4]

        def visit(state: tuple, chunk: Chunk) -> tuple:
            *before, grads = state
            ids = chunk.ids.T
            mine, values, boxes = jnp.split(records[ids], edges, axis=-1)
            step = partial(self.step, ray, g, g_moving)
            after, (weights, g_inputs) = along(step, tuple(before), (mine, values, chunk.least.T))
            collected = lift.collect(g_inputs, middle, Place.of(boxes))
            g_values = jnp.moveaxis(_dot("bsp,bpc->bsc", weights, across), -1, 0)
            return *after, grads.at[ids].add(jnp.stack([*collected, *g_values], axis=-1))

        g_ray = jax.tree.map(jnp.zeros_like, self._world(ray))
        state = (jnp.ones_like(behind), behind, g_ray, grads)
        _, _, g_ray, grads = walk(self.recipe, pairs, tiles, visit, state)
        return grads, g_ray

    def step(
        self, ray: Ray, g: Array, g_moving: Array, state: tuple, entry: tuple
    ) -> tuple[tuple, tuple]:
        """Replay one splat a tile: new state, its weights and its inputs' gradients [B, P]."""
        blend, lift = self.recipe.blend, self.recipe.lift
        transmittance, behind, g_ray = state
        row, values, least = entry
        seen = jnp.zeros_like(behind)
        for value, cotangent in zip(values.T, g, strict=True):
            seen = seen + value[:, None] * cotangent
        world = self._world(ray)

        def respond(inputs: list[Array], world: Any) -> tuple[Array, tuple[Array, ...]]:
            there = ray if world is None else Ray(ray.pixel, *world)
            return lift.respond(inputs, there)

        (raw, moving), pull = jax.vjp(respond, lift.inputs(row, ray), world)
        for channel, cotangent in zip(moving, g_moving, strict=True):
            seen = seen + channel * cotangent
        layer = replay(blend, transmittance, raw, least[:, None], seen, behind)
        moved = tuple(layer.weight * cotangent for cotangent in g_moving)
        g_inputs, g_world = pull((layer.g_alpha, moved))
        g_ray = jax.tree.map(jnp.add, g_ray, g_world)
        return (layer.transmittance, layer.behind, g_ray), (layer.weight, g_inputs)

    def _world(self, ray: Ray) -> tuple[Vec3, Vec3] | None:
        return (ray.origin, ray.direction) if self.asked.rays else None


def _dot(spec: str, a: Array, b: Array) -> Array:
    return jnp.einsum(spec, a, b, precision=HIGHEST)
