"""What a path on the command line stands for: a splat file, a run or a dataset."""

from __future__ import annotations

from pathlib import Path

from xpr import io, methods
from xpr.errors import UserError
from xpr.io import FORMATS, format_of
from xpr.types import Primitive

CONFIG, SPLATS = "config.json", "point_cloud.ply"  # of a run folder, as `xpr train` writes it


def existing(path: Path) -> Path:
    """`path`, if there is something.

    Raises:
      UserError: there is not.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    return path


def is_run(path: Path) -> bool:
    """Whether `path` is a folder that `xpr train` made."""
    return path.is_dir() and (path / CONFIG).is_file()


def splat_file(path: Path) -> Path | None:
    """The splats that a file or a run folder stands for; None for anything else.

    Raises:
      UserError: a run that has not yet written its splats.
    """
    if path.is_file() and format_of(path) is not None:
        return path
    if not is_run(path):
        return None
    if not (path / SPLATS).is_file():
        raise UserError(f"{path} has no {SPLATS} yet. Finish the run: xpr train --resume {path}")
    return path / SPLATS


def method_of(path: Path) -> type[Primitive] | None:
    """The method of a run folder; None for anything else."""
    if not is_run(path):
        return None
    from xpr.train.config import TrainConfig

    return methods.load(TrainConfig.load(path / CONFIG).method)


def scene_in(path: Path) -> Primitive | None:
    """The scene of a splat file or a run folder; None for anything else.

    Raises:
      UserError: as `splat_file`, or a run of a method that is not at hand.
      DataError: damaged, or a scene of a method that neither the file nor a run names.
    """
    file = splat_file(path)
    return None if file is None else io.load(file, method_of(path))


def kinds() -> str:
    """What commands take, in words."""
    return f"a dataset, a run folder or a splat file ({', '.join(FORMATS)})"
