"""From listed photos to views: found or counted as missing, with intrinsics at their size."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from xpr.data.dataset import Dataset, Points, Split, View
from xpr.data.photos import Photo, PhotoFolder
from xpr.data.sensor import Sensor
from xpr.errors import DataError

SHOWN = 5  # names in a note; the count is always whole


@dataclasses.dataclass(frozen=True)
class Shot:
    """A photo as the dataset lists it, not yet looked for.

    Attributes:
      name: unique in the dataset.
      file: relative to the dataset's folder.
      viewmat: [4, 4] float64, camera-from-world, OpenCV axes.
      sensor: the intrinsics, given the photo's full (width, height) in px.
      mask: relative to the dataset's folder, or None.
    """

    name: str
    file: str
    viewmat: np.ndarray
    sensor: Callable[[tuple[int, int]], Sensor]
    mask: str | None = None


@dataclasses.dataclass(frozen=True)
class Gathered:
    """Views sorted by name, where their pixels come from, and what is odd."""

    views: tuple[View, ...]
    source: str
    notes: tuple[str, ...]

    def dataset(
        self, path: Path, form: str, split: Split, *, points: Points | None, notes: Sequence[str]
    ) -> Dataset:
        """The dataset of these views; `notes` are all of its notes."""
        return Dataset(
            path=path,
            format=form,
            views=self.views,
            train=split.train,
            test=split.test,
            split=split.words,
            image_source=self.source,
            points=points,
            notes=tuple(notes),
        )


def gather(shots: Sequence[Shot], folder: PhotoFolder) -> Gathered:
    """Look for every photo, and build the views of those that exist.

    Raises:
      DataError: none is found, a name leads out of the folder, or a file is no image.
    """
    if not shots:
        raise DataError(f"{folder.root} lists no photos; at least one view is needed.")
    shots, repeated = _first_of_each_name(shots)
    photos = [(shot, folder.find(shot.file)) for shot in shots]
    present = [(shot, photo) for shot, photo in photos if photo]
    missing = [shot.file for shot, photo in photos if not photo]
    if not present:
        raise DataError(_none_found(missing, folder))
    maskless: list[str] = []
    rescaled: collections.Counter[str] = collections.Counter()
    views = []
    for shot, photo in present:
        sensor = shot.sensor(photo.full)
        mask = folder.find_file(shot.mask) if shot.mask else None
        if shot.mask and not mask:
            maskless.append(shot.mask)
        rescaled.update(_rescaling(photo, sensor, folder.downscale))
        camera = sensor.camera(shot.viewmat, photo.delivered)
        if not all(np.isfinite(leaf).all() for leaf in (camera.viewmat, camera.K)):
            raise DataError(
                f"{folder.root}: the camera of {shot.name} lies beyond float32's range."
            )
        views.append(View(shot.name, camera, photo.path, mask))
    notes = [
        *_listing(repeated, "frames repeat a name and are skipped"),
        *_listing(missing, f"of {len(shots)} listed photos have no file and are skipped"),
        *_listing(maskless, "masks have no file: all pixels of these photos count"),
        *(f"{count} photos {how}" for how, count in rescaled.items()),
    ]
    source = " + ".join(sorted({photo.source for _, photo in present}))
    return Gathered(tuple(sorted(views, key=lambda view: view.name)), source, tuple(notes))


def _first_of_each_name(shots: Sequence[Shot]) -> tuple[list[Shot], list[str]]:
    first: dict[str, Shot] = {}
    repeated = []
    for shot in shots:
        if first.setdefault(shot.name, shot) is not shot:
            repeated.append(shot.name)
    return list(first.values()), repeated


def _rescaling(photo: Photo, sensor: Sensor, downscale: int) -> list[str]:
    """What to say where the photo is not the size that the dataset promises."""
    stated = [side / downscale for side in sensor.size]
    if max(abs(stated[0] - photo.delivered[0]), abs(stated[1] - photo.delivered[1])) < 1:
        return []
    (width, height), (wide, high) = photo.delivered, stated
    return [
        f"are {width}x{height} where the camera says {wide:g}x{high:g}: "
        "intrinsics scaled by the true ratios"
    ]


def _listing(names: Sequence[str], what: str) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [f"{len(names)} {what}: {', '.join(names[:SHOWN])}{more}"]


def _none_found(missing: Sequence[str], folder: PhotoFolder) -> str:
    top = folder.inside(missing[0]).parts[0]
    shrunk = [] if folder.downscale == 1 else [f"{top}_{folder.downscale}"]
    looked = " and ".join([*shrunk, top])
    others = sorted(
        int(path.name.removeprefix(f"{top}_"))
        for path in folder.root.glob(f"{top}_*")
        if path.is_dir() and path.name.removeprefix(f"{top}_").isdecimal()
    )
    hint = (
        f"Give --downscale {' or '.join(map(str, others))}, whose photos are there."
        if others
        else "At least one photo is needed: put the photos there."
    )
    return (
        f"none of the {len(missing)} listed photos exists (the first: {missing[0]!r}); "
        f"looked for {looked} in {folder.root}. {hint}"
    )
