"""Which dataset a path holds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from xpr.data.blender import TRAIN, load_blender
from xpr.data.colmap import find_model, load_colmap
from xpr.data.dataset import Dataset
from xpr.data.nerfstudio import load_nerfstudio
from xpr.errors import DataError, UserError

TRANSFORMS = "transforms.json"
LAYOUTS = (
    "a COLMAP model (sparse/0), transforms.json, or transforms_train.json and transforms_test.json"
)


def load(path: str | Path, *, downscale: int = 1) -> Dataset:
    """Load photos with their cameras. Only headers of photos are read, no pixels.

    Args:
      path: a folder with a COLMAP model, a transforms.json or transforms_train.json; or one
        transforms*.json file.
      downscale: K >= 1. Takes the photos of `images_K` where present, else resizes them.

    Raises:
      UserError: a downscale below 1.
      DataError: nothing to load there, or a file that is damaged or not supported.
    """
    path = _at_home(Path(path))
    if downscale < 1:
        raise UserError(f"downscale is {downscale}, expected 1 or more.")
    if path.is_file() and path.suffix.lower() == ".json":
        return load_nerfstudio(path, downscale)
    if not path.is_dir():
        found = "is a file" if path.exists() else "does not exist"
        raise DataError(f"{path} {found}, expected a folder with {LAYOUTS}.")
    if model := find_model(path):
        dataset = load_colmap(_photo_root(path, model), model, downscale)
        return _mention_transforms(dataset, path)
    if (path / TRANSFORMS).is_file():
        return load_nerfstudio(path / TRANSFORMS, downscale)
    if (path / TRAIN).is_file():
        return load_blender(path, downscale)
    raise DataError(_nothing_known(path))


def _at_home(path: Path) -> Path:
    """With a leading `~` resolved, if it is that of anybody."""
    try:
        return path.expanduser()
    except RuntimeError:  # of nobody: an ordinary name then
        return path


def _photo_root(path: Path, model: Path) -> Path:
    """Of a path that is the model's own folder, `.../sparse/0`, the folder that holds `sparse`."""
    above = path.resolve()
    if model.resolve() != above:
        return path
    for folder in (above, above.parent):
        if folder.name == "sparse":
            return folder.parent
    return path


def _mention_transforms(dataset: Dataset, path: Path) -> Dataset:
    if not (path / TRANSFORMS).is_file():
        return dataset
    note = f"{TRANSFORMS} is there as well and is not read; give its path to use it"
    return dataclasses.replace(dataset, notes=(*dataset.notes, note))


def _nothing_known(path: Path) -> str:
    candidates = sorted(file.name for file in path.glob("transforms*.json"))
    if candidates:
        return (
            f"{path} has no {TRANSFORMS} but {', '.join(candidates)}: give the path of one of them."
        )
    inside = sorted(entry.name for entry in path.iterdir())
    shown = ", ".join(inside[:6]) + (", ..." if len(inside) > 6 else "")
    return f"{path} holds no dataset (found: {shown or 'nothing'}), expected {LAYOUTS}."
