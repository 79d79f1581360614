"""Every backend and every way to accumulate gradients, on a GPU that is lent for minutes.

    python -m benchmarks gpu [--workloads garden.npz] [--seconds 450] [--json gpu.json] [--rehearse]

Forward, and forward with the gradients of all parameters, method x workload, in one table. Each
configuration runs in a process of its own, so that one which crashes costs no other its numbers, and
compiles all it needs side by side. What the time did not suffice for is listed as such. Losses and
gradients (along a random direction) are compared with those of `xla`. --rehearse runs the kernels
interpreted, on tiny scenes, to try the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from benchmarks.workloads import Workload, as_method, cloud, load, view

METHODS = ("3dgs", "3dgut", "linprim", "linprim-tetrahedron")
SEEDED = ((100_000, 512), (10_000, 256), (500_000, 1024))  # splats, px
TINY = ((60, 32),)
# The safest first: each is a process, and the first gives what the others are compared with.
CONFIGURATIONS = {
    "xla": ("xla", xpr.Kernel()),
    "triton rows": ("pallas", xpr.Kernel("triton", "rows")),
    "triton reduced": ("pallas", xpr.Kernel("triton", "reduced")),
    "triton atomics": ("pallas", xpr.Kernel("triton", "atomics")),
    "mosaic rows": ("pallas", xpr.Kernel("mosaic", "rows")),
}
REPEATS, LONGEST = 10, 1000  # calls, ms


class Job(NamedTuple):
    """One method on one workload, compiled.

    Attributes:
      line: what is known of it.
      scene: its primitives.
      forward: of the scene, to an image.
      both: of the scene, to the loss and its gradient.
      seconds: that compiling took.
    """

    line: dict[str, Any]
    scene: Any
    forward: Callable[[Any], Any]
    both: Callable[[Any], Any]
    seconds: float


def main(arguments: Sequence[str]) -> None:
    """Run every configuration and print the table; or one of them, for the process that does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu")
    parser.add_argument("--workloads", type=Path, nargs="*", default=[], help=".npz or run folders")
    parser.add_argument("--seconds", type=float, default=450, help="for all, compiling included")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"))
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--only", choices=CONFIGURATIONS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        for line in configuration(options):
            print(json.dumps(line), flush=True)
    else:
        everything(options)


def everything(options: argparse.Namespace) -> None:
    """One process after the other; each may use its share of the time that is left."""
    start, lines = time.monotonic(), []
    print("| configuration | method | workload | forward ms | both ms | compile s | against xla |")
    print("|---|---|---|---|---|---|---|")
    for i, name in enumerate(CONFIGURATIONS):
        left = options.seconds - (time.monotonic() - start)
        found = list(_child(name, options, max(left, 0) / (len(CONFIGURATIONS) - i)))
        lines += [{"configuration": name} | line for line in found]
        for line in lines[-len(found) :]:
            line["against_xla"] = _difference(line, lines)
            print(_row(line), flush=True)
        options.json.write_text(json.dumps({"machine": _host(), "results": lines}, indent=1))


def _child(name: str, options: argparse.Namespace, left: float) -> Iterator[dict[str, Any]]:
    """The lines of one configuration's process, and how it ended if it did not end well."""
    command = [sys.executable, "-m", "benchmarks", "gpu", "--only", name, "--seconds", str(left)]
    command += ["--workloads", *map(str, options.workloads)]
    command += ["--rehearse"] if options.rehearse else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left + 15)
        output, problem = done.stdout, done.stderr.strip().splitlines()[-1:] or ["crashed"]
        problem = problem if done.returncode else []
    except subprocess.TimeoutExpired as late:
        output, problem = late.stdout or b"", ["out of time"]
        output = output if isinstance(output, str) else output.decode()
    yield from (json.loads(line) for line in output.splitlines())
    yield from ({"problem": words} for words in problem)


