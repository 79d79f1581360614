"""The kernels as operations of a JAX program: arrays in, arrays out, tiles shared among threads."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.bin import Rectangles
from xpr.pipeline.frame import Frame, Pairs
from xpr.pipeline.grid import Grid
from xpr.pipeline.kernels import binning, composite, foreign
from xpr.pipeline.kernels.binning import Counter
from xpr.pipeline.kernels.program import Entry
from xpr.pipeline.kernels.tiles import BOX, LARGEST_TILE, Response, Shape
from xpr.pipeline.kernels.values import LANES
from xpr.pipeline.kernels.workers import clear, digest, pack, run, scratch
from xpr.types import Array, Blend


class Recipe(NamedTuple):
    """What is static about a composite."""

    grid: Grid
    threads: int
    anatomy: Anatomy
    blend: Blend
    central: bool

    def shape(self, records: Array) -> Shape:
        """The kernel's, for records [V, D]."""
        leaves = sum(self.anatomy.read)
        constants = records.shape[1] - leaves - BOX
        return Shape(self.anatomy, self.blend, self.grid.tile_size, constants, self.central)

    def forward(self, records: Array, rays: Array | None, pairs: Pairs) -> tuple[Array, Array]:
        """Blend.

        Args:
          records: [V, D] leaves, constant channels, boxes.
          rays: [6, H, W], or None.
          pairs: the tiles' lists.

        Returns:
          [n + v + 1, H, W] constant and varying channels and transmittance; [T] the end of what
          each tile saw of its list.
        """
        shape, grid = self.shape(records), self.grid
        planes = shape.constants + shape.varying + 1
        results = (_plane(grid, planes), jax.ShapeDtypeStruct((grid.tiles,), jnp.int32))
        name = f"xpr_forward_{digest(self, shape.constants, _response(self.anatomy))}"
        job = functools.partial(_forward, shape, grid, self.threads)
        operands = (records, _padded(grid, rays), pairs.ids, pairs.starts)
        blended, visited = foreign.call(name, job, results, *operands)
        return blended[:, : grid.height, : grid.width], visited

    def backward(
        self,
        records: Array,
        rays: Array | None,
        pairs: Pairs,
        behind: tuple[Array, Array, Array, bool],
    ) -> tuple[Array, Array | None]:
        """Replay.

        Args:
          records: [V, D] leaves, watched constant channels, boxes.
          rays: [6, H, W], or None.
          pairs: the tiles' lists.
          behind: [T] how far the tiles saw their lists; [n + v, H, W] the channels' cotangents;
            [H, W] all layers and the background, times their cotangents; whether the rays are
            differentiated.

        Returns:
          Gradients of leaves and channels [V, D - BOX], and of the rays [6, H, W].
        """
        shape, grid = self.shape(records), self.grid
        visited, cotangents, total, of_rays = behind
        rows = jax.ShapeDtypeStruct((len(records), shape.leaves + shape.constants), jnp.float32)
        results = (rows, _plane(grid, 6 * of_rays))
        told = (self, shape.constants, _response(self.anatomy), of_rays)
        name = f"xpr_backward_{digest(*told)}"
        job = functools.partial(_backward, shape, grid, self.threads, of_rays)
        planes = (_padded(grid, rays), _padded(grid, cotangents), _padded(grid, total[None]))
        operands = (records, *planes, pairs.ids, pairs.starts, visited)
        grads, g_rays = foreign.call(name, job, results, *operands)
        if rays is None:
            return grads, None
        g_rays = g_rays[:, : grid.height, : grid.width] if of_rays else jnp.zeros_like(rays)
        return grads, g_rays


def pair(frame: Frame, boxes: Rectangles, capacity: int) -> Pairs:
    """See `xpr.pipeline.bin.pair`; without room it is the last tiles whose pairs are left out."""
    grid, threads = frame.grid, frame.settings.loops
    splats = jax.lax.stop_gradient(frame.splats)
    records, counter = jnp.stack(jax.tree.leaves(splats), axis=-1), Counter(splats, grid.tile_size)
    job = functools.partial(binning.fill_lists, counter, grid, threads)
    results = [jax.ShapeDtypeStruct((n,), jnp.int32) for n in (capacity, grid.tiles + 1)]
    name = f"xpr_bin_{digest(counter.digest, grid, threads)}"
    return Pairs(*foreign.call(name, job, results, records, jnp.stack(boxes, -1)))


