"""What a dataset is once it is loaded: photos with their cameras, points, a split."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xpr.camera import Camera
from xpr.data.photos import read_image, read_mask

TEST_EVERY = 8  # the field's custom: i % 8 == 0 of the name-sorted images is held out


@dataclasses.dataclass(frozen=True)
class Points:
    """A coloured point cloud.

    Attributes:
      positions: [P, 3] float32, world units.
      colors: [P, 3] uint8.
    """

    positions: np.ndarray
    colors: np.ndarray


@dataclasses.dataclass(frozen=True)
class View:
    """One photo and the camera that took it. Pixels are decoded on request, and not kept.

    Attributes:
      name: as the dataset names it, unique in it.
      camera: numpy float32 leaves; intrinsics at the size that `image` delivers.
      image_path: the file.
      mask_path: the mask's file, or None where every pixel counts.
    """

    name: str
    camera: Camera
    image_path: Path
    mask_path: Path | None = None

    def image(self) -> np.ndarray:
        """uint8 [H, W, 3], or [H, W, 4] with straight alpha, at the camera's size.

        Raises:
          DataError: the file cannot be decoded.
        """
        return read_image(self.image_path, (self.camera.width, self.camera.height))

    def mask(self) -> np.ndarray | None:
        """bool [H, W], False where a pixel is to be ignored; None without a mask.

        Raises:
          DataError: the file cannot be decoded.
        """
        if self.mask_path is None:
            return None
        return read_mask(self.mask_path, (self.camera.width, self.camera.height))


@dataclasses.dataclass(frozen=True)
class Split:
    """Which views train and which are held out, as indices, and the rule in words."""

    train: tuple[int, ...]
    test: tuple[int, ...]
    words: str


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A posed set of photos, in the dataset's own world frame.

    Attributes:
      path: what was loaded.
      format: "colmap", "nerfstudio" or "blender".
      views: sorted by name.
      train: indices into `views`.
      test: indices into `views`; empty where there is nothing to hold out.
      split: how the two were chosen, in words.
      image_source: where the pixels come from, in words ("images_8", "images resized by 2").
      points: the point cloud, or None.
      notes: what is odd about this dataset, a sentence each.
    """

    path: Path
    format: str
    views: tuple[View, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    split: str
    image_source: str
    points: Points | None
    notes: tuple[str, ...]

    @property
    def extent(self) -> float:
        """1.1 x the largest distance of a training camera from their mean, world units.

        Cameras that all stand in one place have no extent of their own: 1.0 then.
        """
        poses = [np.asarray(self.views[i].camera.viewmat, np.float64) for i in self.train]
        centers = np.stack([-np.linalg.solve(p[:3, :3], p[:3, 3]) for p in poses])
        largest = np.linalg.norm(centers - centers.mean(axis=0), axis=1).max()
        return float(1.1 * largest) if largest > 0 else 1.0


def every_eighth(names: Sequence[str]) -> Split:
    """Hold out every 8th of the name-sorted images; a lone image is not held out."""
    count = len(names)
    if count == 1:
        return Split((0,), (), "the only image trains, none is held out")
    test = tuple(range(0, count, TEST_EVERY))
    train = tuple(i for i in range(count) if i % TEST_EVERY)
    return Split(train, test, f"every {TEST_EVERY}th of {count} name-sorted images")
