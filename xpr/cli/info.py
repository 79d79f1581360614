"""`xpr info`: what a dataset or a splat file holds, and what is odd about it."""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
import tyro

from xpr import io
from xpr.cli.sources import existing, kinds, method_of, splat_file
from xpr.errors import UserError
from xpr.io.scenes import read_own
from xpr.types import Primitive, count

if TYPE_CHECKING:
    from xpr.data import Dataset

Facts = list[tuple[str, str]]

QUANTILES = (1, 50, 99)  # per cent
PERCENTS = "{} at " + " | ".join(f"{q} %" for q in QUANTILES)
INVISIBLE = 1 / 255  # opacity below which a splat changes no 8-bit pixel
NEEDLE = 100  # longest over second longest axis


@dataclasses.dataclass
class Info:
    """Tell what a dataset or a splat file holds, and what is odd about it."""

    path: tyro.conf.Positional[Path]
    """A dataset, a run folder or a splat file."""

    def run(self) -> None:
        """Print the tables."""
        path = existing(self.path)
        file = splat_file(path)
        if file is not None:
            own = read_own(file, method_of(path))
            if own is not None:
                _show(str(file), scene_facts(own), [])
                return
            table = io.read(file)
            _show(str(file), splat_facts(table), splat_oddities(table))
            return
        if path.is_file() and path.suffix.lower() != ".json":
            raise UserError(f"{path} is a file of another kind, expected {kinds()}.")
        from xpr import data

        dataset = data.load(path)
        _show(str(path), dataset_facts(dataset), list(dataset.notes))


def splat_facts(table: io.SplatTable) -> Facts:
    """Counts, size, and how opacity and scale are distributed."""
    facts = [("splats", f"{len(table):,}"), ("colour", f"SH degree {table.sh_degree}")]
    facts.append(("opacity mode", "antialiased (mip)" if table.antialiased else "classic"))
    if len(table) == 0:
        return facts
    low, high = table.mean.min(axis=0), table.mean.max(axis=0)
    inner = np.percentile(table.mean, QUANTILES[::2], axis=0)
    return [
        *facts,
        ("bounding box", f"{_vector(low)} to {_vector(high)}"),
        ("98 % of it", f"{_vector(inner[0])} to {_vector(inner[1])}"),
        (PERCENTS.format("opacity"), _quantiles(table.opacity)),
        (PERCENTS.format("scale"), _quantiles(np.exp(table.log_scale))),
    ]


def scene_facts(scene: Primitive) -> Facts:
    """The same of a scene of another method, by what its primitives say of themselves."""
    facts = [("method", type(scene).__name__), ("primitives", f"{count(scene):,}")]
    if not count(scene):
        return facts
    mass = jax.vmap(lambda one: one.mass())(scene)
    return [
        *facts,
        ("98 % of it", _box(np.asarray(getattr(scene, scene.position_field)))),
        (PERCENTS.format("opacity"), _quantiles(np.asarray(mass.opacity))),
        (PERCENTS.format("scale"), _quantiles(np.asarray(mass.scale))),
    ]


def splat_oddities(table: io.SplatTable) -> list[str]:
    """What the reader noted, and what a renderer will hardly show."""
    box = np.percentile(table.mean, QUANTILES[::2], axis=0) if len(table) else np.zeros((2, 3))
    scale = np.sort(np.exp(table.log_scale), axis=1)
    counts = {
        "are nearly invisible (opacity below 1/255)": table.opacity < INVISIBLE,
        "are larger than the scene": scale[:, 2] > np.linalg.norm(box[1] - box[0]),
        f"are needles (one axis {NEEDLE} times the others)": scale[:, 2] > NEEDLE * scale[:, 1],
        "have a zero quaternion (read as no rotation)": ~table.quat.any(axis=1),
    }
    told = [
        f"{np.sum(odd):,} splats ({np.mean(odd):.1%}) {words}"
        for words, odd in counts.items()
        if odd.any()
    ]
    return [*table.notes, *told]


def dataset_facts(dataset: Dataset) -> Facts:
    """Counts, the split, and the kinds of cameras."""
    models = collections.Counter(
        (f"{v.camera.width} x {v.camera.height}", type(v.camera.lens).__name__)
        for v in dataset.views
    )
    focal = np.array([[v.camera.K[0, 0], v.camera.K[1, 1]] for v in dataset.views])
    points = dataset.points
    return [
        ("format", dataset.format),
        ("views", f"{len(dataset.views):,} from {dataset.image_source}"),
        ("split", f"{len(dataset.train):,} train, {len(dataset.test):,} test: {dataset.split}"),
        *((f"{n:,} cameras", f"{size} px, {lens}") for (size, lens), n in models.most_common()),
        ("focal lengths", f"{focal.min():.1f} to {focal.max():.1f} px"),
        ("points", "none" if points is None else f"{len(points.positions):,}"),
        *([] if points is None else [("98 % of them", _box(points.positions))]),
        ("extent", f"{dataset.extent:.4g} world units"),
    ]


def _box(points: np.ndarray) -> str:
    low, high = np.percentile(points, QUANTILES[::2], axis=0)
    return f"{_vector(low)} to {_vector(high)}"


def _vector(v: np.ndarray) -> str:
    return "(" + ", ".join(f"{x:.3g}" for x in v) + ")"


def _quantiles(values: np.ndarray) -> str:
    return " | ".join(f"{x:.3g}" for x in np.percentile(values, QUANTILES))


def _show(title: str, facts: Facts, oddities: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(Text(name, style="bold"), Text(value))
    console.print(Text(title, style="bold cyan"), soft_wrap=True)
    console.print(grid)
    for odd in oddities:
        console.print(Text("! ", style="yellow") + Text(odd), soft_wrap=True)
