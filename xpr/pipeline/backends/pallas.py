"""The GPU backend: one kernel program a tile, which runs the method's own `evaluate`.

The loop is in `tile.py`, the ways to sum gradients in `accumulate.py`, and what the dialects of
Pallas do differently in a file each.
"""

from __future__ import annotations

import dataclasses
import functools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.extend.backend
import jax.numpy as jnp
from jax.experimental import pallas as pl

from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.backends.accumulate import Accumulation
from xpr.pipeline.backends.dialect import Dialect, dialect
from xpr.pipeline.backends.replay import Asked, Inputs, Outputs, Tiled, composite as tiled_composite
from xpr.pipeline.backends.tile import Lists, Pixels, TileLoop, World
from xpr.pipeline.bin import pair as pair
from xpr.pipeline.frame import Frame, Layers, Pairs, Request
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import each as each, front_to_back as front_to_back
from xpr.pipeline.settings import Kernel, Settings
from xpr.types import Array, Blend, Ray, Vec2, Vec3

MOST_FEATURES = 32  # given to `render`: each takes a register a pixel


class Reads(NamedTuple):
    """What a program reads, as arrays or as references to them.

    Attributes:
      lists: the splats.
      local: [2, P] pixel centres of a tile, from its corner.
      world: the rays, [T, P] each, or None.
    """

    lists: Lists
    local: Any
    world: World | None


@dataclasses.dataclass(frozen=True)
class Kernels(Tiled):
    """What is static about a composite."""

    grid: Grid
    settings: Settings
    blend: Blend
    anatomy: Anatomy

    def forward(self, inputs: Inputs, pairs: Pairs) -> Outputs:
        """Blend the tiles' lists."""
        values = jnp.concatenate(inputs.constants, axis=1)
        reads = self._reads(inputs, pairs, values)
        tiles, size = self.grid.tiles, self.grid.tile_size**2
        loop, words, dtype = self._loop(), self._words(), values.dtype

        def body(reads: Reads, *out: Any) -> None:
            tile, (in_blended, in_moving, in_transmittance) = pl.program_id(0), out
            zero = words.zeros(size, dtype)
            blended, moving, transmittance = loop.forward(
                tile, reads.lists, self._ray(tile, reads), zero
            )
            in_transmittance[tile] = transmittance
            for ref, channels in ((in_blended, blended), (in_moving, moving)):
                for i, channel in enumerate(channels):
                    ref[tile, i] = channel

        widths = (values.shape[1], len(self.anatomy.varying))
        wanted = [jax.ShapeDtypeStruct((tiles, n, size), dtype) for n in widths]
        shapes = [shape if shape.size else None for shape in wanted]
        *channels, transmittance = words.call(
            body,
            tiles,
            (reads,),
            (*shapes, jax.ShapeDtypeStruct((tiles, size), dtype)),
            update=False,
        )
        blended, moving = (
            jnp.zeros(shape.shape, dtype) if found is None else found
            for shape, found in zip(wanted, channels, strict=True)
        )
        return Outputs(blended, moving, transmittance)

    def replay(
        self, inputs: Inputs, pairs: Pairs, asked: Asked
    ) -> tuple[Array, tuple[Vec3, Vec3] | None]:
        """Gradients of the rows and the asked values, [V, D + n], and of the rays."""
        size, words, dtype = self.grid.tile_size**2, self._words(), inputs.rows.dtype
        loop, accumulation = self._loop(), self._accumulation()
        reads = self._reads(inputs, pairs, asked.values)
        world = inputs.rays if asked.rays else None
        g, g_moving = (x if x.size else None for x in (asked.g, asked.g_moving))
        pixels = _Cotangents(g, g_moving, asked.behind)

        def body(reads: Reads, pixels: _Cotangents, before: Any, grads: Any, g_world: Any) -> None:
            del before  # it is what the first output starts as
            tile = pl.program_id(0)
            ray = self._ray(tile, reads)
            mine = Pixels(
                ray,
                words.zeros(size, dtype),
                _rows(pixels.g, tile),
                _rows(pixels.g_moving, tile),
                pixels.behind[tile],
            )
            emit = partial(accumulation.emit, grads)
            asked = None if g_world is None else (ray.origin, ray.direction)
            found = loop.replay(tile, reads.lists, mine, emit, asked)
            for ref, value in zip(jax.tree.leaves(g_world), jax.tree.leaves(found), strict=True):
                ref[tile] = value

        width = inputs.rows.shape[1] + asked.values.shape[1]
        start = accumulation.start(pairs, len(inputs.rows), width, dtype)
        out = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (start, world))
        grads, g_world = words.call(body, self.grid.tiles, (reads, pixels, start), out, update=True)
        return accumulation.finish(grads, pairs, len(inputs.rows)), g_world

    def _words(self) -> Dialect:
        return dialect(self.settings.kernel)

    def _loop(self) -> TileLoop:
        return TileLoop(self.anatomy, self.blend, self.settings.chunk, self._words().vjp)

    def _accumulation(self) -> Accumulation:
        kernel = self.settings.kernel
        return Accumulation(kernel.accumulate, kernel.threshold, self._words().add)

    def _reads(self, inputs: Inputs, pairs: Pairs, values: Array) -> Reads:
        lists = Lists(pairs.ids, pairs.starts, inputs.rows, values if values.size else None)
        local = jnp.asarray(self.grid.local_pixels().T, values.dtype)
        return Reads(lists, local, inputs.rays)

    def _ray(self, tile: Array, reads: Reads) -> Ray:
        """Of one tile's pixels, inside a kernel; zero where none is read."""
        x, y = (origin.astype(reads.local.dtype) for origin in self.grid.origins(tile))
        pixel = Vec2(reads.local[0] + x, reads.local[1] + y)
        if reads.world is None:
            zero = jnp.zeros_like(pixel.x)
            return Ray(pixel, *(Vec3(zero, zero, zero),) * 2)
        return Ray(pixel, *jax.tree.map(lambda ref: ref[tile], reads.world))


