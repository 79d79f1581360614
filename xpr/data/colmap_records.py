"""What a COLMAP model holds, whichever form it is written in."""

from __future__ import annotations

from typing import NamedTuple


class CameraRecord(NamedTuple):
    """A line of `cameras`. `params` in COLMAP's order, `size` = (width, height) in px."""

    camera_id: int
    model: str
    size: tuple[int, int]
    params: tuple[float, ...]


class ImageRecord(NamedTuple):
    """A line of `images`: camera-from-world as quaternion (w, x, y, z) and translation."""

    image_id: int
    quat: tuple[float, ...]
    translation: tuple[float, ...]
    camera_id: int
    name: str


class PointRecord(NamedTuple):
    """A line of `points3D`: position in world units, colour in 0..255."""

    point_id: int
    position: tuple[float, ...]
    color: tuple[int, ...]
