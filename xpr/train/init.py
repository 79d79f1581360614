"""Where a run starts: splats from the points of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import KDTree

from xpr.errors import DataError
from xpr.train.config import TrainConfig
from xpr.types import Primitive

if TYPE_CHECKING:
    from xpr.camera import Camera
    from xpr.data import Dataset

P = TypeVar("P", bound=Primitive)
Say = Callable[[str], None]

LEAST_COLOR = 1 / 255  # a splat darker than black would have no gradient to brighten it
MIN_SPACING = 1e-7  # world units, where points coincide
NEIGHBOURS = 3
LONE_SPACING = 0.01  # of the extent, for a single point
OPACITY, SHRINK = (
    0.5,
    0.5,
)  # of the first splats; the paper shrinks to 0.1, which a short run pays for


def initial_scene(
    dataset: Dataset, method: type[P], config: TrainConfig, key: jax.Array, say: Say
) -> P:
    """One splat a point, at most `config.cap`.

    Args:
      dataset: its points, or else random ones in the box of its cameras.
      method: the primitive.
      config: cap, harmonics and number of random points.
      key: PRNG key.
      say: told what was left out or made up.

    Raises:
      DataError: no camera to place random points by.
    """
    positions, colors = _points(dataset, config, say)
    if len(positions) > config.cap:
        say(f"{len(positions):,} points, cap {config.cap:,}: starting from a random subset.")
        kept = np.random.default_rng(config.seed).choice(len(positions), config.cap, replace=False)
        positions, colors = positions[np.sort(kept)], colors[np.sort(kept)]
    scene = method.from_points(
        jnp.asarray(positions),
        jnp.asarray(np.maximum(colors, LEAST_COLOR)),
        jnp.asarray(spacing(positions, lone=LONE_SPACING * dataset.extent)),
        key=key,
        sh_degree=config.sh_degree,
    )
    return jax.vmap(lambda splat: splat.reshaped(jnp.float32(OPACITY), jnp.float32(SHRINK)))(scene)


def spacing(positions: np.ndarray, *, lone: float = 1.0) -> np.ndarray:
    """Root mean square distance to the three nearest neighbours, or to as many as there are.

    Args:
      positions: [P, 3] world units.
      lone: what a single point gets.

    Returns:
      [P] float32, at least `MIN_SPACING`.
    """
    neighbours = min(NEIGHBOURS, len(positions) - 1)
    if neighbours < 1:
        return np.full(len(positions), max(lone, MIN_SPACING), np.float32)
    # The nearest one is the point itself (or another at its place).
    distance, _ = KDTree(positions).query(positions, k=neighbours + 1)
    mean_square = np.mean(distance[:, 1:] ** 2, axis=1)
    return np.maximum(np.sqrt(mean_square), MIN_SPACING).astype(np.float32)


def _points(dataset: Dataset, config: TrainConfig, say: Say) -> tuple[np.ndarray, np.ndarray]:
    """Positions [P, 3] in world units and colours [P, 3] in [0, 1]."""
    points = dataset.points
    if points is not None and len(points.positions):
        positions = np.asarray(points.positions, np.float32)
        colors = np.asarray(points.colors, np.float32) / 255
        finite = np.isfinite(positions).all(axis=1)
        if not finite.all():
            say(f"left out {np.sum(~finite):,} points whose position is not finite.")
        if finite.any():
            return positions[finite], colors[finite]
    cameras = [dataset.views[i].camera for i in dataset.train]
    if not cameras:
        raise DataError("the dataset has neither points nor training views, expected either.")
    count = min(config.random_points, config.cap)
    say(f"WARNING: no point cloud. Starting from {count:,} random points in the cameras' box.")
    return _random_points(cameras, count, config.seed)


def _random_points(
    cameras: Sequence[Camera], count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Uniform in a box as large as the cameras', around the point that they look at."""
    random = np.random.default_rng(seed)
    viewmats = np.stack([np.asarray(camera.viewmat, np.float64) for camera in cameras])
    center, reach = _looked_at(viewmats)
    positions = center + reach * random.uniform(-1, 1, (count, 3))
    return positions.astype(np.float32), random.uniform(0, 1, (count, 3)).astype(np.float32)


def _looked_at(viewmats: np.ndarray) -> tuple[np.ndarray, float]:
    """The point nearest to all optical axes, and the mean distance of the cameras to it."""
    rotations, translations = viewmats[:, :3, :3], viewmats[:, :3, 3]
    origins = -np.einsum("nji,nj->ni", rotations, translations)
    axes = rotations[:, 2]
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    # The ridge draws cameras with parallel axes to their own centre.
    ridge = 1e-6 * len(viewmats) * np.eye(3)
    towards = np.einsum("nij,nj->i", across, origins) + ridge @ origins.mean(0)
    center = np.linalg.solve(across.sum(0) + ridge, towards)
    reach = float(np.mean(np.linalg.norm(origins - center, axis=1)))
    return center, reach if reach > 0 else 1.0
