"""transforms.json: frames with camera-to-world matrices in OpenGL's axes.

Values of a frame win over values of the file. Poses stay in the file's own world frame, which is
also the frame of its point cloud: `applied_transform` says what was done to both already.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import posixpath
from pathlib import Path
from typing import Any

import numpy as np

from xpr.data.cloud import NO_CLOUD, read_ply
from xpr.data.dataset import Points
from xpr.data.gather import Shot
from xpr.data.photos import PhotoFolder
from xpr.data.sensor import Sensor, known_model, panorama, sensor
from xpr.errors import DataError
from xpr.lens import Equirectangular, Lens, OpenCV, Pinhole, RadTanThinPrismFisheye

PERSPECTIVE = ("k1", "k2", "p1", "p2", "k3")  # what every OpenCV-like model may carry here
ARIA = "FISHEYE624"  # nerfstudio's name for COLMAP's RAD_TAN_THIN_PRISM_FISHEYE
OTHER_LENSES = ("ftheta_p0", "latlong", "equirectangular")  # instant-ngp's flags
RIGID = 1e-2  # how far R^T R may be from the identity: a scaled or skewed camera lies further


@dataclasses.dataclass(frozen=True)
class Transforms:
    """A transforms.json: its file, the values of its root, its frames."""

    file: Path
    root: dict[str, Any]
    frames: list[dict[str, Any]]

    def names(self, key: str) -> list[str]:
        """The list of file names under `key` of the root, in normal form; empty if absent.

        Raises:
          DataError: something else than a list of strings.
        """
        listed = self.root.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise DataError(f"{self.file}: {key} is {listed!r:.60}, expected a list of names.")
        return [_normal(name) for name in listed]

    def shots(self) -> list[Shot]:
        """Every frame's pose and intrinsics, the photos not yet looked for.

        Raises:
          DataError: naming the frame, the key, what it is and what was expected.
        """
        return [self._shot(i, frame) for i, frame in enumerate(self.frames)]

    def cloud(self) -> tuple[Points | None, list[str]]:
        """The point cloud that the file names, and notes.

        Raises:
          DataError: a damaged file, or a name that leads out of the folder.
        """
        name = self.root.get("ply_file_path")
        if not isinstance(name, str):
            return None, [f"{self.file.name} names no ply_file_path; {NO_CLOUD}"]
        path = self.file.parent / PhotoFolder(self.file.parent).inside(name)
        if not path.is_file():
            return None, [f"the point cloud {name} is missing; {NO_CLOUD}"]
        return read_ply(path)

    def _shot(self, index: int, frame: dict[str, Any]) -> Shot:
        where = f"{self.file}, frame {index}"
        name = frame.get("file_path")
        if not isinstance(name, str) or not name:
            raise DataError(f"{where}: file_path is {name!r}, expected a relative path.")
        where = f"{where} ({name})"
        mask = frame.get("mask_path")
        return Shot(
            name=_normal(name),
            file=name,
            viewmat=_viewmat(frame, where),
            sensor=functools.partial(_sensor, self.root, frame, where),
            mask=mask if isinstance(mask, str) else None,
        )


def read_transforms(file: Path) -> Transforms:
    """Read the file; its values are checked as they are used.

    Raises:
      DataError: no JSON object, or one without a list of frames.
    """
    try:
        root = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise DataError(f"{file} is not valid JSON: {error}. Export the file again.") from error
    frames = root.get("frames") if isinstance(root, dict) else None
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise DataError(
            f"{file}: frames is {frames!r:.60}, expected a list of objects with file_path and "
            "transform_matrix."
        )
    if not frames:
        raise DataError(f"{file} lists no frames; at least one view is needed.")
    return Transforms(file, root, frames)


def _normal(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/"))


def _viewmat(frame: dict[str, Any], where: str) -> np.ndarray:
    try:
        matrix = np.array(frame.get("transform_matrix"), np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        found = "missing" if "transform_matrix" not in frame else f"of shape {matrix.shape}"
        raise DataError(
            f"{where}: transform_matrix is {found} or not finite, expected 4x4 finite numbers."
        )
    rotation = matrix[:3, :3]
    skew = np.abs(rotation.T @ rotation - np.eye(3)).max()
    if skew > RIGID or np.linalg.det(rotation) < 0 or not np.array_equal(matrix[3], [0, 0, 0, 1]):
        raise DataError(
            f"{where}: transform_matrix is no rigid motion, expected a rotation, a translation and "
            "the last row 0 0 0 1. Remove scale and mirroring from the camera."
        )
    matrix[:3, 1:3] *= -1  # OpenGL's y up, z backward to OpenCV's y down, z forward
    return np.linalg.inv(matrix)


def _sensor(
    root: dict[str, Any], frame: dict[str, Any], where: str, photo_size: tuple[int, int]
) -> Sensor:
    values = {**root, **frame}
    size = (
        round(_number(values, "w", where, photo_size[0])),
        round(_number(values, "h", where, photo_size[1])),
    )
    lens, coefficients = _lens(values, where)
    if isinstance(lens, Equirectangular):
        return panorama(size, size, where)
    return sensor(
        lens,
        coefficients,
        focal=_focal(root, frame, where, size),
        center=(
            _number(values, "cx", where, size[0] / 2),
            _number(values, "cy", where, size[1] / 2),
        ),
        size=size,
        where=where,
    )


def _focal(
    root: dict[str, Any], frame: dict[str, Any], where: str, size: tuple[int, int]
) -> tuple[float, float]:
    """Focal lengths (fx, fy) from the frame if it says anything of them, else from the root."""
    for level in (frame, root):
        fx = _focal_along("x", level, where, size[0])
        fy = _focal_along("y", level, where, size[1])
        if fx is not None or fy is not None:
            return (fx or fy or 0.0, fy or fx or 0.0)
    raise DataError(f"{where}: neither fl_x nor camera_angle_x is given; one of them is needed.")


def _focal_along(axis: str, level: dict[str, Any], where: str, side: int) -> float | None:
    if level.get(f"fl_{axis}") is not None:
        return _number(level, f"fl_{axis}", where)
    key = f"camera_angle_{axis}"
    if level.get(key) is None or level.get("fl_x") is not None:
        return None
    angle = _number(level, key, where)
    if not 0 < angle < math.pi:
        raise DataError(f"{where}: {key} is {angle}, expected radians between 0 and pi.")
    return 0.5 * side / math.tan(0.5 * angle)


def _lens(values: dict[str, Any], where: str) -> tuple[Lens, dict[str, float]]:
    """The lens, and its coefficients by name; a coefficient that it cannot take is refused."""
    for flag in OTHER_LENSES:
        if values.get(flag):
            known_model(flag, where)
    default = "OPENCV_FISHEYE" if values.get("is_fisheye") else "OPENCV"
    name = str(values.get("camera_model") or default)
    if name == ARIA:
        return RadTanThinPrismFisheye(), _aria(values, where)
    lens = known_model(name, where).lens
    if isinstance(lens, Pinhole):
        lens = OpenCV()
    narrow = isinstance(lens, OpenCV) and name != "FULL_OPENCV"
    takes = PERSPECTIVE if narrow else lens.coefficients
    keys = dict.fromkeys((*OpenCV.coefficients, *takes))
    given = {key: _number(values, key, where, 0.0) for key in keys}
    nonzero = {key: value for key, value in given.items() if value != 0}
    if stray := set(nonzero) - set(takes):
        raise DataError(
            f"{where}: camera_model {name} has {', '.join(sorted(stray))}, expected only "
            f"{', '.join(takes) or 'none'}. FULL_OPENCV takes k1..k6, p1, p2 and s1..s4."
        )
    return lens, nonzero


def _aria(values: dict[str, Any], where: str) -> dict[str, float]:
    names, listed = RadTanThinPrismFisheye.coefficients, values.get("distortion_params")
    if not isinstance(listed, list) or len(listed) != len(names):
        raise DataError(
            f"{where}: camera_model {ARIA} has distortion_params {listed!r:.60}, expected the "
            f"{len(names)} numbers {', '.join(names)}."
        )
    named = dict(zip(names, listed, strict=True))
    return {name: _number(named, name, where) for name in names}


def _number(values: dict[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = values.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where}: {key} is {value!r}, expected a finite number.")
    return float(value)
