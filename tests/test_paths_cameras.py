"""Camera paths: proper rotations, and what each path promises."""

import numpy as np
import pytest

from xpr import Camera, paths
from xpr.errors import UserError

TARGET = np.array([0.3, -0.2, 0.5])
UP = np.array([0.0, 0.0, 1.0])


def camera(eye, target=TARGET, up=UP, width=40):
    viewmat = np.linalg.inv(paths.look_at(np.asarray(eye, float), np.asarray(target), up))
    K = np.float32([[50, 0, 20], [0, 50, 15], [0, 0, 1]])
    return Camera(viewmat.astype(np.float32), K, width=width, height=30)


@pytest.fixture
def ring():
    """Seven cameras around the target, at slightly varied heights and distances."""
    a = np.linspace(0, 5.5, 7)
    eyes = np.stack([2 * np.cos(a), 2 * np.sin(a), 1 + 0.2 * np.sin(3 * a)], axis=1)
    return [camera(TARGET + eye) for eye in eyes]


def poses(frames):
    return np.linalg.inv(np.stack([frame.viewmat for frame in frames]).astype(float))


@pytest.mark.parametrize("path", paths.PATHS.values(), ids=paths.PATHS)
def test_every_frame_is_a_rigid_float32_pose_with_the_first_intrinsics(ring, path):
    frames = path(ring, 23)
    assert len(frames) == 23
    for frame in frames:
        rotation = frame.viewmat[:3, :3].astype(float)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-6)
        np.testing.assert_allclose(np.linalg.det(rotation), 1, atol=1e-6)
        assert frame.viewmat.dtype == np.float32
        assert frame.K is ring[0].K and (frame.width, frame.height) == (40, 30)


def test_an_orbit_looks_at_the_common_point_from_one_height_and_distance(ring):
    found = poses(paths.orbit(ring, 12))
    offset = TARGET - found[:, :3, 3]
    distance = np.linalg.norm(offset, axis=1)
    np.testing.assert_allclose(found[:, :3, 2], offset / distance[:, None], atol=1e-5)
    np.testing.assert_allclose(distance, distance[0], rtol=1e-5)
    np.testing.assert_allclose(found[:, 2, 3], found[0, 2, 3], atol=1e-5)
    assert np.all(found[:, 2, 1] < 0), "y points down in the picture"


def test_an_orbit_closes_with_even_steps(ring):
    eyes = poses(paths.orbit(ring, 12))[:, :3, 3]
    steps = np.linalg.norm(eyes - np.roll(eyes, 1, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-4)


def test_an_orbit_starts_on_the_side_of_the_first_camera(ring):
    first, start = poses(ring[:1])[0, :3, 3], poses(paths.orbit(ring, 12))[0, :3, 3]
    assert np.linalg.norm(first - start) < 0.4


def test_the_focus_is_where_the_axes_meet(ring):
    np.testing.assert_allclose(paths.focus_point(poses(ring)), TARGET, atol=1e-5)


def test_up_is_found_from_cameras_that_all_look_down_from_one_side():
    cameras = [camera(TARGET + [np.cos(a), np.sin(a), 2]) for a in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(paths.common_up(poses(cameras)), UP, atol=1e-6)


@pytest.mark.parametrize(
    "eyes", [[[0, 0, 0]], [[0, 0, 0], [1, 0, 0]], [[0, 0, 0]] * 2], ids=["one", "parallel", "same"]
)
def test_parallel_axes_focus_straight_ahead(eyes):
    cameras = [camera(eye, np.add(eye, [0, 1, 0])) for eye in eyes]
    point = paths.focus_point(poses(cameras))
    assert np.isfinite(point).all()
    assert point[1] > 0.4


def test_cameras_that_look_outward_focus_ahead_of_them():
    eyes = [[np.cos(a), np.sin(a), 0] for a in (-0.2, 0.0, 0.2)]
    cameras = [camera(eye, np.multiply(eye, 2)) for eye in eyes]
    assert paths.focus_point(poses(cameras))[0] > 1


@pytest.mark.parametrize("path", paths.PATHS.values(), ids=paths.PATHS)
@pytest.mark.parametrize("count", [1, 2])
def test_few_cameras_still_give_finite_paths(path, count):
    frames = path([camera([2, i, 1]) for i in range(count)], 5)
    assert np.isfinite(np.stack([frame.viewmat for frame in frames])).all()


def test_a_spiral_stays_in_front_and_looks_at_one_point(ring):
    cameras = [camera([0.2 * i, -3, 0.1 * (i % 2)]) for i in range(5)]
    found = poses(paths.spiral(cameras, 24))
    focus = paths.focus_point(found)
    ahead = focus - found[:, :3, 3]
    np.testing.assert_allclose(
        found[:, :3, 2], ahead / np.linalg.norm(ahead, axis=1)[:, None], atol=1e-4
    )
    given = poses(cameras)[:, :3, 3]
    slack = 0.2
    assert np.all(found[:, :3, 3] > given.min(axis=0) - slack)
    assert np.all(found[:, :3, 3] < given.max(axis=0) + slack)


def test_interpolation_passes_through_every_given_pose(ring):
    frames = paths.interpolate(ring, 4 * 6 + 1)
    for given, frame in zip(ring, frames[::4], strict=True):
        np.testing.assert_allclose(frame.viewmat, given.viewmat, atol=1e-6)


def test_interpolation_is_smooth(ring):
    eyes = poses(paths.interpolate(ring, 601))[:, :3, 3]
    velocity = np.diff(eyes, axis=0)
    turn = np.linalg.norm(np.diff(velocity, axis=0), axis=1)
    assert np.max(turn) < 0.1 * np.mean(np.linalg.norm(velocity, axis=1))


@pytest.mark.parametrize("path", paths.PATHS.values(), ids=paths.PATHS)
def test_no_cameras_are_refused(path):
    with pytest.raises(UserError, match="at least one camera"):
        path([], 5)


@pytest.mark.parametrize("up", [[0, 0, 1], [0, 0, -1], [0, 0, 0]])
def test_looking_along_the_up_direction_is_still_a_rotation(up):
    pose = paths.look_at(np.zeros(3), np.array([0.0, 0, 2]), np.array(up, float))
    np.testing.assert_allclose(np.linalg.det(pose[:3, :3]), 1)
