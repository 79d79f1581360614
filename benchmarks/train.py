"""Steps per second of the whole trainer: input, loss, optimiser and density control counted.

    python -m benchmarks train DATA [--downscale 1] [--cap 10000] [--steps 2000] [--method 3dgs]

The rate that counts is that of the last quarter of the run, when all splats are there; its first
steps also compile.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.results import Results, Row, add_out
from xpr.data import load
from xpr.train.config import TrainConfig
from xpr.train.fit import Progress, fit


def main(arguments: Sequence[str]) -> None:
    """Train, and print one row a dataset."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks train")
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--method", default="3dgs")
    for name, default in (("steps", 2000), ("cap", 10_000), ("downscale", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    add_out(parser)
    options = parser.parse_args(arguments)
    results = Results(options)
    for path in options.data:
        config = TrainConfig(
            method=options.method,
            steps=options.steps,
            cap=options.cap,
            downscale=options.downscale,
        )
        results.add([row(path, config)])


def row(path: Path, config: TrainConfig) -> Row:
    """What one run cost. No files are written."""
    reports: list[Progress] = []
    result = fit(load(path, downscale=config.downscale), config, progress=reports.append)
    late = [p.steps_per_second for p in reports if p.step > 0.75 * config.steps]
    return {
        "data": path.name,
        "resolution": result.evaluation.resolution,
        "method": config.method,
        "splats": result.evaluation.splats,
        "steps": result.step,
        "late_steps_per_s": round(float(np.median(late)), 1),
        "slowest_late": round(min(late), 1),
        "all_steps_per_s": round(result.step / result.seconds, 1),
        "waiting_for_input": f"{100 * result.waiting:.1f} %",
        "compilations": result.compilations,
        "psnr": round(result.evaluation.psnr, 2),
        "peak_memory_gb": round(result.peak_memory / 1e9, 2),
    }
