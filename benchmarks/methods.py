"""The methods against each other: the same photos, budget and steps; scores and one held-out view.

    python -m benchmarks methods DATA --out FOLDER [--methods 3dgs linprim ...] [--steps 3000]

Prints one JSON line a method and writes them to FOLDER/methods.jsonl, beside the runs themselves and
FOLDER/methods.png. The picture shows your photos: mind their licence before you pass it on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.workloads import METHODS
from xpr.data import Dataset, load
from xpr.train.config import TrainConfig
from xpr.train.evaluate import evaluate
from xpr.train.fit import Result, fit

Pictures = dict[str, np.ndarray]


def main(arguments: Sequence[str]) -> None:
    """Train every method, print its line and draw the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks methods")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    for name, default in (("steps", 3000), ("cap", 10_000), ("downscale", 1), ("view", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    dataset = load(options.data, downscale=options.downscale)
    options.out.mkdir(parents=True, exist_ok=True)
    pictures: Pictures = {}
    with (options.out / "methods.jsonl").open("a") as lines:
        for method in options.methods:
            config = TrainConfig(
                method=method,
                steps=options.steps,
                cap=options.cap,
                downscale=options.downscale,
                data=str(options.data.resolve()),
            )
            result = fit(dataset, config, out=options.out / Path(method).stem)
            line = json.dumps(summary(options.data.name, config, result))
            print(line, flush=True)
            lines.write(line + "\n")
            title = f"{Path(method).stem}\n{result.evaluation.psnr:.2f} dB"
            truth, pictures[title] = seen(result, dataset, options.view)
            draw({"photo": truth, **pictures}, options.out / "methods.png")


def summary(data: str, config: TrainConfig, result: Result) -> dict[str, Any]:
    """What one run came to."""
    scores = result.evaluation
    return {
        "data": data,
        "resolution": scores.resolution,
        "split": scores.split,
        "method": config.method,
        "steps": result.step,
        "psnr": round(scores.psnr, 2),
        "ssim": round(scores.ssim, 4),
        "splats": scores.splats,
        "seconds": round(result.seconds, 1),
        "peak_memory_gb": round(result.peak_memory / 1e9, 2),
    }


def seen(result: Result, dataset: Dataset, view: int) -> tuple[np.ndarray, np.ndarray]:
    """The photo of one held-out view and its rendering, uint8 [H, W, 3]."""
    shown: list[tuple[np.ndarray, np.ndarray]] = []
    evaluate(
        jax.device_put(result.scene),
        dataset,
        show=lambda _, truth, picture: shown.append((truth, picture)),
    )
    return shown[view]


def draw(pictures: Pictures, path: Path) -> None:
    """Pictures of one size in a row, each under its title."""
    height, width = next(iter(pictures.values())).shape[:2]
    figure = Figure(figsize=(2.4 * len(pictures), 2.4 * height / width + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, picture) in zip(
        np.ravel(figure.subplots(1, len(pictures))), pictures.items(), strict=True
    ):
        axes.imshow(picture)
        axes.set_title(title, fontsize=9)
        axes.axis("off")
    figure.savefig(path, dpi=160)
