"""A dataset split over transforms_train.json, transforms_val.json and transforms_test.json."""

from __future__ import annotations

from pathlib import Path

from xpr.data.dataset import Dataset, Split, every_eighth
from xpr.data.gather import gather
from xpr.data.photos import PhotoFolder
from xpr.data.transforms import read_transforms
from xpr.errors import DataError

TRAIN, VAL, TEST = (f"transforms_{part}.json" for part in ("train", "val", "test"))


def load_blender(path: Path, downscale: int) -> Dataset:
    """The dataset of a folder with transforms_train.json, as Blender's synthetic scenes have it.

    Args:
      path: the folder.
      downscale: K, for photos at 1/K of their size.

    Raises:
      DataError: a malformed file, a camera model without a lens, or no training photo.
    """
    held = next((name for name in (TEST, VAL) if (path / name).is_file()), None)
    training = read_transforms(path / TRAIN)
    folder = PhotoFolder(path, downscale)
    train_shots = training.shots()
    test_shots = read_transforms(path / held).shots() if held else []
    gathered = gather([*train_shots, *test_shots], folder)
    points, notes = training.cloud()
    names = [view.name for view in gathered.views]
    split = _split(names, {shot.name for shot in train_shots}, held)
    if held == TEST and (path / VAL).is_file():
        split = Split(split.train, split.test, f"{split.words}, {VAL} left out")
    return gathered.dataset(
        path,
        "blender",
        split,
        points=points,
        notes=(*gathered.notes, *notes),
    )


def _split(names: list[str], training: set[str], held: str | None) -> Split:
    if held is None:
        return every_eighth(names)
    train = tuple(i for i, name in enumerate(names) if name in training)
    test = tuple(i for i, name in enumerate(names) if name not in training)
    if not train:
        raise DataError(f"none of the photos of {TRAIN} exists; at least one is needed.")
    return Split(train, test, f"{TRAIN} for training, {held} for test")
