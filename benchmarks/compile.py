"""Time to the first image and to the first training step, with nothing compiled yet and cached.

    python -m benchmarks compile [WORKLOAD ...] [--data FOLDER] [--downscale 1] [--cap 10000]

Each number comes from a new process and counts from its start, imports included. The first process
finds an empty folder for compiled programs, the second what the first one left there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax

from benchmarks.alone import alone, peak_gb
from benchmarks.case import Choice, case
from benchmarks.results import Results, Row, add_out
from benchmarks.workloads import workload
from xpr import cache, methods
from xpr.data import load
from xpr.train.config import TrainConfig
from xpr.train.trainer import Trainer

Measured = Callable[..., dict[str, float]]


def main(arguments: Sequence[str]) -> None:
    """Start two processes for each row pair."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compile")
    parser.add_argument("workloads", nargs="*", default=["10000@256"])
    parser.add_argument("--methods", nargs="+", default=["3dgs"])
    parser.add_argument("--backends", nargs="+", default=["cpu", "xla"])
    parser.add_argument("--data", type=Path, help="photos, for the first training step")
    parser.add_argument("--cap", type=int, default=10_000)
    parser.add_argument("--downscale", type=int, default=1)
    add_out(parser)
    options = parser.parse_args(arguments)
    results = Results(options)
    for method in options.methods:
        for backend in options.backends:
            choice = Choice(method, backend, 16)
            for name in options.workloads:
                results.add(twice(f"image of {Path(name).stem}", choice, first_image, name))
        if options.data is not None:
            config = TrainConfig(method=method, cap=options.cap, downscale=options.downscale)
            what = f"training step on {options.data.name}"
            choice = Choice(method, "auto", 0)
            results.add(twice(what, choice, first_step, options.data, config))


def kept_in(folder: str) -> dict[str, str]:
    """The variable that makes a process keep what it compiles in a folder."""
    return {"XPR_CACHE": folder}


def twice(what: str, choice: Choice, measured: Measured, *given: object) -> Iterator[Row]:
    """The row of a process that finds nothing compiled, and of one that finds everything."""
    named = {"until": what, "method": choice.method, "backend": choice.backend}
    with tempfile.TemporaryDirectory() as folder:
        for state in ("empty", "filled"):
            row = alone(measured, time.time(), choice, *given, environment=kept_in(folder))
            yield named | {"cache": state} | row


def first_image(started: float, choice: Choice, name: str) -> dict[str, float]:
    """Seconds since `started` until the image is there, and those of its parts."""
    imported = time.time()
    cache.turn_on()
    ready = case(workload(name), choice)
    prepared = time.time()
    jax.block_until_ready(ready.forward())
    shown = time.time()
    jax.block_until_ready(ready.both())
    return spans(started, imported, prepared, shown) | {
        "gradients_s": round(time.time() - shown, 2)
    }


def first_step(started: float, choice: Choice, data: Path, config: TrainConfig) -> dict[str, float]:
    """Seconds since `started` until the first step is done, and those of its parts."""
    imported = time.time()
    cache.turn_on()
    trainer = Trainer(load(data, downscale=config.downscale), methods.load(choice.method), config)
    try:
        prepared = time.time()
        jax.block_until_ready(trainer.advance())
        return spans(started, imported, prepared, time.time())
    finally:
        trainer.close()


def spans(started: float, imported: float, prepared: float, done: float) -> dict[str, float]:
    """Seconds, as columns of a row."""
    parts = {
        "whole_s": done - started,
        "imports_s": imported - started,
        "prepare_s": prepared - imported,
        "first_s": done - prepared,
    }
    return {name: round(seconds, 2) for name, seconds in parts.items()} | {
        "peak_memory_gb": round(peak_gb(), 2)
    }