def configuration(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure one configuration: compile everything side by side, then run one after the other."""
    end = time.monotonic() + options.seconds
    backend, kernel = CONFIGURATIONS[options.only]
    if options.rehearse and backend == "pallas":
        kernel = xpr.Kernel("interpret", kernel.accumulate)
    settings = xpr.Settings(tile_size=16, batch=256, kernel=kernel)
    workloads = [load(path) for path in options.workloads]
    for n, size in TINY if options.rehearse else SEEDED:
        workloads.append(Workload(f"{n} splats, {size} px", cloud(n), view(size)))
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
    jobs: list[tuple[dict[str, Any], Future[Job]]] = []
    for workload in workloads:
        for method in METHODS:
            line = {"method": method, "workload": workload.name, "device": _device()}
            jobs.append((line, pool.submit(_compiled, line, workload, backend, settings)))
    for line, job in jobs:
        try:
            yield measured(job.result(timeout=max(end - time.monotonic(), 0)))
        except TimeoutError:
            yield line | {"problem": "out of time"}
        except Exception as error:  # a kernel may fail in any way; the others go on
            yield line | {"problem": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    pool.shutdown(wait=False, cancel_futures=True)


def _compiled(line: dict, workload: Workload, backend: str, settings: xpr.Settings) -> Job:
    """Both functions of one method on one workload."""
    scene = as_method(workload.scene, line["method"])
    camera = workload.camera
    capacity = xpr.plan(scene, camera, settings=settings)
    shape = (camera.height, camera.width, 3)
    target = jnp.asarray(np.random.default_rng(7).random(shape, np.float32))

    def image(scene: Any) -> jax.Array:
        chosen = {"capacity": capacity, "backend": backend, "settings": settings}
        return xpr.render(scene, camera, **chosen).color

    def loss(scene: Any) -> jax.Array:
        return jnp.mean(jnp.abs(image(scene) - target))

    start = time.monotonic()
    forward = jax.jit(image).lower(scene).compile()
    both = jax.jit(jax.value_and_grad(loss)).lower(scene).compile()
    seconds = time.monotonic() - start
    return Job(line | {"pairs": capacity.intersections}, scene, forward, both, seconds)


def measured(job: Job) -> dict[str, Any]:
    """Times, and what the gradient is along a seeded direction."""
    loss, gradient = job.both(job.scene)
    random = np.random.default_rng(0)
    slopes = {
        jax.tree_util.keystr(path): float(np.sum(random.normal(size=leaf.shape) * np.asarray(leaf)))
        for path, leaf in jax.tree_util.tree_flatten_with_path(gradient)[0]
    }
    again = jax.tree.leaves(job.both(job.scene)[1])
    same = all(map(np.array_equal, jax.tree.leaves(gradient), again))
    return job.line | {
        "compile_s": round(job.seconds, 2),
        "forward_ms": _clock(job.forward, job.scene),
        "both_ms": _clock(job.both, job.scene),
        "loss": float(loss),
        "slopes": slopes,
        "same_bits_twice": same,
        "peak_memory_gb": _peak(),
    }


def _clock(function: Callable[[Any], Any], scene: Any) -> dict[str, float]:
    """Minimum and median time of a compiled function, of a few calls or as long as one may take."""
    jax.block_until_ready(function(scene))
    times = []
    while len(times) < REPEATS and sum(times) < LONGEST:
        start = time.perf_counter()
        jax.block_until_ready(function(scene))
        times.append(1e3 * (time.perf_counter() - start))
    return {"min": round(min(times), 3), "median": round(float(np.median(times)), 3)}


def _difference(line: dict[str, Any], lines: list[dict[str, Any]]) -> float | None:
    """The largest relative difference of loss and slopes to those of `xla`."""
    alike = [
        other
        for other in lines
        if other["configuration"] == "xla"
        and all(other.get(key) == line.get(key) for key in ("method", "workload"))
    ]
    if not alike or "slopes" not in line or "slopes" not in alike[0]:
        return None
    ours, theirs = ({"loss": x["loss"]} | x["slopes"] for x in (line, alike[0]))
    return max(abs(ours[k] - theirs[k]) / max(abs(theirs[k]), 1e-12) for k in theirs)


def _row(line: dict[str, Any]) -> str:
    head = [line["configuration"], line.get("method", ""), line.get("workload", "")]
    if "problem" in line:
        return "| " + " | ".join([*head, line["problem"]]) + " |"
    times = [f"{line[key]['min']:.2f}" for key in ("forward_ms", "both_ms")]
    rest = [f"{line['compile_s']:.1f}", f"{line['against_xla'] or 0:.1e}"]
    return "| " + " | ".join([*head, *times, *rest]) + " |"


def _host() -> dict[str, str]:
    versions = {name: sys.modules[name].__version__ for name in ("jax", "jaxlib", "numpy")}
    return {"python": platform.python_version(), "system": platform.platform(), **versions}


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.device_kind} ({jax.default_backend()})"


def _peak() -> float | None:
    """GB held on the device at most so far, where it tells."""
    held = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return None if held is None else round(held / 1e9, 3)
