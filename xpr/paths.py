"""Camera paths for videos, from the cameras of a dataset.

Poses are camera-from-world with OpenCV axes (x right, y down, z forward), float32; every frame has
the intrinsics, the lens and the size of the first camera.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xpr.camera import Camera
from xpr.errors import UserError

SPIRAL_TURNS = 2
SPIRAL_QUANTILE = 90  # per cent of the cameras that the spiral spans along each axis
LEVEL = 0.02  # mean square of the x axes outside one direction: enough to tell where up is
PARALLEL = 1e-3  # share of the squared axes across which they still pin down a common point


def orbit(cameras: Sequence[Camera], n: int) -> list[Camera]:
    """`n` views on a circle around the point the cameras look at; frame n would be frame 0.

    Radius and height over that point are the cameras' median ones, up is theirs (`common_up`);
    it starts at the first camera's side.

    Raises:
      UserError: no cameras.
    """
    poses = _poses(cameras)
    center, up = focus_point(poses), common_up(poses)
    offsets = poses[:, :3, 3] - center
    height = np.median(offsets @ up)
    across = offsets - np.outer(offsets @ up, up)
    radius = np.median(np.linalg.norm(across, axis=1))
    start, side = _horizontal_axes(across[0], up)
    return circle(cameras[0], center, start * radius, side * radius, up * height, n=n)


def circle(
    like: Camera,
    center: np.ndarray,
    start: np.ndarray,
    side: np.ndarray,
    lift: np.ndarray,
    *,
    n: int,
) -> list[Camera]:
    """`n` views from center + lift + start cos(a) + side sin(a), all looking at `center`.

    Args:
      like: whose intrinsics, lens and size the views have.
      center: [3] world units.
      start: [3] radius towards the first view.
      side: [3] radius a quarter turn later.
      lift: [3] height of the circle over `center`, along the up direction.
    """
    up = np.cross(start, side)
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    offsets = np.outer(np.cos(angles), start) + np.outer(np.sin(angles), side) + lift
    return [_camera(like, look_at(center + offset, center, up)) for offset in offsets]


def spiral(cameras: Sequence[Camera], n: int) -> list[Camera]:
    """`n` views on two turns of a flattened helix around the mean pose, as LLFF's videos.

    It spans 90 % of the cameras along each axis of the mean camera; every view looks at the point
    straight ahead of it, as far away as the point the cameras look at. It suits cameras that face
    one way; around an object, where the mean pose lies amid the scene, take `orbit`.

    Raises:
      UserError: no cameras.
    """
    poses = _poses(cameras)
    mean = mean_pose(poses)
    right, down, forward, position = mean[:3].T
    depth = max(np.dot(focus_point(poses) - position, forward), 1e-6)
    local = (poses[:, :3, 3] - position) @ mean[:3, :3]
    reach = np.percentile(np.abs(local), SPIRAL_QUANTILE, axis=0)
    turns = np.linspace(0, SPIRAL_TURNS, n, endpoint=False)
    a = 2 * np.pi * turns
    # The slow third component makes the turns differ, and the whole path a closed one.
    steps = np.stack([np.cos(a), np.sin(a), np.sin(a / SPIRAL_TURNS)], axis=1) * reach
    eyes = position + steps @ np.stack([right, down, forward])
    target = position + depth * forward
    return [_camera(cameras[0], look_at(eye, target, -down)) for eye in eyes]


def interpolate(cameras: Sequence[Camera], n: int) -> list[Camera]:
    """`n` views that pass smoothly through the given poses, in the given order.

    Positions follow a Catmull-Rom spline, rotations the shortest arc from pose to pose. With n - 1
    a multiple of len(cameras) - 1 every given pose is one of the frames.

    Raises:
      UserError: no cameras.
    """
    from scipy.interpolate import CubicHermiteSpline
    from scipy.spatial.transform import Rotation, Slerp

    poses = _poses(cameras)
    if len(poses) == 1:
        return [_camera(cameras[0], poses[0])] * n
    times = np.arange(len(poses))
    at = np.linspace(0, len(poses) - 1, n)
    slopes = np.gradient(poses[:, :3, 3], axis=0)
    frames = np.tile(np.eye(4), (n, 1, 1))
    frames[:, :3, 3] = CubicHermiteSpline(times, poses[:, :3, 3], slopes)(at)
    frames[:, :3, :3] = Slerp(times, Rotation.from_matrix(poses[:, :3, :3]))(at).as_matrix()
    return [_camera(cameras[0], frame) for frame in frames]


PATHS: dict[str, Callable[[Sequence[Camera], int], list[Camera]]] = {
    "orbit": orbit,
    "spiral": spiral,
    "interpolate": interpolate,
}


def look_at(eye: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """World-from-camera [4, 4], OpenCV axes, of a camera at `eye` [3] that sees `target` centred.

    `up` [3] points up in the picture; where it is parallel to the view, any direction does.
    """
    forward = _unit(target - eye, np.array([0.0, 0.0, 1.0]))
    right = _unit(np.cross(forward, up), _unit(np.cross(forward, _least_axis(forward)), forward))
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(forward, right), forward, eye], axis=1)
    return pose


def focus_point(poses: np.ndarray) -> np.ndarray:
    """The point [3] nearest to all optical axes of `poses` [C, 4, 4], by least squares.

    Where the axes are parallel or meet behind the cameras, it is straight ahead of the mean
    camera by the cameras' spread (or by 1 where they share one place).
    """
    eyes, forward = poses[:, :3, 3], poses[:, :3, 2]
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]
    normal = across.mean(axis=0)
    mean = eyes.mean(axis=0)
    if np.linalg.eigvalsh(normal)[0] > PARALLEL:
        point = np.linalg.solve(normal, np.mean(across @ eyes[:, :, None], axis=0)[:, 0])
        if np.median(np.sum((point - eyes) * forward, axis=1)) > 0:
            return point
    spread = np.max(np.linalg.norm(eyes - mean, axis=1))
    return mean + _unit(forward.mean(axis=0), forward[0]) * (spread or 1.0)


def common_up(poses: np.ndarray) -> np.ndarray:
    """The up direction [3] of the world that `poses` [C, 4, 4] show, unit length.

    People hold cameras level: up is the direction most nearly orthogonal to all their x axes,
    which stays right where they all look down from one side. Where the x axes are too alike to
    say, it is the mean up of the pictures.
    """
    up = -poses[:, :3, 1].mean(axis=0)
    right = poses[:, :3, 0]
    spread, axes = np.linalg.eigh(right.T @ right / len(right))
    if spread[1] > LEVEL:
        return axes[:, 0] * (1.0 if axes[:, 0] @ up >= 0 else -1.0)
    return _unit(up, -poses[0, :3, 1])


def mean_pose(poses: np.ndarray) -> np.ndarray:
    """[4, 4] at the mean position, along the mean view direction, with the common up."""
    eye = poses[:, :3, 3].mean(axis=0)
    forward = _unit(poses[:, :3, 2].mean(axis=0), poses[0, :3, 2])
    return look_at(eye, eye + forward, common_up(poses))


def _poses(cameras: Sequence[Camera]) -> np.ndarray:
    """World-from-camera [C, 4, 4], rotations made exactly orthonormal."""
    if not cameras:
        raise UserError("a camera path needs at least one camera, found none.")
    poses = np.linalg.inv(np.stack([np.asarray(c.viewmat, np.float64) for c in cameras]))
    u, _, vt = np.linalg.svd(poses[:, :3, :3])
    poses[:, :3, :3] = u @ vt
    return poses


def _camera(like: Camera, pose: np.ndarray) -> Camera:
    return like.replace(viewmat=np.linalg.inv(pose).astype(np.float32))


def _horizontal_axes(across: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors orthogonal to `up`, the first along `across` where that is not zero."""
    start = _unit(across, _unit(np.cross(up, _least_axis(up)), up))
    return start, np.cross(up, start)


def _least_axis(v: np.ndarray) -> np.ndarray:
    """The coordinate axis that `v` [3] points along least."""
    return np.eye(3)[np.argmin(np.abs(v))]


def _unit(v: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(v)
    return v / length if length > 1e-9 else otherwise
