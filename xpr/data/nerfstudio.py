"""A dataset in one transforms.json, as nerfstudio and instant-ngp write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpr.data.dataset import Dataset, Split, every_eighth
from xpr.data.gather import gather
from xpr.data.photos import PhotoFolder
from xpr.data.transforms import Transforms, read_transforms
from xpr.errors import DataError


def load_nerfstudio(file: Path, downscale: int) -> Dataset:
    """The dataset of one transforms.json; its paths start at the file's folder.

    Args:
      file: the .json file.
      downscale: K, for photos at 1/K of their size.

    Raises:
      DataError: a malformed file, a camera model without a lens, or no photo.
    """
    transforms = read_transforms(file)
    gathered = gather(transforms.shots(), PhotoFolder(file.parent, downscale))
    points, notes = transforms.cloud()
    split, split_notes = _split(transforms, [view.name for view in gathered.views])
    return gathered.dataset(
        file,
        "nerfstudio",
        split,
        points=points,
        notes=(*gathered.notes, *split_notes, *notes),
    )


def _split(transforms: Transforms, names: Sequence[str]) -> tuple[Split, list[str]]:
    """The file's own split where it has one, else every 8th image."""
    listed = {key: transforms.names(f"{key}_filenames") for key in ("train", "test", "val")}
    if not listed["train"]:
        return every_eighth(names), []
    held = "test" if listed["test"] else "val"
    wanted = set(listed[held]) or set(names) - set(listed["train"])
    train = tuple(i for i, name in enumerate(names) if name in set(listed["train"]))
    test = tuple(i for i, name in enumerate(names) if name in wanted)
    if not train:
        raise DataError(
            f"{transforms.file}: none of the {len(listed['train'])} train_filenames is a frame "
            "with a photo; at least one is needed."
        )
    rule = f"{held}_filenames" if listed[held] else "the frames that are in no list"
    words = f"train_filenames for training, {rule} for test"
    idle = len(names) - len(set(train) | set(test))
    return Split(train, test, words), [f"{idle} photos are in neither split"] if idle else []
