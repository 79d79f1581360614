"""The portable backend: batches of tiles step through their splats, front to back.

One loop body for the forward pass and its replay in the backward pass. The state of a batch is
[B tiles, P pixels]; a chunk of S splats a tile is gathered, stepped through by a scan, and its
weights then meet the channels in one matrix product. A batch ends when its lists do, or when all
of its pixels are done.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.backends.lift import HIGHEST, lift
from xpr.pipeline.backends.reorder import blend_by_distance
from xpr.pipeline.backends.tiles import (
    Chunk,
    Inputs,
    Recipe,
    image_rays,
    over_batches,
    rows_of,
    tile_rays,
    walk,
)
from xpr.pipeline.bin import Pairs, pair as pair
from xpr.pipeline.blend import opaque, over, replay
from xpr.pipeline.frame import Frame, Layers, Request, assemble
from xpr.pipeline.order import each as each, front_to_back as front_to_back
from xpr.types import Array, Ray, Vec3


def why_not(request: Request) -> str | None:
    """It takes anything."""
    del request
    return None


def composite(frame: Frame) -> Layers:
    """Blend the tiles' lists."""
    anatomy, grid = frame.anatomy, frame.grid
    how = lift(frame.splats, anatomy, grid.tile_size)
    recipe = Recipe(grid, frame.settings, frame.splats.blend, how)
    inputs = Inputs(anatomy.pack(frame.splats), frame.constants(), image_rays(frame))
    blend = blend_by_distance if recipe.blend.reorder else _composite
    blended: Any = blend(recipe, inputs, frame.pairs)
    *constants, varying, transmittance = blended
    color, depth, features = (grid.to_image(tiles) for tiles in constants)
    transmittance = grid.to_image(transmittance[:, None])[..., 0]
    return assemble(frame, (color, depth, features), grid.to_image(varying), transmittance)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _composite(recipe: Recipe, inputs: Inputs, pairs: Pairs) -> Any:
    """Blended constants [T, n, P] each, varying channels [T, v, P], transmittance [T, P]."""
    return _forward(recipe, inputs, pairs)


def _forward(recipe: Recipe, inputs: Inputs, pairs: Pairs) -> tuple[Array, ...]:
    values = jnp.concatenate(inputs.constants, axis=1)
    dtype, pixels = values.dtype, recipe.grid.tile_size**2
    varying = len(recipe.lift.anatomy.varying)

    def batch(carry: None, tiles: Array) -> tuple[None, tuple[Array, ...]]:
        corner, ray = tile_rays(recipe, inputs.rays, tiles, dtype)
        del corner

        def visit(state: tuple, chunk: Chunk) -> tuple:
            def step(state: tuple, entry: tuple) -> tuple[tuple, Array]:
                transmittance, moving = state
                row, least = entry
                alpha, channels = recipe.lift.respond(recipe.lift.inputs(row, ray), ray)
                alpha = opaque(recipe.blend, alpha, least[:, None])
                weight, transmittance = over(recipe.blend, transmittance, alpha)
                moving = tuple(m + weight * c for m, c in zip(moving, channels, strict=True))
                return (transmittance, moving), weight

            transmittance, moving, blended = state
            entries = (inputs.rows[chunk.ids], chunk.least)
            (transmittance, moving), weights = jax.lax.scan(step, (transmittance, moving), entries)
            return transmittance, moving, blended + _dot("sbp,sbc->bcp", weights, values[chunk.ids])

        shape = (len(tiles), pixels)
        start = (
            jnp.ones(shape, dtype),
            tuple(jnp.zeros(shape, dtype) for _ in range(varying)),
            jnp.zeros((len(tiles), values.shape[1], pixels), dtype),
        )
        transmittance, moving, blended = walk(recipe, pairs, tiles, visit, start)
        moving = jnp.stack(moving, axis=1) if moving else jnp.zeros((len(tiles), 0, pixels), dtype)
        return carry, (blended, moving, jnp.abs(transmittance))

    _, outputs = over_batches(recipe, pairs, batch, None)
    blended, moving, transmittance = outputs
    edges = _edges(inputs.constants)
    return *jnp.split(blended, edges, axis=1), moving, transmittance


