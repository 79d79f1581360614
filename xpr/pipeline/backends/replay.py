"""The custom VJP around compositing, which all backends but the reference share.

A backend blends the tiles' lists front to back, and replays them in the same order to find the
gradients. What is the same for all of them is here: what goes in, what the loss asks for, and how
the blended channels become an image.
"""

from __future__ import annotations

import abc
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from xpr.pipeline.frame import Frame, Layers, assemble
from xpr.types import Array, Vec3


class Inputs(NamedTuple):
    """What is differentiable about a composite.

    Attributes:
      rows: [V, D] leaves that alpha depends on.
      constants: channels that are constant over a splat, groups of [V, n].
      rays: origin and direction in the backend's layout, or None where no method reads them.
    """

    rows: Array
    constants: tuple[Array, ...]
    rays: tuple[Vec3, Vec3] | None


class Outputs(NamedTuple):
    """What the pixels have blended, in the backend's layout: tiles [T, n, P] or planes [n, H, W].

    Attributes:
      blended: constant channels, all groups side by side.
      moving: channels that vary along the ray.
      transmittance: the layout without its axis of channels.
      rest: whatever else the replay needs; not differentiated.
    """

    blended: Array
    moving: Array
    transmittance: Array
    rest: Any = ()


class Asked(NamedTuple):
    """What the loss asks of a replay.

    Attributes:
      values: [V, n] constant channels that it looks at.
      g: their cotangents, in the backend's layout.
      g_moving: cotangents of the varying channels.
      behind: all layers and the background, times their cotangents; without an axis of channels.
      rays: whether it asks for the gradients of the rays. Static.
      rest: of `Outputs`.
    """

    values: Array
    g: Array
    g_moving: Array
    behind: Array
    rays: bool
    rest: Any


class Tiled(abc.ABC):
    """A backend's two passes over the tiles, and its static choices. Hashable.

    By default its layout is [T, n, P], tile after tile.

    Attributes:
      axis: of the channels in its layout.
    """

    axis: ClassVar[int] = 1

    def lists(self, frame: Frame) -> Any:
        """What says which splats to visit; not differentiated."""
        return frame.pairs

    def rays(self, frame: Frame) -> tuple[Vec3, Vec3] | None:
        """Origin and direction of every pixel, or None where no method reads them."""
        if not frame.anatomy.reads_rays:
            return None
        rays = frame.camera.rays(jnp.asarray(frame.grid.pixels(), frame.depth.dtype))
        return jax.tree.map(frame.grid.to_tiles, (rays.origin, rays.direction))

    def image(self, frame: Frame, channels: Array) -> Array:
        """Channels in its layout as [H, W, n]."""
        return frame.grid.to_image(channels)

    @abc.abstractmethod
    def forward(self, inputs: Inputs, lists: Any) -> Outputs:
        """Blend the tiles' lists."""

    @abc.abstractmethod
    def replay(
        self, inputs: Inputs, lists: Any, asked: Asked
    ) -> tuple[Array, tuple[Vec3, Vec3] | None]:
        """Gradients of the rows and the asked values, [V, D + n], and of the rays."""


class _Saved(struct.PyTreeNode):
    """What the backward pass reads; `rays` says whether anybody asks for their gradients."""

    inputs: Inputs
    lists: Any
    outputs: tuple[Array, ...]
    rest: Any
    rays: bool = struct.field(pytree_node=False)


def composite(frame: Frame, tiled: Tiled) -> Layers:
    """Blend the tiles' lists, differentiably."""
    inputs = Inputs(frame.anatomy.pack(frame.splats), frame.constants(), tiled.rays(frame))
    blended: Any = _composite(tiled, inputs, tiled.lists(frame))
    *channels, transmittance = blended
    transmittance = jnp.expand_dims(transmittance, tiled.axis)
    color, depth, features, varying, left = (
        tiled.image(frame, x) for x in (*channels, transmittance)
    )
    return assemble(frame, (color, depth, features), varying, left[..., 0])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _composite(tiled: Tiled, inputs: Inputs, lists: Any) -> Any:
    """The groups of constant channels, the varying ones, and the transmittance."""
    return _forward(tiled, inputs, lists)[0]


def _forward(tiled: Tiled, inputs: Inputs, lists: Any) -> tuple[tuple[Array, ...], Any]:
    blended, moving, transmittance, rest = tiled.forward(inputs, lists)
    groups = jnp.split(blended, _edges(inputs.constants), axis=tiled.axis)
    return (*groups, moving, transmittance), rest


def _remember(tiled: Tiled, inputs: Any, lists: Any) -> tuple[tuple[Array, ...], _Saved]:
    # Where the camera is not differentiated, the rays' cotangents would be thrown away.
    marked = jax.tree.leaves(inputs.rays, is_leaf=_is_primal)
    inputs, lists = jax.tree.map(lambda primal: primal.value, (inputs, lists), is_leaf=_is_primal)
    outputs, rest = _forward(tiled, inputs, lists)
    return outputs, _Saved(inputs, lists, outputs, rest, any(x.perturbed for x in marked))


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _backward(tiled: Tiled, saved: _Saved, cotangents: tuple) -> tuple[Inputs, None]:
    """Replay front to back; what lies behind a layer is the total less what came before it.

    See `xpr.pipeline.blend.replay`; a channel's gradient is the layer's weight times its cotangent.
    """
    inputs, outputs, axis = saved.inputs, saved.outputs, tiled.axis
    # Channels that the loss does not look at cost nothing.
    watched = [i for i in range(3) if not _is_zero(cotangents[i])]
    no_value = jnp.zeros((len(inputs.rows), 0), inputs.rows.dtype)
    values = jnp.concatenate([inputs.constants[i] for i in watched] or [no_value], axis=1)
    no_channel = jnp.take(jnp.expand_dims(outputs[4], axis), jnp.arange(0), axis)
    g = jnp.concatenate([cotangents[i] for i in watched] or [no_channel], axis=axis)
    g_moving, g_transmittance = (_instantiate(c) for c in cotangents[3:])
    totals = [jnp.sum(outputs[i] * cotangents[i], axis=axis) for i in watched]
    behind = sum(totals) + jnp.sum(outputs[3] * g_moving, axis=axis) + outputs[4] * g_transmittance
    asked = Asked(values, g, g_moving, behind, saved.rays, saved.rest)
    grads, g_rays = tiled.replay(inputs, saved.lists, asked)
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


_composite.defvjp(_remember, _backward, symbolic_zeros=True)
