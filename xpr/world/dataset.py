"""The analytic world as photographs: an ordinary transforms.json dataset with exact poses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement

from xpr.errors import UserError
from xpr.files import atomic_write
from xpr.media import save_png, to_uint8
from xpr.paths import look_at
from xpr.world.scene import first_hit, trace

TARGET = np.array([0.0, 0.0, 0.14])
UP = np.array([0.0, 0.0, 1.0])
DISTANCE, ELEVATION = 1.75, 32.0  # of the cameras from the target, world units and degrees
FIELD_OF_VIEW = 46.0  # degrees
SAMPLES = 3  # rays a pixel along each axis
POINTS = 8000
COLORS = ("red", "green", "blue")


def write_dataset(folder: str | Path, *, views: int = 40, size: int = 128, seed: int = 0) -> Path:
    """Ray-trace the world from cameras on a dome around it and write what a person would have.

    `transforms.json` (camera-to-world, OpenGL axes), `images/*.png` and `sparse.ply`, several
    thousand surface points with their colours as seen, the backdrop included. The views go once
    around while the camera rises and sinks three times, so held-out ones lie between others.

    Args:
      folder: made where it is missing.
      views: how many pictures.
      size: their width and height, px.
      seed: of the cameras' small irregularities and of the points.

    Returns:
      The folder.

    Raises:
      UserError: no views, or no pixels.
      OSError: the folder cannot be written.
    """
    if views < 1 or size < 1:
        raise UserError(f"the world has {views} views of {size} px, expected at least 1 and 1.")
    folder = Path(folder)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    poses = dome_poses(views, rng)
    focal = 0.5 * size / np.tan(np.radians(FIELD_OF_VIEW) / 2)
    frames = []
    for index, pose in enumerate(poses):
        name = f"images/{index:03d}.png"
        save_png(folder / name, photograph(pose, size, focal))
        opengl = pose * np.array([1, -1, -1, 1])
        frames.append({"file_path": name, "transform_matrix": opengl.tolist()})
    _write_points(folder / "sparse.ply", poses, focal / size, rng)
    intrinsics = dict(w=size, h=size, fl_x=focal, fl_y=focal, cx=size / 2, cy=size / 2)
    content = {"camera_model": "PINHOLE", **intrinsics, "ply_file_path": "sparse.ply"}
    with atomic_write(folder / "transforms.json") as temporary:
        temporary.write_text(json.dumps({**content, "frames": frames}, indent=1))
    return folder


def dome_poses(count: int, rng: np.random.Generator) -> np.ndarray:
    """World-from-camera poses [count, 4, 4], OpenCV axes, once around the world, looking inward."""
    turn = 2 * np.pi * np.arange(count) / count
    elevation = np.radians(ELEVATION + 11 * np.sin(3 * turn) + rng.uniform(-2, 2, count))
    distance = DISTANCE * rng.uniform(0.97, 1.03, count)
    across = np.cos(elevation)
    direction = np.stack([across * np.cos(turn), across * np.sin(turn), np.sin(elevation)], axis=1)
    return np.stack(
        [look_at(TARGET + r * d, TARGET, UP) for r, d in zip(distance, direction, strict=True)]
    )


def photograph(pose: np.ndarray, size: int, focal: float) -> np.ndarray:
    """The world [size, size, 3] through a pinhole camera, each pixel the mean of 3 x 3 rays.

    Args:
      pose: [4, 4] world-from-camera, OpenCV axes.
      size: px.
      focal: px; the principal point is the picture's centre.
    """
    at = (np.arange(size * SAMPLES) + 0.5) / SAMPLES - size / 2
    x, y = np.meshgrid(at, at)
    color = trace(pose[:3, 3], _rays(pose, x / focal, y / focal))
    return color.reshape(size, SAMPLES, size, SAMPLES, 3).mean(axis=(1, 3))


def _rays(pose: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """World directions [..., 3] through points (x, y) of the plane z = 1 of the camera."""
    return np.stack([x, y, np.ones_like(x)], axis=-1) @ pose[:3, :3].T


def _write_points(path: Path, poses: np.ndarray, focal: float, rng: np.random.Generator) -> None:
    """What random pixels of random views show, as a coloured point cloud. `focal` in widths."""
    seen_by = poses[rng.integers(len(poses), size=POINTS)]
    x, y = rng.uniform(-0.5, 0.5, (2, POINTS)) / focal
    directions = (seen_by[:, :3, :3] @ np.stack([x, y, np.ones(POINTS)], axis=-1)[:, :, None])[
        ..., 0
    ]
    eyes = seen_by[:, :3, 3]
    points, colors = first_hit(eyes, directions), to_uint8(trace(eyes, directions))
    rows = np.empty(POINTS, [*((c, "<f4") for c in "xyz"), *((c, "u1") for c in COLORS)])
    for name, column in zip(("x", "y", "z"), points.T, strict=True):
        rows[name] = column
    for name, column in zip(COLORS, colors.T, strict=True):
        rows[name] = column
    with atomic_write(path) as temporary:
        PlyData([PlyElement.describe(rows, "vertex")], byte_order="<").write(str(temporary))
