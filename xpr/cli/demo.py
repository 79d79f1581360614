"""`xpr demo`: a world made here, trained on and rendered, with no data at hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import xpr
from xpr import data, io, paths
from xpr.cli.render import film
from xpr.cli.sources import SPLATS
from xpr.media import contact_sheet, save_png, side_by_side, write_video
from xpr.world import write_dataset

CAP = 10_000  # splats
TURN = 120  # frames of the turntable video


@dataclasses.dataclass
class Demo:
    """Make a small world, train on it and show the result. Takes about two minutes."""

    out: Path = Path("xpr-demo")
    """Where everything goes: the photographs, the run, pictures and a video."""
    steps: int = 800
    """Training steps."""
    seed: int = 0
    """Of the cameras and of the training."""

    def run(self) -> None:
        """Ray-trace, train, compare, film.

        Raises:
          UserError: settings that cannot be, or a folder with an earlier demo; nothing is written.
        """
        from xpr.cli.train import Train
        from xpr.train.config import TrainConfig
        from xpr.train.folder import RunFolder

        run = self.out / "run"
        TrainConfig(steps=self.steps, seed=self.seed).check()
        RunFolder(run).check_free()
        print("ray-tracing 40 photographs of the demo's world")
        photos = write_dataset(self.out / "data", seed=self.seed)
        Train(data=photos, out=run, steps=self.steps, cap=CAP, seed=self.seed).run()
        scene, dataset = io.load(run / SPLATS), data.load(photos)
        show_held_out(scene, dataset, self.out / "held_out.png")
        cameras = paths.orbit([view.camera for view in dataset.views], TURN)
        write_video(self.out / "turntable.mp4", film(scene, cameras, jnp.zeros(3)))
        for path in (run / SPLATS, self.out / "held_out.png", self.out / "turntable.mp4"):
            print(path)


def show_held_out(scene: xpr.Primitive, dataset: data.Dataset, path: Path) -> None:
    """Write the held-out views as rows of truth | render | error map."""
    views = [dataset.views[i] for i in dataset.test]
    renders = film(scene, [view.camera for view in views], jnp.zeros(3))
    rows = [
        [side_by_side(view.image()[..., :3], np.asarray(render))]
        for view, render in zip(views, renders, strict=True)
    ]
    save_png(path, contact_sheet(rows))
