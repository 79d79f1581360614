"""The CPU's own backend: kernels made from the method's `evaluate` and its vjp by LLVM.

It blends as the xla backend does, tile by tile on all cores. A splat costs only the pixels of its
box, and a pixel that is done costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from xpr.camera import Camera
from xpr.pipeline.bin import Rectangles
from xpr.pipeline.frame import Frame, Layers, Pairs, Request, assemble
from xpr.pipeline.order import Order, each as every
from xpr.types import Array, Primitive


class Inputs(NamedTuple):
    """What is differentiable about a composite.

    Attributes:
      rows: [V, D] leaves that alpha depends on.
      constants: channels that are constant over a splat, groups of [V, n].
      rays: [6, H, W] origin and direction; None where no method reads them.
    """

    rows: Array
    constants: tuple[Array, ...]
    rays: Array | None


class Steering(NamedTuple):
    """What says where to look: the tiles' lists, and boxes [V, 4] (low x, y, high x, y; px)."""

    pairs: Pairs
    boxes: Array


class Saved(struct.PyTreeNode):
    """What the forward pass leaves to the backward pass.

    Attributes:
      visited: [T] the end of what each tile saw of its list.
      of_rays: whether the rays are differentiated. Static.
    """

    inputs: Inputs
    steering: Steering
    outputs: tuple[Array, ...]
    visited: Array
    of_rays: bool = struct.field(pytree_node=False)


def why_not(request: Request) -> str | None:
    """Other machines, float64, odd tiles, and methods with a primitive that has no instructions."""
    if jax.default_backend() != "cpu":
        return f"it runs on CPUs, JAX's default device is a {jax.default_backend()}."
    if request.dtype != jnp.float32:
        return f"its kernels compute in float32, the scene is {request.dtype}."
    try:
        from xpr.pipeline.kernels import launch
    except ImportError as error:
        return f"llvmlite cannot be imported ({error})."
    return launch.why_not(request.anatomy, request.grid.tile_size)


def each(
    function: Callable[[Primitive, Camera], Any],
    scene: Primitive,
    camera: Camera,
    order: Order | None = None,
) -> Any:
    """See `xpr.pipeline.order.each`, which it is for functions that the kernels cannot express."""
    from xpr.pipeline.kernels import rows

    found = rows.each(function, scene, camera, order)
    return every(function, scene, camera, order) if found is None else found


def front_to_back(depth: Array, seen: Array, visible: int) -> Order:
    """See `xpr.pipeline.order.front_to_back`."""
    from xpr.pipeline.kernels import sorting

    return sorting.front_to_back(depth.astype(jnp.float32), seen, visible)


def pair(frame: Frame, rectangles: Rectangles, capacity: int) -> Pairs:
    """The tiles' lists, by counting."""
    from xpr.pipeline.kernels import launch

    return launch.pair(frame, rectangles, capacity)


def composite(frame: Frame) -> Layers:
    """Blend the tiles' lists."""
    recipe = _recipe(frame)
    inputs = Inputs(frame.anatomy.pack(frame.splats), frame.constants(), _rays(frame))
    blended: Any = _composite(recipe, inputs, Steering(frame.pairs, frame.boxes))
    *planes, varying, transmittance = blended
    color, depth, features = (jnp.moveaxis(group, 0, -1) for group in planes)
    return assemble(frame, (color, depth, features), jnp.moveaxis(varying, 0, -1), transmittance[0])


def _recipe(frame: Frame) -> Any:
    from xpr.pipeline.kernels import launch

    blend, central = frame.splats.blend, frame.camera.central
    return launch.Recipe(frame.grid, frame.settings.loops, frame.anatomy, blend, central)


def _rays(frame: Frame) -> Array | None:
    if not frame.anatomy.reads_rays:
        return None
    rays = frame.camera.rays(jnp.asarray(frame.grid.pixels(), frame.depth.dtype))
    return jnp.stack([*rays.origin, *rays.direction])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _composite(recipe: Any, inputs: Inputs, steering: Steering) -> Any:
    """Planes [n, H, W]: the groups of constant channels, the varying ones, the transmittance."""
    return _forward(recipe, inputs, steering)[0]


def _forward(recipe: Any, inputs: Inputs, steering: Steering) -> tuple[tuple[Array, ...], Array]:
    records = jnp.concatenate([inputs.rows, *inputs.constants, steering.boxes], axis=1)
    planes, visited = recipe.forward(records, inputs.rays, steering.pairs)
    widths = [c.shape[1] for c in inputs.constants] + [len(recipe.anatomy.varying)]
    edges = [sum(widths[: i + 1]) for i in range(len(widths))]
    return tuple(jnp.split(planes, edges, axis=0)), visited


def _remember(recipe: Any, inputs: Any, steering: Any) -> tuple[tuple[Array, ...], Saved]:
    of_rays = inputs.rays is not None and inputs.rays.perturbed
    inputs, steering = jax.tree.map(lambda p: p.value, (inputs, steering), is_leaf=_is_primal)
    outputs, visited = _forward(recipe, inputs, steering)
    return outputs, Saved(inputs, steering, outputs, visited, of_rays)


def _backward(recipe: Any, saved: Saved, cotangents: tuple) -> tuple[Inputs, None]:
    """The kernel's gradients, and zeros for the channels that the loss does not look at."""
    inputs, outputs = saved.inputs, saved.outputs
    watched = [i for i in range(3) if not _is_zero(cotangents[i])]
    g = {i: cotangents[i] for i in watched} | {i: _instantiate(cotangents[i]) for i in (3, 4)}
    behind = sum(jnp.sum(outputs[i] * g[i], axis=0) for i in g)
    values = [inputs.constants[i] for i in watched]
    records = jnp.concatenate([inputs.rows, *values, saved.steering.boxes], axis=1)
    channels = jnp.concatenate([g[i] for i in (*watched, 3)])
    grads, g_rays = recipe.backward(
        records, inputs.rays, saved.steering.pairs, (saved.visited, channels, behind, saved.of_rays)
    )
    widths = [inputs.rows.shape[1], *(v.shape[1] for v in values)]
    edges = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
    rows, *groups = jnp.split(grads, edges, axis=1)
    given = dict(zip(watched, groups, strict=True))
    constants = tuple(given.get(i, jnp.zeros_like(c)) for i, c in enumerate(inputs.constants))
    return Inputs(rows, constants, g_rays), None


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, jax.custom_derivatives.SymbolicZero) or 0 in cotangent.shape


def _instantiate(cotangent: Any) -> Array:
    return jnp.zeros(cotangent.shape, cotangent.dtype) if _is_zero(cotangent) else cotangent


_composite.defvjp(_remember, _backward, symbolic_zeros=True)
