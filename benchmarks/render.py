"""Forward, and forward with the gradients of all parameters, on seeded scenes.

    python -m benchmarks render [--splats 10000 100000] [--size 256 512] [--tile-size 8 16]

Prints one JSON line a case: milliseconds (minimum and median of the repeats), (tile, splat) pairs
and the process's peak memory. Times on a shared machine drift: compare lines of one run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from benchmarks.workloads import cloud, view
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train.metrics import peak_memory

REPEATS = 7


def main(arguments: Sequence[str]) -> None:
    """Measure every combination that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks render")
    for name, default in (("splats", [10_000]), ("size", [256]), ("tile-size", [8, 16])):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    options = parser.parse_args(arguments)
    for line in cases(options.splats, options.size, options.tile_size):
        print(json.dumps(line), flush=True)


def cases(splats: list[int], sizes: list[int], tile_sizes: list[int]) -> Iterator[dict[str, Any]]:
    """One measured line for each combination."""
    for n in splats:
        for size in sizes:
            for tile_size in tile_sizes:
                settings = dataclasses.replace(xpr.Settings.for_this_machine(), tile_size=tile_size)
                case = {"splats": n, "size": size, "tile_size": tile_size}
                yield case | measure(cloud(n), view(size), settings)


def measure(scene: Gaussian3D, camera: xpr.Camera, settings: xpr.Settings) -> dict[str, Any]:
    """Times of one scene, in milliseconds."""
    capacity = xpr.plan(scene, camera, settings=settings)
    shape = (camera.height, camera.width, 3)
    target = jnp.asarray(np.random.default_rng(7).random(shape, np.float32))

    def image(scene: Gaussian3D) -> jax.Array:
        return xpr.render(scene, camera, capacity=capacity, settings=settings).color

    def loss(scene: Gaussian3D) -> jax.Array:
        return jnp.mean(jnp.abs(image(scene) - target))

    return {
        "forward_ms": clock(jax.jit(image), scene),
        "forward_backward_ms": clock(jax.jit(jax.value_and_grad(loss)), scene),
        "reserved_pairs": capacity.intersections,
        "peak_memory_gb": round(peak_memory() / 1e9, 3),
    }


def clock(f: Callable[[Gaussian3D], Any], scene: Gaussian3D) -> dict[str, float]:
    """Minimum and median time of a compiled function."""
    jax.block_until_ready(f(scene))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(f(scene))
        times.append(1e3 * (time.perf_counter() - start))
    return {"min": round(min(times), 2), "median": round(float(np.median(times)), 2)}
