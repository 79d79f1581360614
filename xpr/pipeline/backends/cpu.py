"""The CPU's own backend: kernels made from the method's `evaluate` and its vjp by LLVM.

It blends as the xla backend does, tile by tile on all cores. A splat costs only the pixels of its
box, and a pixel that is done costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.pipeline.backends.replay import Asked, Inputs, Outputs, Tiled, composite as blend_lists
from xpr.pipeline.bin import Rectangles
from xpr.pipeline.frame import Frame, Layers, Pairs, Request
from xpr.pipeline.order import Order, each as every
from xpr.types import Array, Primitive, Vec3


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
    from xpr.pipeline.kernels import launch

    blend, central = frame.splats.blend, frame.camera.central
    recipe = launch.Recipe(frame.grid, frame.settings.loops, frame.anatomy, blend, central)
    return blend_lists(frame, Planes(recipe))


@dataclasses.dataclass(frozen=True)
class Planes(Tiled):
    """Planes [n, H, W]; the kernels find their tiles themselves.

    Attributes:
      recipe: an `xpr.pipeline.kernels.launch.Recipe`.
    """

    axis: ClassVar[int] = 0

    recipe: Any

    def lists(self, frame: Frame) -> tuple[Pairs, Array]:
        """The tiles' lists, and the boxes."""
        return frame.pairs, frame.boxes

    def rays(self, frame: Frame) -> tuple[Vec3, Vec3] | None:
        """[H, W] each."""
        if not frame.anatomy.reads_rays:
            return None
        rays = frame.camera.rays(jnp.asarray(frame.grid.pixels(), frame.depth.dtype))
        return rays.origin, rays.direction

    def image(self, frame: Frame, channels: Array) -> Array:
        """Channels last."""
        del frame
        return jnp.moveaxis(channels, 0, -1)

    def forward(self, inputs: Inputs, lists: tuple[Pairs, Array]) -> Outputs:
        """Blend; what is left for the replay is how far each tile saw its list."""
        pairs, boxes = lists
        records = jnp.concatenate([inputs.rows, *inputs.constants, boxes], axis=1)
        planes, visited = self.recipe.forward(records, _stacked(inputs.rays), pairs)
        n = sum(c.shape[1] for c in inputs.constants)
        return Outputs(planes[:n], planes[n:-1], planes[-1], visited)

    def replay(
        self, inputs: Inputs, lists: tuple[Pairs, Array], asked: Asked
    ) -> tuple[Array, tuple[Vec3, Vec3] | None]:
        """Replay as far as each tile saw."""
        pairs, boxes = lists
        records = jnp.concatenate([inputs.rows, asked.values, boxes], axis=1)
        cotangents = jnp.concatenate([asked.g, asked.g_moving])
        behind = (asked.rest, cotangents, asked.behind, asked.rays)
        grads, g = self.recipe.backward(records, _stacked(inputs.rays), pairs, behind)
        return grads, None if g is None else (Vec3(*g[:3]), Vec3(*g[3:]))


def _stacked(rays: tuple[Vec3, Vec3] | None) -> Array | None:
    return None if rays is None else jnp.stack([*rays[0], *rays[1]])
