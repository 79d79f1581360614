"""The portable backend: batches of tiles step through their splats, front to back.

One loop body for the forward pass and its replay in the backward pass. The state of a batch is
[B tiles, P pixels]; a chunk of S splats a tile is gathered, stepped through by a scan, and its
weights then meet the channels in one matrix product. A batch ends when its lists do, or when all
of its pixels are done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.backends.lift import HIGHEST, Lift, lift
from xpr.pipeline.bin import Pairs, pair as pair
from xpr.pipeline.blend import opaque, over
from xpr.pipeline.frame import Frame, Layers, Request, assemble
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import each as each
from xpr.pipeline.settings import Settings
from xpr.types import Array, Blend, Ray, Vec2, Vec3


class Recipe(NamedTuple):
    """What is static about a composite."""

    grid: Grid
    settings: Settings
    blend: Blend
    lift: Lift


class Inputs(NamedTuple):
    """What is differentiable about a composite.

    Attributes:
      rows: [V, D] leaves that alpha depends on.
      constants: channels that are constant over a splat, groups of [V, n].
      rays: origin and direction in tile layout [T, P], or None where no method reads them.
    """

    rows: Array
    constants: tuple[Array, ...]
    rays: tuple[Vec3, Vec3] | None


class Chunk(NamedTuple):
    """The next S splats of each of B tiles: indices [S, B], and the least alpha that counts.

    Beyond the end of a list no alpha is enough.
    """

    ids: Array
    least: Array


def why_not(request: Request) -> str | None:
    """It takes anything."""
    del request
    return None


def composite(frame: Frame) -> Layers:
    """Blend the tiles' lists."""
    anatomy, grid = frame.anatomy, frame.grid
    how = lift(frame.splats, anatomy, grid.tile_size)
    recipe = Recipe(grid, frame.settings, frame.splats.blend, how)
    inputs = Inputs(anatomy.pack(frame.splats), frame.constants(), _rays(frame))
    blended: Any = _composite(recipe, inputs, frame.pairs)
    *constants, varying, transmittance = blended
    color, depth, features = (grid.to_image(tiles) for tiles in constants)
    transmittance = grid.to_image(transmittance[:, None])[..., 0]
    return assemble(frame, (color, depth, features), grid.to_image(varying), transmittance)


def _rays(frame: Frame) -> tuple[Vec3, Vec3] | None:
    if not frame.anatomy.reads_rays:
        return None
    rays = frame.camera.rays(jnp.asarray(frame.grid.pixels(), frame.depth.dtype))
    return jax.tree.map(frame.grid.to_tiles, (rays.origin, rays.direction))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _composite(recipe: Recipe, inputs: Inputs, pairs: Pairs) -> Any:
    """Blended constants [T, n, P] each, varying channels [T, v, P], transmittance [T, P]."""
    return _forward(recipe, inputs, pairs)


def _forward(recipe: Recipe, inputs: Inputs, pairs: Pairs) -> tuple[Array, ...]:
    values = jnp.concatenate(inputs.constants, axis=1)
    dtype, pixels = values.dtype, recipe.grid.tile_size**2
    varying = len(recipe.lift.anatomy.varying)

    def batch(carry: None, tiles: Array) -> tuple[None, tuple[Array, ...]]:
        corner, ray = _tile_rays(recipe, inputs.rays, tiles, dtype)
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
        transmittance, moving, blended = _walk(recipe, pairs, tiles, visit, start)
        moving = jnp.stack(moving, axis=1) if moving else jnp.zeros((len(tiles), 0, pixels), dtype)
        return carry, (blended, moving, jnp.abs(transmittance))

    _, outputs = _over_batches(recipe, pairs, batch, None)
    blended, moving, transmittance = outputs
    edges = _edges(inputs.constants)
    return *jnp.split(blended, edges, axis=1), moving, transmittance


