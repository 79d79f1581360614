"""Every splat at every pixel, with plain autodiff: the oracle of every other backend."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from xpr.pipeline.bin import pair as pair
from xpr.pipeline.blend import opaque, over
from xpr.pipeline.frame import Frame, Layers, Request, assemble
from xpr.pipeline.order import each as each
from xpr.types import Array


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
        values = [jnp.where(valid, v, empty) for v in (*values, *varying)]
        if values:
            channels = channels + weight[..., None] * jnp.stack(values, axis=-1)
        return (channels, transmittance), None

    width = sum(widths) + len(anatomy.varying)
    start = (jnp.zeros((*empty.shape, width), empty.dtype), empty + 1)
    entries = (frame.splats, frame.valid, jnp.concatenate(constants, axis=1))
    (channels, transmittance), _ = jax.lax.scan(layer, start, entries)
    edges = [sum(widths[: i + 1]) for i in range(3)]
    *blended, varying = jnp.split(channels, edges, axis=-1)
    return assemble(frame, (blended[0], blended[1], blended[2]), varying, jnp.abs(transmittance))
