"""COLMAP's sparse models: `sparse/0` beside `images`.

The images file holds every registered pose, rigs and frames or not, so those files are not read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xpr.data import colmap_binary, colmap_text
from xpr.data.cloud import NO_CLOUD, make_points
from xpr.data.colmap_records import CameraRecord, ImageRecord
from xpr.data.dataset import Dataset, Points, View, every_eighth
from xpr.data.gather import Shot, gather
from xpr.data.photos import SUFFIXES, PhotoFolder
from xpr.data.sensor import Sensor, colmap_sensor
from xpr.errors import DataError

MODEL_FOLDERS = ("sparse/0", "sparse", ".")
READERS = {".bin": colmap_binary, ".txt": colmap_text}  # in order of preference


def find_model(path: Path) -> Path | None:
    """The folder of COLMAP files that belongs to a dataset's folder, if there is one."""
    folders = (path / folder for folder in MODEL_FOLDERS)
    return next((folder for folder in folders if _is_model(folder)), None)


def load_colmap(path: Path, model: Path, downscale: int) -> Dataset:
    """The dataset whose COLMAP files lie in the folder `model`.

    Args:
      path: the dataset's folder, which holds `images`.
      model: the folder of cameras, images and points3D.
      downscale: K, for photos at 1/K of their size.

    Raises:
      DataError: a damaged model, a camera model without a lens, or no photo.
    """
    suffix = model_suffix(model)
    images = READERS[suffix].read_images(model / f"images{suffix}")
    points, notes = read_cloud(model)
    folder = PhotoFolder(path, downscale)
    prefix = _prefix(folder, images)
    gathered = gather(read_shots(model, images, prefix), folder)
    split = every_eighth([view.name for view in gathered.views])
    return gathered.dataset(
        path,
        "colmap",
        split,
        points=points,
        notes=(
            *_other_models(model),
            *gathered.notes,
            *_unregistered(path, prefix, gathered.views),
            *notes,
        ),
    )


def model_suffix(model: Path) -> str:
    """ ".bin" or ".txt", whichever form is complete; binary wins.

    Raises:
      DataError: neither is.
    """
    parts = _parts(model)
    for suffix in READERS:
        if {f"cameras{suffix}", f"images{suffix}"} <= set(parts):
            return suffix
    raise DataError(
        f"{model} has {', '.join(parts)}; expected cameras and images, both .bin or both .txt. "
        "Export the whole model again."
    )


def read_shots(model: Path, images: Sequence[ImageRecord], prefix: str = "") -> list[Shot]:
    """The poses of a model with their cameras, the photos not yet looked for.

    Args:
      model: the folder of COLMAP files.
      images: its images.
      prefix: what leads from the dataset's folder to the photos, "images/" for instance.

    Raises:
      DataError: an image of an unknown camera, or a pose that is no rotation.
    """
    suffix = model_suffix(model)
    file = model / f"cameras{suffix}"
    cameras = {camera.camera_id: camera for camera in READERS[suffix].read_cameras(file)}
    shots = []
    for image in images:
        if image.camera_id not in cameras:
            known = ", ".join(map(str, sorted(cameras)))
            raise DataError(
                f"image {image.image_id} ({image.name}) uses camera {image.camera_id}, which "
                f"{file} lacks; it has {known or 'none'}. Export the whole model again."
            )
        sensor = functools.partial(_sensor, cameras[image.camera_id], file)
        shots.append(Shot(image.name, prefix + image.name, _viewmat(image, model), sensor))
    return shots


def read_cloud(model: Path) -> tuple[Points | None, list[str]]:
    """The points of a model in the order of their ids, and notes.

    Raises:
      DataError: a damaged file.
    """
    for suffix, reader in READERS.items():
        if (file := model / f"points3D{suffix}").is_file():
            records = sorted(reader.read_points(file))
            positions = np.array([r.position for r in records], np.float64).reshape(-1, 3)
            colors = np.array([r.color for r in records], np.uint8).reshape(-1, 3)
            return make_points(positions, colors)
    return None, [f"{model} has no points3D file; {NO_CLOUD}"]


def _parts(folder: Path) -> list[str]:
    names = [f"{part}{suffix}" for suffix in READERS for part in ("cameras", "images")]
    return [name for name in names if (folder / name).is_file()]


def _is_model(folder: Path) -> bool:
    return any(part.startswith("cameras") for part in _parts(folder))


def _other_models(model: Path) -> list[str]:
    if model.parent.name != "sparse":
        return []
    others = sorted(f.name for f in model.parent.iterdir() if f != model and _is_model(f))
    if not others:
        return []
    return [f"sparse also holds the models {', '.join(others)}; only {model.name} is used"]


def _sensor(camera: CameraRecord, file: Path, _size: tuple[int, int]) -> Sensor:
    where = f"{file}, camera {camera.camera_id}"
    return colmap_sensor(camera.model, camera.params, camera.size, where)


def _viewmat(image: ImageRecord, model: Path) -> np.ndarray:
    quat, translation = np.array(image.quat), np.array(image.translation)
    with np.errstate(over="ignore"):
        norm = np.linalg.norm(quat)
    if not (np.isfinite(norm) and norm > 0 and np.isfinite(translation).all()):
        raise DataError(
            f"{model}: image {image.image_id} ({image.name}) has quaternion {image.quat} and "
            f"translation {image.translation}, expected finite numbers and a rotation."
        )
    w, (x, y, z) = quat[0] / norm, quat[1:] / norm
    axis, cross = np.array([x, y, z]), np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    viewmat = np.eye(4)
    # Rodrigues' formula with the half angle: R = (w^2 - v.v) I + 2 v v^T + 2 w [v]x.
    viewmat[:3, :3] = (w * w - axis @ axis) * np.eye(3) + 2 * np.outer(axis, axis) + 2 * w * cross
    viewmat[:3, 3] = translation
    return viewmat


def _prefix(folder: PhotoFolder, images: Sequence[ImageRecord]) -> str:
    """Photos lie in `images`; failing that, beside the model."""
    if any(folder.root.glob("images*/")) or not any(folder.find(i.name) for i in images):
        return "images/"
    return ""


def _unregistered(path: Path, prefix: str, views: Sequence[View]) -> list[str]:
    used = {view.image_path for view in views}
    tops = {path / p.relative_to(path).parts[0] for p in used} if prefix else set()
    files = {f for top in tops for f in top.rglob("*") if f.suffix.lower() in SUFFIXES}
    if not (left := sorted(files - used)):
        return []
    return [f"{len(left)} photos are not in the model and are left out (the first: {left[0].name})"]
