"""Forward, and forward with the gradients of all parameters, on seeded scenes.

    python -m benchmarks [--splats 10000 100000] [--size 256 512] [--tile-size 8 16]

Prints one JSON line a case: milliseconds (minimum and median of the repeats), (tile, splat) pairs
and the process's peak memory. Times on a shared machine drift: compare lines of one run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train.metrics import peak_memory

REPEATS = 7


def main() -> None:
    """Measure every combination that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    for name, default in (("splats", [10_000]), ("size", [256]), ("tile-size", [8, 16])):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    options = parser.parse_args()
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


def cloud(n: int) -> Gaussian3D:
    """Anisotropic Gaussians in a unit cube, small enough to be many and large enough to overlap."""
    random = np.random.default_rng(n)
    scale = np.exp(random.uniform(np.log(0.01), np.log(0.03), (n, 1)))
    scale = scale * np.exp(random.normal(0, 0.5, (n, 3)))
    fields = {
        "mean": random.uniform(-0.5, 0.5, (n, 3)),
        "quat": random.standard_normal((n, 4)),
        "log_scale": np.log(scale),
        "logit_opacity": random.normal(0, 1.5, n),
        "sh0": random.uniform(-1.7, 1.7, (n, 1, 3)),
        "shN": random.normal(0, 0.08, (n, 15, 3)),
    }
    return Gaussian3D(**{name: jnp.asarray(x, jnp.float32) for name, x in fields.items()})


def view(size: int) -> xpr.Camera:
    """A square picture of the cube, 50 degrees wide, from 1.4 away."""
    focal = 0.5 * size / np.tan(np.radians(25))
    K = jnp.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]], jnp.float32)
    viewmat = jnp.eye(4).at[2, 3].set(1.4)
    return xpr.Camera(viewmat, K, width=size, height=size)


if __name__ == "__main__":
    main()
