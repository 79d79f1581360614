"""Point clouds as datasets carry them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyParseError

from xpr.data.dataset import Points
from xpr.errors import DataError

NO_CLOUD = "no point cloud: training starts from random points"
GREY = 128


def make_points(positions: np.ndarray, colors: np.ndarray) -> tuple[Points | None, list[str]]:
    """The finite ones of these points, and notes on what is odd.

    Args:
      positions: [P, 3] world units.
      colors: [P, 3] in 0..255.

    Returns:
      The cloud, or None where no point is left; notes.
    """
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is dropped
        positions = positions.astype(np.float32)
    finite = np.isfinite(positions).all(axis=1)
    notes = []
    if dropped := int(np.sum(~finite)):
        notes.append(f"{dropped} of {len(positions)} points are not finite and are dropped")
    if not finite.any():
        return None, [*notes, f"the point cloud is empty; {NO_CLOUD}"]
    return Points(positions[finite], colors[finite].astype(np.uint8)), notes


def read_ply(path: Path) -> tuple[Points | None, list[str]]:
    """A .ply point cloud: x y z, and red green blue where present.

    Returns:
      The cloud, or None where no point is left; notes.

    Raises:
      DataError: no .ply, or one without vertex positions.
    """
    try:
        vertex = PlyData.read(str(path))["vertex"].data
        positions = np.stack([vertex[axis].astype(np.float64) for axis in "xyz"], axis=1)
    except (PlyParseError, KeyError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path} cannot be read as a point cloud: {reason}. Expected a .ply with x, y, z."
        ) from error
    channels = ("red", "green", "blue")
    if not all(name in vertex.dtype.names for name in channels):
        points, notes = make_points(positions, np.full(positions.shape, GREY))
        return points, [*notes, f"{path.name} has no colours: its points are grey"]
    colors = np.stack([vertex[name] for name in channels], axis=1)
    if np.issubdtype(colors.dtype, np.floating):
        colors = np.clip(np.nan_to_num(colors) * 255 + 0.5, 0, 255)
    return make_points(positions, colors)