def _remember(recipe: Recipe, inputs: Any, pairs: Any) -> tuple[tuple[Array, ...], tuple]:
    perturbed = jax.tree.leaves(inputs.rays, is_leaf=_is_primal)
    # Where the camera is not differentiated, the rays' cotangents would be thrown away.
    moving = () if any(ray.perturbed for ray in perturbed) else None
    inputs, pairs = jax.tree.map(lambda primal: primal.value, (inputs, pairs), is_leaf=_is_primal)
    outputs = _forward(recipe, inputs, pairs)
    return outputs, (inputs, pairs, outputs, moving)


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _backward(recipe: Recipe, saved: tuple, cotangents: tuple) -> tuple[Inputs, None]:
    """Replay front to back; what lies behind a layer is the total less what came before it.

    See `replay`; the gradient of a channel is the layer's weight times its cotangent.
    """
    inputs, pairs, outputs, moving = saved
    # Channels that the loss does not look at cost nothing.
    watched = [i for i in range(3) if not _is_zero(cotangents[i])]
    values = jnp.concatenate(
        [inputs.constants[i] for i in watched] or [_no_channel(inputs)], axis=1
    )
    g = jnp.concatenate([cotangents[i] for i in watched] or [_no_channel_image(outputs)], axis=1)
    g_moving, g_transmittance = (_instantiate(c) for c in cotangents[3:])
    totals = [jnp.sum(outputs[i] * cotangents[i], axis=1) for i in watched]
    behind = sum(totals) + jnp.sum(outputs[3] * g_moving, axis=1) + outputs[4] * g_transmittance
    context = _Replay(recipe, inputs, values, g, g_moving, behind, moving is not None)
    grads = jnp.zeros((len(values), inputs.rows.shape[1] + values.shape[1]), values.dtype)
    grads, g_rays = over_batches(recipe, pairs, partial(context.batch, pairs), grads)
    width = inputs.rows.shape[1]
    groups = iter(jnp.split(grads[:, width:], _edges([inputs.constants[i] for i in watched]), 1))
    constants = tuple(
        next(groups) if i in watched else jnp.zeros_like(c) for i, c in enumerate(inputs.constants)
    )
    return Inputs(grads[:, :width], constants, g_rays), None


class _Replay(NamedTuple):
    """The backward pass over batches of tiles.

    Attributes:
      recipe: static choices.
      inputs: of the forward pass.
      values: [V, n] constant channels that the loss looks at.
      g: [T, n, P] their cotangents.
      g_moving: [T, v, P] cotangents of the varying channels.
      behind: [T, P] all layers and the background, times their cotangents.
      follows_rays: whether the rays are differentiated.
    """

    recipe: Recipe
    inputs: Inputs
    values: Array
    g: Array
    g_moving: Array
    behind: Array
    follows_rays: bool

    def batch(self, pairs: Pairs, grads: Array, tiles: Array) -> tuple[Array, Any]:
        """Add the gradients of some tiles to `grads` [V, D + n]; return those of their rays."""
        lift, rows = self.recipe.lift, self.inputs.rows
        corner, ray = tile_rays(self.recipe, self.inputs.rays, tiles, rows.dtype)
        g, behind = rows_of(self.g, tiles), rows_of(self.behind, tiles)
        g_moving = jnp.moveaxis(rows_of(self.g_moving, tiles), 1, 0)

        def visit(state: tuple, chunk: Chunk) -> tuple:
            transmittance, behind, g_ray, grads = state
            mine, values = rows[chunk.ids], self.values[chunk.ids]
            seen = _dot("sbc,bcp->sbp", values, g)
            step = partial(self.step, ray, g_moving)
            (transmittance, behind, g_ray), (weights, g_inputs) = jax.lax.scan(
                step, (transmittance, behind, g_ray), (mine, chunk.least, seen)
            )
            g_rows = lift.pull(g_inputs, mine, corner)
            g_values = _dot("sbp,bcp->sbc", weights, g)
            both = jnp.concatenate([g_rows, g_values], axis=-1)
            return transmittance, behind, g_ray, grads.at[chunk.ids].add(both)

        g_ray = jax.tree.map(jnp.zeros_like, self._world(ray))
        state = (jnp.ones_like(behind), behind, g_ray, grads)
        _, _, g_ray, grads = walk(self.recipe, pairs, tiles, visit, state)
        return grads, g_ray

    def step(self, ray: Ray, g_moving: Array, state: tuple, entry: tuple) -> tuple[tuple, tuple]:
        """Replay one splat a tile: new state, its weights and its inputs' gradients [B, P]."""
        blend, lift = self.recipe.blend, self.recipe.lift
        transmittance, behind, g_ray = state
        row, least, seen = entry
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
        return (ray.origin, ray.direction) if self.follows_rays else None


def _dot(spec: str, a: Array, b: Array) -> Array:
    return jnp.einsum(spec, a, b, precision=HIGHEST)


def _edges(groups: Any) -> list[int]:
    widths = [group.shape[1] for group in groups]
    return [sum(widths[: i + 1]) for i in range(len(widths) - 1)]


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, jax.custom_derivatives.SymbolicZero) or 0 in cotangent.shape


def _instantiate(cotangent: Any) -> Array:
    return jnp.zeros(cotangent.shape, cotangent.dtype) if _is_zero(cotangent) else cotangent


def _no_channel(inputs: Inputs) -> Array:
    return jnp.zeros((len(inputs.rows), 0), inputs.rows.dtype)


def _no_channel_image(outputs: tuple[Array, ...]) -> Array:
    transmittance = outputs[-1]
    return jnp.zeros((len(transmittance), 0, transmittance.shape[1]), transmittance.dtype)


_composite.defvjp(_remember, _backward, symbolic_zeros=True)
