"""The loss curve as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpr.files import atomic_write


def save_curve(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw loss and PSNR over the steps.

    Args:
      lines: of metrics.jsonl; each has step, loss and psnr.
      path: of the PNG.
    """
    # Importing it takes longer than a step: it waits until there is something to draw.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.add_subplot()
    right = left.twinx()
    steps = [line["step"] for line in lines]
    left.plot(steps, [line["loss"] for line in lines], color="tab:blue", linewidth=1)
    right.plot(steps, [line["psnr"] for line in lines], color="tab:orange", linewidth=1)
    left.set(xlabel="step", ylabel="loss (blue)")
    right.set(ylabel="PSNR of the training views, dB (orange)")
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=120)
