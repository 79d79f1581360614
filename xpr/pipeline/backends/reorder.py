"""Hits put in the order of their distance along the ray: 3DGUT's sorted variant, for any method.

A pixel holds back its `Blend.reorder` farthest hits so far (k). Its next k splats are met, all 2k
are put in order, the nearest k are blended and the others held back. So a hit comes out in its exact
place if fewer than k hits that lie behind it stand before it in the tile's list.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xpr.pipeline.anatomy import DEPTH
from xpr.pipeline.backends.replay import Asked, Inputs, Outputs, Tiled
from xpr.pipeline.backends.tiles import Chunk, Recipe, over_batches, rows_of, tile_rays, walk
from xpr.pipeline.blend import opaque, over, replay
from xpr.pipeline.frame import Pairs
from xpr.types import Array, Ray, Vec3


class Hits(NamedTuple):
    """Hits of some pixels, [n, B, P] each; a place without one lies at minus infinity.

    Attributes:
      distance: along the ray, world units.
      ids: of the splats; equal distances are in their order.
    """

    distance: Array
    ids: Array


def by_distance(recipe: Recipe) -> ByDistance:
    """The tiled passes whose chunks are as long as the pixels' buffers."""
    settings = dataclasses.replace(recipe.settings, chunk=recipe.blend.reorder)
    return ByDistance(recipe._replace(settings=settings))


@dataclasses.dataclass(frozen=True)
class ByDistance(Tiled):
    """Batches of tiles, each pixel's hits in the order of their distance."""

    recipe: Recipe

    def forward(self, inputs: Inputs, lists: Pairs) -> Outputs:
        """Blend the hits."""
        recipe = self.recipe
        flat = _Flat(inputs.rows, jnp.concatenate(inputs.constants, axis=1), inputs.rays)

        def batch(carry: None, tiles: Array) -> tuple[None, tuple[Array, Array]]:
            _, ray = tile_rays(recipe, flat.rays, tiles, flat.rows.dtype)

            def step(state: tuple[Array, Array], hit: Hits) -> tuple[tuple[Array, Array], None]:
                transmittance, blended = state
                alpha, moving = recipe.lift.respond(_leaves(flat, hit), ray)
                alpha = opaque(recipe.blend, alpha, _least(recipe, hit))
                weight, transmittance = over(recipe.blend, transmittance, alpha)
                channels = jnp.stack([*_values(flat, hit), *moving], axis=1)
                return (transmittance, blended + weight[:, None] * channels), None

            (b, p), dtype = ray.pixel.x.shape, flat.rows.dtype
            channels = flat.values.shape[1] + len(recipe.lift.anatomy.varying)
            start = jnp.ones((b, p), dtype), jnp.zeros((b, channels, p), dtype)
            transmittance, blended = _visit(recipe, flat, lists, tiles, step, start)
            return carry, (blended, jnp.abs(transmittance))

        blended, transmittance = over_batches(recipe, lists, batch, None)[1]
        n = flat.values.shape[1]
        return Outputs(blended[:, :n], blended[:, n:], transmittance)

    def replay(self, inputs: Inputs, lists: Pairs, asked: Asked) -> tuple[Array, Any]:
        """Replay in the same order; a pixel's gradients go to its hits' splats one by one."""
        recipe = self.recipe
        flat = _Flat(inputs.rows, asked.values, inputs.rays)

        def batch(grads: Array, tiles: Array) -> tuple[Array, Any]:
            _, ray = tile_rays(recipe, flat.rays, tiles, flat.rows.dtype)
            cotangents = jnp.concatenate([asked.g, asked.g_moving], axis=1)
            step = partial(
                _unstep, recipe, flat, ray, jnp.moveaxis(rows_of(cotangents, tiles), 1, 0)
            )
            behind = rows_of(asked.behind, tiles)
            g_rays = jax.tree.map(jnp.zeros_like, (ray.origin, ray.direction))
            state = (jnp.ones_like(behind), behind, g_rays, grads)
            _, _, g_rays, grads = _visit(recipe, flat, lists, tiles, step, state)
            return grads, g_rays if asked.rays else None

        width = flat.rows.shape[1] + flat.values.shape[1]
        grads = jnp.zeros((len(flat.rows), width), flat.rows.dtype)
        return over_batches(recipe, lists, batch, grads)


class _Flat(NamedTuple):
    """`Inputs` with one group of constant channels, [V, n]."""

    rows: Array
    values: Array
    rays: tuple[Vec3, Vec3] | None


