"""Every splat at every pixel, with plain autodiff: the oracle of every other backend."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from xpr.pipeline.anatomy import DEPTH
from xpr.pipeline.bin import pair as pair
from xpr.pipeline.blend import opaque, over
from xpr.pipeline.frame import Frame, Layers, Request, assemble
from xpr.pipeline.order import each as each, front_to_back as front_to_back
from xpr.types import Array, Ray, Splat


def why_not(request: Request) -> str | None:
    """It takes anything, at a cost of splats times pixels."""
    del request
    return None


def composite(frame: Frame) -> Layers:
    """Blend all splats, nearest first, at all pixels."""
    blend, anatomy = frame.splats.blend, frame.anatomy
    pixels = jnp.asarray(frame.grid.pixels(), frame.depth.dtype)
    rays = frame.camera.rays(pixels)
    empty = jnp.zeros(pixels.shape[:2], frame.depth.dtype)
    constants = frame.constants()
    widths = [c.shape[1] for c in constants]

    def layer(state: tuple[Array, Array], entry: tuple) -> tuple[tuple[Array, Array], None]:
        channels, transmittance = state
        splat, valid, values = entry
        alpha, varying = anatomy.respond(splat, rays)
        alpha = jnp.where(valid, opaque(blend, alpha, blend.alpha_min), 0)
        weight, transmittance = over(blend, transmittance, alpha)
        values = [jnp.where(valid, v, empty) for v in (*jnp.moveaxis(values, -1, 0), *varying)]
        if values:
            channels = channels + weight[..., None] * jnp.stack(values, axis=-1)
        return (channels, transmittance), None

    width = sum(widths) + len(anatomy.varying)
    start = (jnp.zeros((*empty.shape, width), empty.dtype), empty + 1)
    entries = (frame.splats, frame.valid, jnp.concatenate(constants, axis=1))
    if blend.reorder:
        order = _by_distance(frame, rays)
        entries = jax.tree.map(lambda x: x[order], entries)
    (channels, transmittance), _ = jax.lax.scan(layer, start, entries)
    edges = [sum(widths[: i + 1]) for i in range(3)]
    *blended, varying = jnp.split(channels, edges, axis=-1)
    return assemble(frame, (blended[0], blended[1], blended[2]), varying, jnp.abs(transmittance))


def _by_distance(frame: Frame, rays: Ray) -> Array:
    """The order of the hits of each pixel's ray, nearest first. [V, H, W]."""
    anatomy, blend = frame.anatomy, frame.splats.blend

    def distance(splat: Splat) -> Array:
        alpha, varying = anatomy.respond(splat, rays)
        hit = opaque(blend, alpha, blend.alpha_min) > 0
        return jnp.where(hit, varying[anatomy.varying.index(DEPTH)], jnp.inf)

    return jnp.argsort(jax.lax.map(distance, jax.lax.stop_gradient(frame.splats)), axis=0)
