"""The renderer cut into its stages, as `xpr/pipeline/render.py` puts them together."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.case import Choice
from xpr.camera import Camera
from xpr.pipeline import backends
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.bin import rectangles
from xpr.pipeline.frame import Frame, Pairs, Request
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import Order, Survey, front_to_back, project, survey
from xpr.types import Array, Primitive, Splat


class Sorted(NamedTuple):
    """The visible primitives, nearest first, with their boxes [V, 2] (px) and depths [V]."""

    order: Order
    low: Array
    high: Array
    depth: Array


class Cut(NamedTuple):
    """The stages of one method on one backend; every array comes in as an argument."""

    backend: ModuleType
    request: Request

    @classmethod
    def of(cls, scene: Primitive, camera: Camera, choice: Choice) -> Cut:
        """The stages that this choice takes.

        Raises:
          UserError: the backend cannot render this.
        """
        settings = choice.settings()
        grid = Grid(camera.width, camera.height, settings.tile_size)
        record, dtype = jax.eval_shape(project, scene, camera).splat, camera.viewmat.dtype
        name, blend = type(record).__name__, record.blend
        request = Request(name, blend, anatomy(record), dtype, 0, grid, settings)
        return cls(backends.choose(request, choice.backend), request)

    def survey(self, scene: Primitive, camera: Camera) -> Survey:
        """Project everything, without gradients."""
        return survey(scene, camera, None, self.backend.each)

    def arrange(self, found: Survey, visible: int) -> Sorted:
        """Cull and sort."""
        order = front_to_back(found.depth, found.seen, min(visible, len(found.depth)))
        return Sorted(order, *(x[order.index] for x in (found.low, found.high, found.depth)))

    def project(self, scene: Primitive, camera: Camera, put: Sorted) -> Splat:
        """The records of what is visible."""
        return self.backend.each(_drawn, scene, camera, put.order)

    def bin(self, splats: Splat, camera: Camera, put: Sorted, capacity: int) -> Pairs:
        """The tiles' lists."""
        boxes = rectangles(put.low, put.high, put.order.valid, self.request.grid)
        return self.backend.pair(self._frame(splats, camera, put), boxes, capacity)

    def blend(self, splats: Splat, camera: Camera, put: Sorted, pairs: Pairs) -> Array:
        """The image over black, [H, W, 3]."""
        frame = self._frame(splats, camera, put)
        return self.backend.composite(frame._replace(pairs=pairs)).color

    def _frame(self, splats: Splat, camera: Camera, put: Sorted) -> Frame:
        request = self.request
        boxes = jnp.concatenate([put.low, put.high], axis=1)
        none, watched = jnp.zeros((len(put.depth), 0), put.depth.dtype), put.order.watched(camera)
        static = (request.grid, request.anatomy, request.settings)
        return Frame(splats, put.order.valid, put.depth, none, boxes, watched, *static)


def _drawn(one: Primitive, camera: Camera) -> Splat:
    return one.project(camera).splat
