"""From a scene and a camera to an image: the stages, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from flax import struct

from xpr.camera import Camera
from xpr.errors import UserError
from xpr.pipeline import backends
from xpr.pipeline.admit import admit, admit_extras
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.bin import rectangles
from xpr.pipeline.capacity import Capacity, Count, Overflow
from xpr.pipeline.frame import Frame, Layers, Request
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import Survey, project, survey
from xpr.pipeline.settings import Settings
from xpr.types import Array, Primitive, Splat, count


class Output(struct.PyTreeNode):
    """A rendered view; a batch of cameras has a leading axis C.

    Attributes:
      color: [H, W, 3] RGB over the background.
      alpha: [H, W] in [0, 1].
      depth: [H, W] accumulated: the sum of depth times weight.
      features: [H, W, F] blended like the colour, over nothing: those given, then those of the
        method's hits (`Hit.features`); None where there are none.
      overflow: what did not fit into the capacity.
    """

    color: Array
    alpha: Array
    depth: Array
    features: Array | None
    overflow: Overflow

    @property
    def expected_depth(self) -> Array:
        """[H, W] accumulated depth over alpha; 0 where nothing is hit."""
        hit = self.alpha > 0
        return jnp.where(hit, self.depth / jnp.where(hit, self.alpha, 1), 0)


def render(
    scene: Primitive,
    camera: Camera,
    *,
    capacity: Capacity | None = None,
    background: Array | None = None,
    features: Array | None = None,
    alive: Array | None = None,
    backend: str = "auto",
    settings: Settings | None = None,
) -> Output:
    """Render a scene.

    Differentiable in the scene, the camera, the background and the features. Outside `jax.jit`
    the buffers are planned from the scene; under it give a `capacity` from `xpr.plan`, and look
    at `output.overflow`, since a compiled function cannot raise.

    Args:
      scene: N primitives, leaves [N, ...].
      camera: one view, or C of one size (every leaf with a leading axis), rendered in turn.
      capacity: static buffer sizes.
      background: [3] RGB, or [C, 3]; black if None.
      features: [N, F] extra channels per primitive.
      alive: [N] bool; the others are left out. All, if None.
      backend: "auto", "cpu" or "pallas" (kernels for CPUs and for GPUs), "xla" (anywhere) or
        "reference" (every splat at every pixel; for small scenes). "auto" takes the first that can.
      settings: tile size and batching; by default the measured ones of this platform.

    Raises:
      UserError: a wrong shape, dtype or backend, or no capacity under `jax.jit`.
      CapacityError: the image needs more pairs than can be counted in 31 bits.
    """
    settings = settings or Settings.for_this_machine()
    scene, camera = admit(scene, camera)
    background, features, alive = admit_extras(scene, camera, background, features, alive)
    if capacity is None:
        capacity = _planned(scene, camera, alive, settings)
    run = partial(_render, capacity=capacity, backend=backend, settings=settings)
    if camera.viewmat.ndim == 3:
        backgrounds = jnp.broadcast_to(background, (len(camera.viewmat), 3))
        return jax.lax.map(
            lambda view: run(scene, view[0], view[1], features, alive), (camera, backgrounds)
        )
    return run(scene, camera, background, features, alive)


def plan(
    scene: Primitive,
    cameras: Camera | Sequence[Camera],
    *,
    alive: Array | None = None,
    settings: Settings | None = None,
) -> Capacity:
    """The capacity that these views need, rounded up to powers of two with headroom.

    Args:
      scene: N primitives, concrete.
      cameras: one view, a batch with a leading axis, or a sequence of either.
      alive: [N] bool.
      settings: must be those that the rendering uses.

    Raises:
      UserError: a wrong shape or dtype.
      CapacityError: a view needs more pairs than can be counted in 31 bits.
    """
    settings = settings or Settings.for_this_machine()
    visible = pairs = 0
    for view in _views(cameras):
        needs = _needs(*admit(scene, view), alive, settings)
        visible, pairs = max(visible, int(needs[0])), max(pairs, int(needs[1]))
    return Capacity.covering(visible, pairs)


@partial(jax.jit, static_argnames=("capacity", "backend", "settings"))
def _render(
    scene: Primitive,
    camera: Camera,
    background: Array,
    features: Array | None,
    alive: Array | None,
    *,
    capacity: Capacity,
    backend: str,
    settings: Settings,
) -> Output:
    if count(scene) == 0:
        return _nothing(camera, background, features)
    request = _request(scene, camera, 0 if features is None else features.shape[1], settings)
    grid, chosen = request.grid, backends.choose(request, backend)
    found = survey(scene, camera, alive, chosen.each)
    visible, intersections = _demand(found, grid)
    order = chosen.front_to_back(found.depth, found.seen, min(capacity.visible, count(scene)))
    low, high = found.low[order.index], found.high[order.index]
    boxes = rectangles(low, high, order.valid, grid)
    splats, depth = chosen.each(_drawn, scene, camera, order)
    extra = jnp.zeros((count(scene), 0), depth.dtype) if features is None else features
    frame = Frame(
        splats,
        order.valid,
        depth,
        extra[order.index],
        jnp.concatenate([low, high], axis=1).astype(depth.dtype),
        order.watched(camera),
        grid,
        request.anatomy,
        settings,
    )
    pairs = chosen.pair(frame, boxes, capacity.intersections)
    layers = _lit(chosen.composite(frame._replace(pairs=pairs)), frame)
    full = visible.exceeds(capacity.visible) | intersections.exceeds(capacity.intersections)
    return Output(
        color=layers.color + layers.transmittance[..., None] * background,
        alpha=1 - layers.transmittance,
        depth=layers.depth,
        features=layers.features if layers.features.shape[-1] else None,
        overflow=Overflow(visible, intersections, full),
    )


def _request(scene: Primitive, camera: Camera, features: int, settings: Settings) -> Request:
    grid = Grid(camera.width, camera.height, settings.tile_size)
    record = jax.eval_shape(project, scene, camera).splat
    name, dtype = type(record).__name__, camera.viewmat.dtype
    return Request(name, record.blend, anatomy(record), dtype, features, grid, settings)


def _lit(layers: Layers, frame: Frame) -> Layers:
    """The layers where light reaches the image; what a lens cannot see shows the background."""
    pixels = jnp.asarray(frame.grid.pixels(), frame.depth.dtype)
    lit = frame.camera.covers(pixels)
    nothing = Layers(*(jnp.zeros_like(layer) for layer in layers))
    nothing = nothing._replace(transmittance=jnp.ones_like(layers.transmittance))
    return jax.tree.map(
        lambda some, none: jnp.where(lit if some.ndim == 2 else lit[..., None], some, none),
        layers,
        nothing,
    )


def _drawn(one: Primitive, camera: Camera) -> tuple[Splat, Array]:
    """What is drawn of a primitive, and its depth."""
    projected = one.project(camera)
    return projected.splat, projected.depth


def _nothing(camera: Camera, background: Array, features: Array | None) -> Output:
    """The image of a scene without primitives."""
    blank = jnp.zeros((camera.height, camera.width), background.dtype)
    none = Count.total(jnp.zeros(1, jnp.uint32))
    return Output(
        color=blank[..., None] + background,
        alpha=blank,
        depth=blank,
        features=None if features is None else jnp.zeros((*blank.shape, features.shape[1])),
        overflow=Overflow(none, none, jnp.array(False)),
    )


@partial(jax.jit, static_argnames="settings")
def _needs(
    scene: Primitive, camera: Camera, alive: Array | None, settings: Settings
) -> tuple[Count, Count]:
    if count(scene) == 0:
        return Count.total(jnp.zeros(1, jnp.uint32)), Count.total(jnp.zeros(1, jnp.uint32))
    request = _request(scene, camera, 0, settings)
    found = survey(scene, camera, alive, backends.choose(request, "auto").each)
    return _demand(found, request.grid)


def _demand(found: Survey, grid: Grid) -> tuple[Count, Count]:
    """How many splats are visible, and how many (tile, splat) pairs their boxes make."""
    boxes = rectangles(found.low, found.high, found.seen, grid)
    return Count.total(found.seen), Count.total(boxes.counts)


def _planned(scene: Primitive, camera: Camera, alive: Array | None, settings: Settings) -> Capacity:
    # Under jax.grad alone the values are known; under jax.jit or jax.vmap they are not.
    scene, camera = jax.lax.stop_gradient((scene, camera))
    try:
        return plan(scene, camera, alive=alive, settings=settings)
    except jax.errors.ConcretizationTypeError:
        raise UserError(
            "render needs a capacity under jax.jit and jax.vmap: buffers are sized before values "
            "are known. Give capacity=xpr.plan(scene, cameras), computed outside."
        ) from None


def _views(cameras: Camera | Sequence[Camera]) -> Iterable[Camera]:
    if not isinstance(cameras, Camera):
        for camera in cameras:
            yield from _views(camera)
    elif cameras.viewmat.ndim == 3:
        for i in range(len(cameras.viewmat)):
            yield jax.tree.map(lambda leaf, i=i: leaf[i], cameras)
    else:
        yield cameras