def _unstep(
    recipe: Recipe, flat: _Flat, ray: Ray, g: Array, state: tuple, hit: Hits
) -> tuple[tuple, None]:
    """Replay one hit a pixel; g [n + v, B, P] are the channels' cotangents."""
    passed, behind, g_rays, grads = state

    def respond(leaves: list[Array], world: Any) -> tuple[Array, tuple[Array, ...]]:
        return recipe.lift.respond(leaves, Ray(ray.pixel, *world))

    (raw, moving), pull = jax.vjp(respond, _leaves(flat, hit), (ray.origin, ray.direction))
    seen = jnp.sum(jnp.stack([*_values(flat, hit), *moving]) * g, axis=0)
    layer = replay(recipe.blend, passed, raw, _least(recipe, hit), seen, behind)
    weighted, split = layer.weight * g, flat.values.shape[1]
    g_leaves, g_world = pull((layer.g_alpha, tuple(weighted[split:])))
    g_hit = jnp.stack([*g_leaves, *weighted[:split]], axis=-1)
    g_rays = jax.tree.map(jnp.add, g_rays, g_world)
    return (layer.transmittance, layer.behind, g_rays, grads.at[hit.ids].add(g_hit)), None


def _visit(
    recipe: Recipe, inputs: _Flat, pairs: Pairs, tiles: Array, step: Any, start: tuple
) -> tuple:
    """Scan `step` over the hits of some tiles' pixels, in order of distance as far as k goes."""
    _, ray = tile_rays(recipe, inputs.rays, tiles, inputs.rows.dtype)
    k = recipe.blend.reorder

    def visit(state: tuple, chunk: Chunk) -> tuple:
        *before, held = state
        met = in_order(_meet(recipe, inputs, chunk, ray))
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b[::-1]]), held, met)
        both = _bitonic(both, 2 * k)
        nearest, others = (jax.tree.map(lambda x, i=i: x[i * k :][:k], both) for i in range(2))
        after, _ = jax.lax.scan(step, tuple(before), nearest)
        return *after, others

    shape = (k, *ray.pixel.x.shape)
    held = Hits(jnp.full(shape, -jnp.inf, inputs.rows.dtype), jnp.zeros(shape, pairs.ids.dtype))
    *state, held = walk(recipe, pairs, tiles, visit, (*start, held))
    return jax.lax.scan(step, tuple(state), held)[0]


def _meet(recipe: Recipe, inputs: _Flat, chunk: Chunk, ray: Ray) -> Hits:
    """Where each pixel's ray hits the k splats of its tile's chunk."""
    place = recipe.lift.anatomy.varying.index(DEPTH)

    def meet(_: None, entry: Chunk) -> tuple[None, Hits]:
        ids, least = entry
        alpha, moving = recipe.lift.respond(recipe.lift.inputs(inputs.rows[ids], ray), ray)
        hit = alpha >= least[:, None]
        ids = jnp.broadcast_to(ids[:, None], alpha.shape)
        return None, Hits(jnp.where(hit, moving[place], -jnp.inf), ids)

    return jax.lax.scan(meet, None, chunk)[1]


def in_order(hits: Hits) -> Hits:
    """Nearest first, along the leading axis, whose length is a power of two: a bitonic sort.

    Its comparisons do not depend on the data, so that all pixels go through them side by side.
    """
    size = 2
    while size <= len(hits.ids):
        hits = _bitonic(hits, size)
        size *= 2
    return hits


def _bitonic(hits: Hits, size: int) -> Hits:
    """Runs of `size` that rise and then fall, put in order: every other one descending."""
    n = len(hits.ids)
    stride = size // 2
    while stride:
        blocks = jax.tree.map(lambda x, s=stride: x.reshape(n // (2 * s), 2, s, *x.shape[1:]), hits)
        a, b = (jax.tree.map(lambda x, i=i: x[:, i], blocks) for i in range(2))
        descends = np.arange(n // (2 * stride)) * (2 * stride) // size % 2 == 1
        later = (a.distance > b.distance) | ((a.distance == b.distance) & (a.ids > b.ids))
        swap = later ^ jnp.asarray(descends).reshape(-1, *[1] * (later.ndim - 1))

        def exchanged(a: Array, b: Array, swap: Array = swap) -> Array:
            pair = jnp.stack([jnp.where(swap, b, a), jnp.where(swap, a, b)], axis=1)
            return pair.reshape(n, *pair.shape[3:])

        hits = jax.tree.map(exchanged, a, b)
        stride //= 2
    return hits


def _leaves(inputs: _Flat, hit: Hits) -> list[Array]:
    """The leaves of each pixel's splat, [B, P] each."""
    return list(jnp.moveaxis(inputs.rows[hit.ids], -1, 0))


def _values(inputs: _Flat, hit: Hits) -> list[Array]:
    """The constant channels of each pixel's splat, [B, P] each."""
    return list(jnp.moveaxis(inputs.values[hit.ids], -1, 0))


def _least(recipe: Recipe, hit: Hits) -> Array:
    """The least alpha that counts; where there is no hit, none is enough."""
    there = hit.distance > -jnp.inf
    return jnp.where(there, recipe.blend.alpha_min, 2).astype(hit.distance.dtype)
