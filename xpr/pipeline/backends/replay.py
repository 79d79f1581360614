"""The custom VJP around compositing, which the tiled backends share.

A backend blends the tiles' lists front to back, and replays them in the same order to find the
gradients. What is the same for all of them is here: what goes in, what the loss asks for, and how
the blended channels become an image.
"""

from __future__ import annotations

import abc
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from xpr.pipeline.frame import Frame, Layers, Pairs, assemble
from xpr.types import Array, Vec3


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


class Outputs(NamedTuple):
    """What a tile's pixels have blended.

    Attributes:
      blended: [T, n, P] constant channels, all groups side by side.
      moving: [T, v, P] channels that vary along the ray.
      transmittance: [T, P].
    """

    blended: Array
    moving: Array
    transmittance: Array


class Asked(NamedTuple):
    """What the loss asks of a replay.

    Attributes:
      values: [V, n] constant channels that it looks at.
      g: [T, n, P] their cotangents.
      g_moving: [T, v, P] cotangents of the varying channels.
      behind: [T, P] all layers and the background, times their cotangents.
      rays: whether it asks for the gradients of the rays. Static.
    """

    values: Array
    g: Array
    g_moving: Array
    behind: Array
    rays: bool


class Tiled(abc.ABC):
    """A backend's two passes over the tiles, and its static choices. Hashable."""

    @abc.abstractmethod
    def forward(self, inputs: Inputs, pairs: Pairs) -> Outputs:
        """Blend the tiles' lists."""

    @abc.abstractmethod
    def replay(
        self, inputs: Inputs, pairs: Pairs, asked: Asked
    ) -> tuple[Array, tuple[Vec3, Vec3] | None]:
        """Gradients of the rows and the asked values, [V, D + n], and of the rays."""


class _Saved(struct.PyTreeNode):
    """What the backward pass reads; `rays` says whether anybody asks for their gradients."""

    inputs: Inputs
    pairs: Pairs
    outputs: tuple[Array, ...]
    rays: bool = struct.field(pytree_node=False)


def composite(frame: Frame, tiled: Tiled) -> Layers:
    """Blend the tiles' lists, differentiably."""
    anatomy, grid = frame.anatomy, frame.grid
    inputs = Inputs(anatomy.pack(frame.splats), frame.constants(), _rays(frame))
    blended: Any = _composite(tiled, inputs, frame.pairs)
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
def _composite(tiled: Tiled, inputs: Inputs, pairs: Pairs) -> Any:
    """Blended constants [T, n, P] each, varying channels [T, v, P], transmittance [T, P]."""
    blended, moving, transmittance = tiled.forward(inputs, pairs)
    return *jnp.split(blended, _edges(inputs.constants), axis=1), moving, transmittance


def _remember(tiled: Tiled, inputs: Any, pairs: Any) -> tuple[tuple[Array, ...], _Saved]:
    marked = jax.tree.leaves(inputs.rays, is_leaf=_is_primal)
    inputs, pairs = jax.tree.map(lambda primal: primal.value, (inputs, pairs), is_leaf=_is_primal)
    outputs: Any = _composite(tiled, inputs, pairs)
    return outputs, _Saved(inputs, pairs, outputs, any(primal.perturbed for primal in marked))


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _backward(tiled: Tiled, saved: _Saved, cotangents: tuple) -> tuple[Inputs, None]:
    """Replay front to back; what lies behind a layer is the total less what came before it."""
    inputs, outputs = saved.inputs, saved.outputs
    # Channels that the loss does not look at cost nothing.
    watched = [i for i in range(3) if not _is_zero(cotangents[i])]
    values = jnp.concatenate(
        [inputs.constants[i] for i in watched] or [_no_channel(inputs)], axis=1
    )
    g = jnp.concatenate([cotangents[i] for i in watched] or [_no_channel_image(outputs)], axis=1)
    g_moving, g_transmittance = (_instantiate(c) for c in cotangents[3:])
    totals = [jnp.sum(outputs[i] * cotangents[i], axis=1) for i in watched]
    behind = sum(totals) + jnp.sum(outputs[3] * g_moving, axis=1) + outputs[4] * g_transmittance
    asked = Asked(values, g, g_moving, behind, saved.rays)
    grads, g_rays = tiled.replay(inputs, saved.pairs, asked)
    width = inputs.rows.shape[1]
    groups = iter(jnp.split(grads[:, width:], _edges([inputs.constants[i] for i in watched]), 1))
    constants = tuple(
        next(groups) if i in watched else jnp.zeros_like(c) for i, c in enumerate(inputs.constants)
    )
    return Inputs(grads[:, :width], constants, g_rays), None


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
