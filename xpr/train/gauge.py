"""The common motion of refined cameras: what no photo can tell, taken along by the held-out views.

Cameras and scene moved, turned and scaled together give the same photos, so refined cameras drift in
this way. The similarity that best carries the given training cameras onto the refined ones says how
far; a held-out camera that moves with it stands in the refined world where it was meant to stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xpr.camera import Camera
from xpr.types import Array

ROUNDING = 1e-12  # of float32, squared and with room: what is closer together is one place


class Similarity(NamedTuple):
    """A point x of one world lies at `scale * turn @ x + shift` in the other.

    Attributes:
      scale: positive.
      turn: [3, 3] rotation.
      shift: [3] world units.
    """

    scale: float
    turn: np.ndarray
    shift: np.ndarray

    def carry(self, camera: Camera) -> Camera:
        """The camera that sees of the other world what `camera` sees of the one."""
        end = camera.viewmat_end
        moved = self._carried(camera.viewmat)
        return camera.replace(
            viewmat=moved, viewmat_end=None if end is None else self._carried(end)
        )

    def _carried(self, viewmat: Array | np.ndarray) -> np.ndarray:
        pose = np.array(viewmat, np.float64)
        pose[:3, :3] = pose[:3, :3] @ self.turn.T
        pose[:3, 3] = self.scale * pose[:3, 3] - pose[:3, :3] @ self.shift
        return pose.astype(np.float32)


def common(before: Sequence[Camera], after: Sequence[Camera]) -> Similarity:
    """The similarity that carries the cameras before onto those after, in least squares.

    Centres count in units of their spread, orientations as they are, so that cameras in one place or
    in a line have their turn as well (Kabsch's rotation, from both). In one place the scale is 1.

    Args:
      before: [V] at least one camera.
      after: [V] the same cameras after they were moved.
    """
    old, new = (np.array([_pose(camera) for camera in cameras]) for cameras in (before, after))
    a, b = (np.array([-p[:3, :3].T @ p[:3, 3] for p in poses]) for poses in (old, new))
    near, far = a - a.mean(axis=0), b - b.mean(axis=0)
    spread = np.mean(near**2)
    apart = spread > ROUNDING * np.mean(a**2)
    together = np.einsum("vki,vkj->ij", new[:, :3, :3], old[:, :3, :3])
    if apart:
        together += far.T @ near / spread
    left, _, right = np.linalg.svd(together)
    turn = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    scale = float(np.sum(far * (near @ turn.T)) / np.sum(near**2)) if apart else 1.0
    return Similarity(scale, turn, b.mean(axis=0) - scale * turn @ a.mean(axis=0))


def _pose(camera: Camera) -> np.ndarray:
    return np.asarray(camera.viewmat, np.float64)