def why_not(anatomy: Anatomy, tile_size: int) -> str | None:
    """What keeps a method or a tile size from these kernels, in words."""
    if tile_size % LANES or tile_size > LARGEST_TILE:
        return f"its tiles are {LANES} or {LARGEST_TILE} px wide, the settings say {tile_size}."
    unknown = _response(anatomy).unknown_primitive()
    return None if unknown is None else f"it has no instructions for the primitive {unknown!r}."


@functools.lru_cache(maxsize=64)
def _response(anatomy: Anatomy) -> Response:
    return Response.of(anatomy)


@functools.lru_cache(maxsize=64)
def _entry(shape: Shape, direction: str) -> Entry:
    response = _response(shape.anatomy)
    if direction == "forward":
        return composite.forward(shape, response).compile()
    return composite.backward(shape, response, of_rays=direction == "backward to rays").compile()


def _plane(grid: Grid, channels: int) -> jax.ShapeDtypeStruct:
    rows, columns = (n * grid.tile_size for n in grid.shape)
    return jax.ShapeDtypeStruct((channels, rows, columns), jnp.float32)


def _padded(grid: Grid, planes: Array | None) -> Array:
    """[n, H, W] up to whole tiles."""
    if planes is None:
        return jnp.zeros((0, 0, 0), jnp.float32)
    rows, columns = (n * grid.tile_size for n in grid.shape)
    return jnp.pad(planes, ((0, 0), (0, rows - grid.height), (0, columns - grid.width)), "edge")


def _forward(shape: Shape, grid: Grid, threads: int, *arrays: np.ndarray) -> None:
    """Tiles with long lists first, each taken by the next free thread."""
    records, rays, ids, starts, blended, visited = arrays
    lists = np.diff(starts)
    order = np.argsort(-lists, kind="stable").astype(np.int32)
    counter = np.zeros(1, np.int64)
    memory = [
        scratch((shape.constants + shape.varying + 1) * grid.tile_size**2) for _ in range(threads)
    ]
    packs = [
        pack(
            [
                *(counter, order, len(order), starts, starts[1:], ids, records, rays, mine),
                *_view(grid),
                *(blended, visited),
            ]
        )
        for mine in memory
    ]
    run(_entry(shape, "forward"), packs)


def _backward(shape: Shape, grid: Grid, threads: int, of_rays: bool, *arrays: np.ndarray) -> None:
    """Each thread has its own tiles and its own sums, so that the order of addition is fixed."""
    records, rays, cotangents, behind, ids, starts, visited, grads, g_rays = arrays
    order = np.argsort(starts[:-1] - visited, kind="stable").astype(np.int32)
    planes = shape.constants + shape.varying + 2 + 6 * of_rays
    counters = np.zeros((threads, 8), np.int64)
    sums = [grads, *(np.empty_like(grads) for _ in range(threads - 1))]
    clear(sums, threads)
    packs, alive = [], []
    for i in range(threads):
        mine, memory = np.ascontiguousarray(order[i::threads]), scratch(planes * grid.tile_size**2)
        alive += [mine, memory]
        packs.append(
            pack(
                [
                    *(counters[i], mine, len(mine), starts, visited, ids, records, rays, memory),
                    *_view(grid),
                    *(cotangents, behind, sums[i], g_rays),
                ]
            )
        )
    run(_entry(shape, "backward to rays" if of_rays else "backward"), packs)
    for other in sums[1:]:
        grads += other


def _view(grid: Grid) -> tuple[int, ...]:
    rows, columns = grid.shape
    stride = columns * grid.tile_size
    return columns, grid.width, grid.height, stride, stride * rows * grid.tile_size
