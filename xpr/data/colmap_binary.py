"""COLMAP's cameras.bin, images.bin and points3D.bin.

Every length is checked against the file, so that a file cut short is an error, never a camera made
of what lay in memory. Little-endian, with explicit widths.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from xpr.data.colmap_records import CameraRecord, ImageRecord, PointRecord
from xpr.errors import DataError

PARAMETERS = {
    "SIMPLE_PINHOLE": 3,
    "PINHOLE": 4,
    "SIMPLE_RADIAL": 4,
    "RADIAL": 5,
    "OPENCV": 8,
    "OPENCV_FISHEYE": 8,
    "FULL_OPENCV": 12,
    "FOV": 5,
    "SIMPLE_RADIAL_FISHEYE": 4,
    "RADIAL_FISHEYE": 5,
    "THIN_PRISM_FISHEYE": 12,
    "RAD_TAN_THIN_PRISM_FISHEYE": 16,
    "SIMPLE_DIVISION": 4,
    "DIVISION": 5,
    "SIMPLE_FISHEYE": 3,
    "FISHEYE": 4,
    "EUCM": 6,
    "EQUIRECTANGULAR": 2,
}  # how many a camera stores; the position in this table is COLMAP's model id

KEYPOINT_BYTES = 24  # x, y, point id
TRACK_BYTES = 8  # image id, keypoint index

REMEDY = "Copy it again, or export the model again."

Record = TypeVar("Record")


class _Cursor:
    """A place in a binary file, which knows where the file ends."""

    def __init__(self, data: mmap.mmap):
        self.data = data
        self.at = 0

    def take(self, layout: str) -> tuple:
        """The next values, as `struct` describes them."""
        start = self.at
        self.skip(struct.calcsize(layout))
        return struct.unpack_from(layout, self.data, start)

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        if count > self.left:
            raise EOFError
        self.at += count

    def name(self) -> str:
        """Text up to a zero byte."""
        start, end = self.at, self.data.find(b"\0", self.at)
        if end < 0:
            raise EOFError
        self.at = end + 1
        return self.data[start:end].decode()

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self.data) - self.at


def read_cameras(path: Path) -> list[CameraRecord]:
    """The cameras of cameras.bin.

    Raises:
      DataError: cut short, left-over bytes, or an unknown model id.
    """
    return _records(path, _camera)


def read_images(path: Path) -> list[ImageRecord]:
    """The registered images of images.bin, without their keypoints.

    Raises:
      DataError: cut short, or left-over bytes.
    """
    return _records(path, _image)


def read_points(path: Path) -> list[PointRecord]:
    """The points of points3D.bin, without their tracks.

    Raises:
      DataError: cut short, or left-over bytes.
    """
    return _records(path, _point)


def _camera(cursor: _Cursor) -> CameraRecord:
    camera_id, model_id, width, height = cursor.take("<IiQQ")
    names = list(PARAMETERS)
    if not 0 <= model_id < len(names):
        raise ValueError(f"camera {camera_id} has the unknown model id {model_id}")
    name = names[model_id]
    return CameraRecord(camera_id, name, (width, height), cursor.take(f"<{PARAMETERS[name]}d"))


def _image(cursor: _Cursor) -> ImageRecord:
    image_id, *pose, camera_id = cursor.take("<I7dI")
    name = cursor.name()
    cursor.skip(KEYPOINT_BYTES * cursor.take("<Q")[0])
    return ImageRecord(image_id, tuple(pose[:4]), tuple(pose[4:]), camera_id, name)


def _point(cursor: _Cursor) -> PointRecord:
    point_id, x, y, z, red, green, blue, _error, track = cursor.take("<Q3d3BdQ")
    cursor.skip(TRACK_BYTES * track)
    return PointRecord(point_id, (x, y, z), (red, green, blue))


def _records(path: Path, read: Callable[[_Cursor], Record]) -> list[Record]:
    if not path.stat().st_size:  # which cannot be mapped
        raise DataError(f"{path} is empty. {REMEDY}")
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return _all_records(path, _Cursor(data), read)


def _all_records(path: Path, cursor: _Cursor, read: Callable[[_Cursor], Record]) -> list[Record]:
    found: list[Record] = []
    count = "?"
    try:
        (count,) = cursor.take("<Q")
        for _ in range(count):
            found.append(read(cursor))
    except EOFError:
        raise DataError(
            f"{path} ends within record {len(found) + 1} of {count}: it is cut short. {REMEDY}"
        ) from None
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: record {len(found) + 1} of {count} cannot be read: {error}. {REMEDY}"
        ) from error
    if cursor.left:
        raise DataError(
            f"{path} has {cursor.left:,} bytes after its {count} records, expected none. {REMEDY}"
        )
    return found
