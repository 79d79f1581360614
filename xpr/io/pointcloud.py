"""Plain point clouds as splats: a colour and a size for points that have none."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from xpr import sh
from xpr.io.table import SplatTable

NEIGHBORS = 3
LEAST_SPACING = 0.01  # of the median one: duplicates of a point still show
LONE_SPACING = 1.0  # world units, for a cloud in which nothing has a distance


def colors_of(
    columns: Mapping[str, np.ndarray], dc: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The constant SH term [N, 1, 3] from the columns `dc`, or from red, green and blue.

    Without either, splats are grey. The second result says what was assumed.
    """
    if all(name in columns for name in dc):
        return np.stack([columns[name] for name in dc], axis=-1)[:, None], ()
    if not all(name in columns for name in ("red", "green", "blue")):
        return np.zeros((len(columns["x"]), 1, 3), np.float32), ("no colours: splats are grey",)
    rgb = np.stack([columns[name] for name in ("red", "green", "blue")], axis=-1)
    notes = ("colours from red, green and blue",)
    if rgb.size and np.nanmax(rgb) > 1:
        rgb = rgb / 255
        notes = ("colours from red, green and blue, taken as 0 to 255",)
    return ((rgb - 0.5) / sh.C0).astype(np.float32)[:, None], notes


def shapes_from_spacing(cloud: SplatTable) -> SplatTable:
    """Round splats of opacity 0.5 whose standard deviation is half the spacing of the points."""
    log_scale = np.log(0.5 * spacing(cloud.mean)).astype(np.float32)
    note = "a point cloud: sizes from the distance to the neighbours, opacity 0.5"
    return dataclasses.replace(
        cloud,
        log_scale=np.repeat(log_scale[:, None], 3, axis=1),
        logit_opacity=np.zeros(len(cloud), np.float32),
        notes=(*cloud.notes, note),
    )


def spacing(points: np.ndarray) -> np.ndarray:
    """Root mean square distance of each point [N, 3] to its three nearest neighbours. [N] > 0."""
    from scipy.spatial import KDTree

    count = min(NEIGHBORS, len(points) - 1)
    if count < 1:
        return np.full(len(points), LONE_SPACING)
    distance = KDTree(points).query(points, k=count + 1)[0][:, 1:]
    own = np.sqrt(np.mean(distance**2, axis=1))
    median = np.median(own[own > 0]) if np.any(own > 0) else LONE_SPACING
    return np.maximum(own, LEAST_SPACING * median)
