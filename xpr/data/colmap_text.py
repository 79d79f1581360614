"""COLMAP's cameras.txt, images.txt and points3D.txt.

Comments and CRLF are welcome. In images.txt the line after an image lists its keypoints, and may be
empty, or absent at the end of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from xpr.data.colmap_records import CameraRecord, ImageRecord, PointRecord
from xpr.errors import DataError

Record = TypeVar("Record")


def read_cameras(path: Path) -> list[CameraRecord]:
    """The cameras of cameras.txt.

    Raises:
      DataError: naming the line that is not one.
    """
    return [_parsed(path, row, line, _camera) for row, line in _lines(path) if line]


def read_images(path: Path) -> list[ImageRecord]:
    """The images of images.txt, without their keypoints. A name may hold spaces.

    Raises:
      DataError: naming the line that is not one.
    """
    images, lines = [], _lines(path)
    for row, line in lines:
        if line:
            images.append(_parsed(path, row, line, _image))
            row, keypoints = next(lines, (row, ""))
            _parsed(path, row, keypoints, _check_keypoints)
    return images


def read_points(path: Path) -> list[PointRecord]:
    """The points of points3D.txt, without their tracks.

    Raises:
      DataError: naming the line that is not one.
    """
    return [_parsed(path, row, line, _point) for row, line in _lines(path) if line]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for row, line in enumerate(file, 1):
            if not line.startswith("#"):
                yield row, line.strip()


def _camera(line: str) -> CameraRecord:
    camera_id, model, width, height, *params = line.split()
    return CameraRecord(int(camera_id), model, (int(width), int(height)), tuple(map(float, params)))


def _image(line: str) -> ImageRecord:
    image_id, w, i, j, k, x, y, z, camera_id, name = line.split(maxsplit=9)
    quat, translation = tuple(map(float, (w, i, j, k))), tuple(map(float, (x, y, z)))
    return ImageRecord(int(image_id), quat, translation, int(camera_id), name)


def _point(line: str) -> PointRecord:
    point_id, *numbers = line.split(maxsplit=7)[:7]
    position, color = tuple(map(float, numbers[:3])), tuple(map(int, numbers[3:]))
    if len(color) != 3 or not all(0 <= c <= 255 for c in color):
        raise ValueError
    return PointRecord(int(point_id), position, color)


def _check_keypoints(line: str) -> None:
    values = line.split()
    if len(values) % 3:
        raise ValueError
    if values:
        float(values[-1])


EXPECTED = {
    _camera: "CAMERA_ID MODEL WIDTH HEIGHT PARAMS...",
    _image: "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME",
    _check_keypoints: "the keypoints of the image above (X Y POINT3D_ID ..., or an empty line)",
    _point: "POINT3D_ID X Y Z R G B ...",
}


def _parsed(path: Path, row: int, line: str, parse: Callable[[str], Record]) -> Record:
    try:
        return parse(line)
    except ValueError as error:
        shown = line if len(line) <= 60 else line[:57] + "..."
        raise DataError(f"{path}, line {row}: {shown!r}, expected {EXPECTED[parse]}.") from error