class _Cotangents(NamedTuple):
    """As in `Asked`; None where there are no channels."""

    g: Any
    g_moving: Any
    behind: Any


def _rows(channels: Any, tile: Array) -> list[Array]:
    """The channels of one tile, [P] each."""
    return [] if channels is None else [channels[tile, i] for i in range(channels.shape[1])]


def why_not(request: Request) -> str | None:
    """The platform, sizes that do not fit a GPU, or a primitive that a kernel does not know."""
    kernel, size = request.settings.kernel, request.grid.tile_size
    reason = dialect(kernel).why_not(jax.default_backend(), size)
    if reason is None and request.features > MOST_FEATURES:
        reason = f"a program holds at most {MOST_FEATURES} features, not {request.features}."
    return reason or _unknown(request.anatomy, kernel, size, str(jnp.dtype(request.dtype)))


def composite(frame: Frame) -> Layers:
    """Blend the tiles' lists."""
    kernels = Kernels(frame.grid, frame.settings, frame.splats.blend, frame.anatomy)
    return tiled_composite(frame, kernels)


@functools.lru_cache
def _unknown(anatomy: Anatomy, kernel: Kernel, tile_size: int, dtype: str) -> str | None:
    """Try to lower a kernel that evaluates one splat, and its vjp, for this machine's GPU."""
    if kernel.dialect == "interpret":
        return None
    words, pixels, leaves = dialect(kernel), tile_size**2, sum(anatomy.read)

    def body(row: Any, lanes: Any, out: Any) -> None:
        x, y, *world = (lanes[i] for i in range(8))
        ray = Ray(Vec2(x, y), Vec3(*world[:3]), Vec3(*world[3:]))

        def respond(leaves: list[Array]) -> Any:
            return anatomy.respond(anatomy.unpack(leaves), ray)

        given = [jnp.broadcast_to(row[i], (pixels,)) for i in range(leaves)]
        hit, pull = words.vjp(respond, given)
        out[...] = sum(jax.tree.leaves(pull(hit)), start=x)

    def run(row: Array, lanes: Array) -> Array:
        shape = jax.ShapeDtypeStruct((pixels,), dtype)
        return words.call(body, 1, (row, lanes), shape, update=False)

    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((leaves,), (8, pixels))]
    version = jax.extend.backend.get_backend().platform_version
    target = "rocm" if "rocm" in version.lower() else "cuda"
    try:
        jax.jit(run).trace(*shapes).lower(lowering_platforms=(target,))
    except Exception as error:  # whatever the compiler says of the author's code
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return f"{kernel.dialect} cannot compile evaluate() ({told[:200]})."
    return None
