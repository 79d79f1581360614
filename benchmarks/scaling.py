"""Time and memory against the number of splats and of pixels.

    python -m benchmarks scaling [--splats 10000 ... 1000000] [--sizes 256 ... 1920x1080]
        [--plot FILE.png] [--out FILE.json]

Splats shrink as they grow in number, as in training. Every point is measured in a process of its
own, and is the minimum of the rounds. An exponent is the slope of a line through logarithms; memory
is fitted by a sum of shares, none negative, of the splats, of the reserved pairs, of the pixels and
of the process itself.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

import xpr
from benchmarks.alone import alone, peak_gb
from benchmarks.case import Choice, case
from benchmarks.results import Results, Row, add_out
from benchmarks.scaling_plot import save_plot
from benchmarks.timing import interleaved
from benchmarks.workloads import workload
from xpr.pipeline.bin import rectangles
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import survey
from xpr.types import Primitive, count

SPLATS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SIZES = ("256", "512", "1024", "1920x1080")
PASSES = ("forward", "both")  # columns end in _ms


def main(arguments: Sequence[str]) -> None:
    """Measure both series, fit them and draw them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling")
    parser.add_argument("--splats", type=int, nargs="+", default=SPLATS, help="at the middle size")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="with the middle number")
    parser.add_argument("--method", default="3dgs")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--tile-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    add_out(parser)
    options = parser.parse_args(arguments)
    choice = Choice(options.method, options.backend, options.tile_size)
    results = Results(options)
    size, n = options.sizes[1 % len(options.sizes)], options.splats[len(options.splats) // 2]
    measured: dict[str, Row] = {}
    for name in (*(f"{m}@{size}" for m in options.splats), *(f"{n}@{s}" for s in options.sizes)):
        if name not in measured:
            measured[name] = alone(point, name, choice, options.rounds)
            results.add([measured[name]])
    splats = [measured[f"{m}@{size}"] for m in options.splats]
    sizes = [measured[f"{n}@{s}"] for s in options.sizes]
    results.add(exponents({"splats": splats, "pixels": sizes}), "exponents")
    results.add(memory(list(measured.values())), "memory")
    if options.plot is not None:
        save_plot(options.plot, {"splats": splats, "pixels": sizes}, PASSES)


def point(name: str, choice: Choice, rounds: int) -> Row:
    """Times, sizes and memory of one case, in the process that does nothing else."""
    given = workload(name)
    ready = case(given, choice)
    times = interleaved(dict(zip(PASSES, (ready.forward, ready.both), strict=True)), rounds)
    peak, camera = peak_gb(), given.camera
    row = {"case": name, "splats": count(ready.scene), "pixels": camera.width * camera.height}
    row["pairs"] = int(pairs(ready.scene, camera, choice.tile_size))
    row["reserved_pairs"] = ready.capacity.intersections
    row |= {f"{word}_ms": round(float(np.min(t)), 2) for word, t in times.items()}
    return row | {"peak_memory_gb": round(peak, 3)}


@functools.partial(jax.jit, static_argnums=2)
def pairs(scene: Primitive, camera: xpr.Camera, tile_size: int) -> jax.Array:
    """(tile, splat) pairs of the image, [] int."""
    found = survey(scene, camera)
    grid = Grid(camera.width, camera.height, tile_size)
    return jnp.sum(rectangles(found.low, found.high, found.seen, grid).counts)


def exponents(series: dict[str, list[Row]]) -> list[Row]:
    """Slopes of the logarithm of the time along each series, against what grows in it."""
    fitted = []
    for name, rows in series.items():
        for against in (name, "pairs"):
            if len({row[against] for row in rows}) > 1:
                logs = np.log([[row[against], *(row[f"{p}_ms"] for p in PASSES)] for row in rows])
                slopes = np.polyfit(logs[:, 0], logs[:, 1:], 1)[0]
                words = {
                    f"{p}_exponent": round(float(k), 3) for p, k in zip(PASSES, slopes, strict=True)
                }
                fitted.append({"series": f"more {name}", "time against": against} | words)
    return fitted


def memory(rows: list[Row]) -> list[Row]:
    """Bytes a splat, a reserved pair and a pixel, and of the process itself."""
    kinds = ("splats", "reserved_pairs", "pixels")
    columns = np.array([[*(row[kind] for kind in kinds), 1] for row in rows], float)
    scale = columns.max(axis=0)
    bytes_ = np.array([row["peak_memory_gb"] for row in rows]) * 1e9
    shares = nnls(columns / scale, bytes_)[0] / scale
    off = float(np.max(np.abs(columns @ shares / bytes_ - 1)))
    names = ("bytes_a_splat", "bytes_a_pair", "bytes_a_pixel")
    fitted = {name: round(float(share), 1) for name, share in zip(names, shares, strict=False)}
    return [fitted | {"process_gb": round(float(shares[3]) / 1e9, 3), "worst_misfit": f"{off:.1%}"}]