def _remember(recipe: Recipe, inputs: Any, pairs: Any) -> tuple[tuple[Array, ...], tuple]:
    inputs, pairs = jax.tree.map(lambda primal: primal.value, (inputs, pairs), is_leaf=_is_primal)
    outputs = _forward(recipe, inputs, pairs)
    return outputs, (inputs, pairs, outputs)


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _backward(recipe: Recipe, saved: tuple, cotangents: tuple) -> tuple[Inputs, None]:
    """Replay front to back; what lies behind a layer is the total less what came before it.

    With T the transmittance before layer i, g the channels' cotangents and S_i the blend of the
    layers behind i:  dL/dalpha_i = T (c_i . g) - (S_i . g + T_end g_T) / (1 - alpha_i), and
    dL/dc_i = alpha_i T g (Kerbl et al. 2023, appendix; here replayed forwards).
    """
    inputs, pairs, outputs = saved
    # Channels that the loss does not look at cost nothing.
    watched = [i for i in range(3) if not _is_zero(cotangents[i])]
    values = jnp.concatenate(
        [inputs.constants[i] for i in watched] or [_no_channel(inputs)], axis=1
    )
    g = jnp.concatenate([cotangents[i] for i in watched] or [_no_channel_image(outputs)], axis=1)
    g_moving, g_transmittance = (_instantiate(c) for c in cotangents[3:])
    totals = [jnp.sum(outputs[i] * cotangents[i], axis=1) for i in watched]
    behind = sum(totals) + jnp.sum(outputs[3] * g_moving, axis=1) + outputs[4] * g_transmittance
    context = _Replay(recipe, inputs, values, g, g_moving, behind)
    grads = jnp.zeros((len(values), inputs.rows.shape[1] + values.shape[1]), values.dtype)
    grads, g_rays = _over_batches(recipe, pairs, partial(context.batch, pairs), grads)
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
    """

    recipe: Recipe
    inputs: Inputs
    values: Array
    g: Array
    g_moving: Array
    behind: Array

    def batch(self, pairs: Pairs, grads: Array, tiles: Array) -> tuple[Array, Any]:
        """Add the gradients of some tiles to `grads` [V, D + n]; return those of their rays."""
        lift, rows = self.recipe.lift, self.inputs.rows
        corner, ray = _tile_rays(self.recipe, self.inputs.rays, tiles, rows.dtype)
        g, behind = _rows_of(self.g, tiles), _rows_of(self.behind, tiles)
        g_moving = jnp.moveaxis(_rows_of(self.g_moving, tiles), 1, 0)

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
        _, _, g_ray, grads = _walk(self.recipe, pairs, tiles, visit, state)
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
        alpha = opaque(blend, raw, least[:, None])
        weight, after = over(blend, transmittance, alpha)
        for channel, cotangent in zip(moving, g_moving, strict=True):
            seen = seen + channel * cotangent
        behind = behind - weight * seen
        slope = jnp.abs(transmittance) * seen - behind / (1 - alpha)
        counts = (weight > 0) & (raw < blend.alpha_max)
        g_alpha = jnp.where(counts, slope, 0)
        g_inputs, g_world = pull((g_alpha, tuple(weight * cotangent for cotangent in g_moving)))
        g_ray = jax.tree.map(jnp.add, g_ray, g_world)
        return (after, behind, g_ray), (weight, g_inputs)

    def _world(self, ray: Ray) -> tuple[Vec3, Vec3] | None:
        return None if self.inputs.rays is None else (ray.origin, ray.direction)


def _walk(
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


def _over_batches(
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


def _tile_rays(
    recipe: Recipe, rays: tuple[Vec3, Vec3] | None, tiles: Array, dtype: Any
) -> tuple[Vec2, Ray]:
    """The corners [B] of some tiles, and their rays [B, P] (zero where none are read)."""
    x, y = (origin.astype(dtype) for origin in recipe.grid.origins(tiles))
    local = jnp.asarray(recipe.grid.local_pixels(), dtype)
    pixel = Vec2(x[:, None] + local[:, 0], y[:, None] + local[:, 1])
    zero = jnp.zeros_like(pixel.x)
    world = (Vec3(zero, zero, zero),) * 2
    if rays is not None:
        world = jax.tree.map(lambda leaf: _rows_of(leaf, tiles), rays)
    return Vec2(x, y), Ray(pixel, *world)


def _rows_of(tiled: Array, tiles: Array) -> Array:
    """[T, ...] -> [B, ...]; the empty tile borrows the last one's."""
    return tiled[jnp.minimum(tiles, len(tiled) - 1)]


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
