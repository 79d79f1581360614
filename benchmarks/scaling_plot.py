"""Measured times against what grows, with the lines fitted to their logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.results import Row
from xpr.files import atomic_write


def save_plot(path: Path, series: dict[str, list[Row]], passes: Sequence[str]) -> None:
    """One panel a series, both axes logarithmic, one line a pass."""
    figure = Figure(figsize=(4.5 * len(series), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.ravel(figure.subplots(1, len(series), sharey=True))
    for axes, (name, rows) in zip(panels, series.items(), strict=True):
        grown = np.array([row[name] for row in rows], float)
        for word in passes:
            times = np.array([row[f"{word}_ms"] for row in rows])
            (dots,) = axes.loglog(grown, times, "o")
            if len(set(grown)) > 1:
                slope, height = np.polyfit(np.log(grown), np.log(times), 1)
                line = np.exp(height) * grown**slope
                axes.loglog(grown, line, color=dots.get_color(), label=f"{word}: {slope:.2f}")
        axes.set_xlabel(name)
        axes.legend(title="exponent")
    panels[0].set_ylabel("ms")
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=160)
