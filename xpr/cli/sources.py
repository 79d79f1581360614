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
        raise UserError(
            f"{path} does not exist, expected a file or folder. Check its spelling; "
            f"the current folder is {Path.cwd()}."
        )
    return path


def is_run(path: Path) -> bool:
    """Whether `path` is a folder that `xpr train` made."""
    return path.is_dir() and (path / CONFIG).is_file()


def splats_of(path: Path) -> Path:
    """The splat file that a path stands for.

    Raises:
      UserError: nothing there, something else, or a run that has not yet written its splats.
    """
    file = splat_file(existing(path))
    if file is None:
        kind = "a folder" if path.is_dir() else "a file"
        raise UserError(
            f"{path} is {kind} of another kind, expected a run folder of xpr train or a splat file "
            f"({', '.join(FORMATS)})."
        )
    return file


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


def scene_in(path: Path) -> Primitive:
    """The scene of a splat file or a run folder.

    Raises:
      UserError: as `splats_of`, or a run of a method that is not at hand.
      DataError: damaged, or a scene of a method that neither the file nor a run names.
    """
    return io.load(splats_of(path), method_of(path))


def kinds() -> str:
    """What commands take, in words."""
    return f"a dataset, a run folder or a splat file ({', '.join(FORMATS)})"
