"""How many atomic additions each way to accumulate gradients issues on a GPU.

    python -m benchmarks atomics garden.npz RUN [--threshold 1 8 32]

The kernels run interpreted, and count what they would add instead of adding it. So "reduced" with a
threshold of 1 counts the pairs that show at all, and "atomics" their pixels.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from benchmarks.workloads import Workload, load
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.backends import interpret
from xpr.pipeline.order import project
from xpr.pipeline.settings import Kernel
from xpr.types import Array, Primitive, count

TILE_SIZE = 16  # px, as on GPUs
COLOR = 3  # channels of a photo's loss


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks atomics")
    parser.add_argument("workloads", type=Path, nargs="+", help=".npz files or run folders")
    parser.add_argument("--threshold", type=int, nargs="+", default=[1, 8, 32])
    options = parser.parse_args(arguments)
    kernels = [Kernel("interpret", "atomics")]
    kernels += [Kernel("interpret", "reduced", threshold) for threshold in options.threshold]
    print("| workload | mode | additions a parameter | parameters | additions | of atomics |")
    print("|---|---|---|---|---|---|")
    for workload in map(load, options.workloads):
        width, baseline = parameters(workload), None
        for kernel in kernels:
            single = additions(workload, kernel)
            baseline = baseline or single
            share = f"{100 * single / baseline:.2f} %"
            mode = kernel.accumulate
            mode += f", threshold {kernel.threshold}" if mode == "reduced" else ""
            cells = (workload.name, mode, f"{single:,}", width, f"{width * single:,}", share)
            print("|", " | ".join(map(str, cells)), "|", flush=True)
        print(
            "|", " | ".join((workload.name, "rows", "0", str(width), "0", "0 %")), "|", flush=True
        )


def parameters(workload: Workload) -> int:
    """Numbers of one splat that a photo's loss has gradients of."""
    first = jax.tree.map(lambda leaf: leaf[:1], workload.scene)
    parts = anatomy(project(first, workload.camera).splat)
    varying = sum(leaf is None for leaf in parts.constant[:COLOR])
    return sum(parts.read) + COLOR - varying


def additions(workload: Workload, kernel: Kernel) -> int:
    """Atomic additions to each parameter, over all splats: each pair adds to all of them alike.

    The one parameter looked at is a feature, whose gradient comes back as the kernel leaves it.
    """
    settings = xpr.Settings(tile_size=TILE_SIZE, kernel=kernel)
    capacity = xpr.plan(workload.scene, workload.camera, settings=settings)

    def total(features: Array, scene: Primitive) -> Array:
        output = xpr.render(
            scene,
            workload.camera,
            capacity=capacity,
            features=features,
            backend="pallas",
            settings=settings,
        )
        return jnp.sum(output.features)

    with mock.patch.object(interpret.Words, "add", _count):
        counts = jax.jit(jax.grad(total))(jnp.zeros((count(workload.scene), 1)), workload.scene)
    return int(np.sum(np.asarray(counts, np.float64)))


def _count(words: Any, ref: Any, index: tuple, value: Array, mask: Array | None) -> None:
    del words, value
    ref[index] += 1.0 if mask is None else jnp.sum(mask.astype(ref.dtype))
