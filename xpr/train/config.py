"""What a training run is told."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from xpr.errors import DataError, UserError
from xpr.files import atomic_write
from xpr.io.contents import told
from xpr.train.refine import parts_of

FULL_RUN = 30_000  # steps: the length for which the published schedules are written
LARGEST = 2**31 - 1  # of whole numbers: the compiled step counts in int32
VERSION = 1  # of the run folder; raised when an older one cannot be continued

COUNTS = ("steps", "cap", "downscale", "batch", "random_points", "log_every", "save_every")
WEIGHTS = (
    "ssim_weight",
    "min_opacity",
    "opacity_penalty",
    "scale_penalty",
    "noise",
    "camera_reach",
)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of a run. Every schedule is a fraction of `steps`, wherever the run stops.

    Attributes:
      method: what `xpr.methods.load` takes.
      steps: of the whole run.
      cap: the fixed budget of splats.
      seed: of the initialisation, the order of the views, backgrounds and noise.
      downscale: by how much the photos are reduced.
      data: the dataset, as given on the command line; "" when the caller holds it in memory.
      sh_degree: of the colour, 0 to 4.
      batch: views a step; all rates grow with its square root.
      ssim_weight: of 1 - SSIM in the loss, the rest is L1.
      min_opacity: at or below it a splat is dead and is relocated. It does not prune the file.
      opacity_penalty: weight of the mean opacity in the loss.
      scale_penalty: weight of the mean standard deviation, in units of the extent, in the loss.
      noise: of the positions: 5e5 times the means' rate of 1.6e-4, in units of the extent.
      optimize: what of the cameras is refined, "poses,intrinsics,distortion" or some of them; ""
        leaves them as they are.
      camera_reach: how far each number of a correction can carry the picture over the whole run,
        root mean square, in its longer side.
      random_points: how many to start from where the dataset has none.
      log_every: steps between two lines of metrics.
      save_every: steps between two checkpoints.
    """

    method: str = "3dgs"
    steps: int = 7_000
    cap: int = 20_000
    seed: int = 0
    downscale: int = 1
    data: str = ""
    sh_degree: int = 3
    batch: int = 1
    ssim_weight: float = 0.2
    min_opacity: float = 0.005
    opacity_penalty: float = 0.01
    scale_penalty: float = 0.01
    noise: float = 80.0
    optimize: str = ""
    camera_reach: float = 0.012
    random_points: int = 10_000
    log_every: int = 20
    save_every: int = 500

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
          UserError: naming the setting, its value and what it may be.
        """
        for name in COUNTS:
            _within(name, getattr(self, name), 1, LARGEST)
        for name in WEIGHTS:
            _within(name, getattr(self, name), 0, math.inf)
        _within("seed", self.seed, 0, LARGEST)
        _within("ssim_weight", self.ssim_weight, 0, 1)
        parts_of(self.optimize)
        if not 0 <= self.sh_degree <= 4:
            raise UserError(f"sh_degree is {self.sh_degree}, expected 0, 1, 2, 3 or 4.")

    def save(self, path: Path) -> None:
        """Write the settings as JSON."""
        settings = {"version": VERSION, **dataclasses.asdict(self)}
        with atomic_write(path) as partial:
            partial.write_text(json.dumps(settings, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> TrainConfig:
        """Read the settings of a run.

        Raises:
          DataError: no such file, not its format, or another version's.
        """
        settings = _read(path)
        if settings.pop("version", None) != VERSION:
            raise DataError(f"{path} is of another version of xpr, expected {VERSION}. Train anew.")
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(settings.keys() - known):
            raise DataError(
                f"{path} has unknown settings: {told(', '.join(unknown))}. Remove them."
            )
        for field in dataclasses.fields(cls):
            _check_type(path, field.name, settings.get(field.name, field.default), field.default)
        return cls(**settings)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most or value == math.inf:
        above = f" and at most {most}" if most < math.inf else ""
        raise UserError(f"{name} is {told(value)}, expected at least {least}{above}.")


def _check_type(path: Path, name: str, value: object, like: object) -> None:
    """A whole number may stand for a real one; nothing else may differ from its default's type."""
    kinds = (int, float) if isinstance(like, float) else (type(like),)
    if not isinstance(value, kinds) or isinstance(value, bool):
        kind = type(like).__name__
        raise DataError(f"{path}: {name} is {told(repr(value))}, expected a value of type {kind}.")


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{path} does not exist, expected the settings of a run. Give a folder that xpr train "
            "wrote."
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}. Restore it or train anew.") from error
    if not isinstance(settings, dict):
        raise DataError(f"{path} holds a {type(settings).__name__}, expected a JSON object.")
    return settings
