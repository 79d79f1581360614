"""xpr eval: the scores of a finished run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console


@dataclasses.dataclass
class Eval:
    """Score the splats of a run on its held-out photos: PSNR and SSIM by view and mean."""

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the run, as `xpr train` wrote it."""
    fit_poses: int = 0
    """Steps that fit the pose of each photo to the scene, for a second score beside the first."""

    def run(self) -> None:
        """Print the table, and write it to eval.json in the folder.

        Raises:
          UserError: a number of steps that cannot be.
          DataError: no finished run.
        """
        from xpr import io, methods
        from xpr.cli.train import scores
        from xpr.data import load
        from xpr.errors import DataError, UserError
        from xpr.train import refined
        from xpr.train.config import TrainConfig
        from xpr.train.evaluate import evaluate
        from xpr.train.folder import RunFolder

        if self.fit_poses < 0:
            raise UserError(f"--fit-poses is {self.fit_poses}, expected a number of steps, or 0.")
        folder = RunFolder(self.folder)
        config = TrainConfig.load(folder.config)
        if not folder.splats.exists():
            raise DataError(
                f"{self.folder} has no point_cloud.ply, expected a run that reached its end. "
                f"Finish it with: xpr train --resume {self.folder}"
            )
        dataset = refined.load(load(Path(config.data), downscale=config.downscale), folder.cameras)
        scene = io.load(folder.splats, methods.load(config.method))
        evaluation = evaluate(scene, dataset, fit_poses=self.fit_poses)
        folder.scored(evaluation.summary())
        Console().print(scores(evaluation))
