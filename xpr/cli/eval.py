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

    def run(self) -> None:
        """Print the table."""
        from xpr import io, methods
        from xpr.cli.train import scores
        from xpr.data import load
        from xpr.errors import DataError
        from xpr.train import refined
        from xpr.train.config import TrainConfig
        from xpr.train.evaluate import evaluate
        from xpr.train.folder import RunFolder

        folder = RunFolder(self.folder)
        config = TrainConfig.load(folder.config)
        if not folder.splats.exists():
            raise DataError(
                f"{self.folder} has no point_cloud.ply, expected a run that reached its end. "
                f"Finish it with: xpr train --resume {self.folder}"
            )
        dataset = refined.load(load(Path(config.data), downscale=config.downscale), folder.cameras)
        scene = io.load(folder.splats, methods.load(config.method))
        Console().print(scores(evaluate(scene, dataset)))
