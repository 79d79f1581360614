"""The analytic world: exact hits, sane light, and a dataset that anyone's loader can read."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from plyfile import PlyData

from xpr import Camera, world
from xpr.errors import UserError
from xpr.world.dataset import photograph
from xpr.world.scene import DOME_RADIUS, FLOOR, FLOOR_RADIUS, SOLIDS, SUN
from xpr.world.solids import Box, Sphere

SIZE = 96  # px of the photographs


def random_rays(count):
    rng = np.random.default_rng(0)
    eyes = rng.standard_normal((count, 3))
    eyes = 1.8 * eyes / np.linalg.norm(eyes, axis=1, keepdims=True)
    eyes[:, 2] = np.abs(eyes[:, 2]) + 0.05
    return eyes, rng.uniform(-0.5, 0.5, (count, 3)) - eyes


def depth_inside(point):
    """Positive where a point [..., 3] lies inside a solid or below the floor."""
    depth = np.where(np.hypot(point[..., 0], point[..., 1]) < FLOOR_RADIUS, -point[..., 2], -1)
    for solid in SOLIDS:
        offset = point - solid.center
        if isinstance(solid, Sphere):
            own = solid.radius - np.linalg.norm(offset, axis=-1)
        else:
            assert isinstance(solid, Box)
            c, s = np.cos(solid.yaw), np.sin(solid.yaw)
            x, y, z = np.moveaxis(offset, -1, 0)
            local = np.stack([c * x + s * y, c * y - s * x, z], axis=-1)
            own = np.min(solid.half - np.abs(local), axis=-1)
        depth = np.maximum(depth, own)
    return depth


def test_first_hits_lie_on_a_surface_with_nothing_before_them():
    eyes, directions = random_rays(2000)
    points = world.first_hit(eyes, directions)
    on_dome = np.abs(np.linalg.norm(points, axis=1) - DOME_RADIUS) < 1e-4
    assert np.all(on_dome | (np.abs(depth_inside(points)) < 1e-4))
    along = np.linspace(0, 0.999, 200)[:, None, None]
    assert np.max(depth_inside(eyes + along * (points - eyes))) < 1e-4


def test_hits_are_on_the_ray():
    eyes, directions = random_rays(500)
    offset = world.first_hit(eyes, directions) - eyes
    sine = np.linalg.norm(np.cross(offset, directions), axis=1)
    assert np.max(sine / np.linalg.norm(directions, axis=1)) < 1e-5


def test_colours_are_in_range_for_any_direction_and_shape():
    rng = np.random.default_rng(1)
    color = world.trace(np.array([0, -1.5, 0.6]), rng.standard_normal((3, 50, 3)))
    assert color.shape == (3, 50, 3) and color.dtype == np.float32
    assert np.all((color >= 0) & (color <= 1))
    assert np.std(color) > 0.05


def test_the_length_of_a_direction_does_not_matter():
    eyes, directions = random_rays(200)
    short, long = world.trace(eyes, 0.01 * directions), world.trace(eyes, 100 * directions)
    np.testing.assert_allclose(short, long, atol=2e-3)


def test_rays_traced_together_equal_rays_traced_alone():
    eyes, directions = random_rays(40)
    alone = [world.trace(e, d) for e, d in zip(eyes, directions, strict=True)]
    np.testing.assert_allclose(world.trace(eyes, directions), alone, atol=1e-6)


def floor_points(count):
    points = np.random.default_rng(3).uniform(-0.7, 0.7, (count, 3)).astype(np.float32)
    points[:, 2] = 0
    return points[depth_inside(points + [0, 0, 1e-3]) < 0]


@pytest.mark.parametrize("solid", SOLIDS)
def test_half_the_sun_is_left_where_a_ray_to_it_touches_the_solid(solid):
    points = floor_points(4000)
    blocked = np.isfinite(solid.hit(points, np.broadcast_to(SUN, points.shape)))
    light = solid.sunlight(points, SUN)
    assert 0 < np.sum(blocked) < len(points)
    assert np.max(light[blocked]) <= 0.5 + 1e-3
    assert np.min(light[~blocked]) >= 0.5 - 1e-3


def test_whatever_lies_in_full_shadow_is_darker_than_anything_in_full_sun():
    points = floor_points(4000)
    light = np.prod([solid.sunlight(points, SUN) for solid in SOLIDS], axis=0)
    seen = world.trace(points + [0, 0, 1e-3], np.array([0, 0, -1.0]))
    brightness = np.mean(seen / FLOOR(points), axis=1)
    assert np.max(brightness[light == 0]) < np.min(brightness[light == 1])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return world.write_dataset(tmp_path_factory.mktemp("world"), views=3, size=SIZE)


def cameras(folder):
    content = json.loads((folder / "transforms.json").read_text())
    K = np.array(
        [[content["fl_x"], 0, content["cx"]], [0, content["fl_y"], content["cy"]], [0, 0, 1]]
    )
    for frame in content["frames"]:
        pose = np.array(frame["transform_matrix"])
        pose[:3, 1:3] *= -1
        viewmat = np.linalg.inv(pose).astype(np.float32)
        camera = Camera(viewmat, K.astype(np.float32), width=content["w"], height=content["h"])
        yield frame["file_path"], camera


def test_the_poses_and_intrinsics_reproduce_the_photographs(dataset):
    """Rays of `xpr.Camera`, traced, are the pictures, but for the pixels that hold an edge."""
    for name, camera in list(cameras(dataset))[:2]:
        rays = camera.rays(jnp.stack(jnp.meshgrid(*[jnp.arange(SIZE) + 0.5] * 2), axis=-1))
        color = world.trace(
            np.stack(list(rays.origin), axis=-1), np.stack(list(rays.direction), axis=-1)
        )
        with Image.open(dataset / name) as photo:
            difference = np.abs(np.asarray(photo) / 255.0 - color)
        assert np.median(difference) < 0.01


def test_the_point_cloud_lies_on_the_photographs(dataset):
    """Points that a view sees in front of everything else have the colour of their pixel."""
    rows = PlyData.read(str(dataset / "sparse.ply"))["vertex"].data
    points = np.stack([rows[c] for c in "xyz"], axis=-1)
    colors = np.stack([rows[c] for c in ("red", "green", "blue")], axis=-1) / 255.0
    name, camera = next(cameras(dataset))
    local = points @ np.asarray(camera.viewmat)[:3, :3].T + np.asarray(camera.viewmat)[:3, 3]
    pixel = local[:, :2] / local[:, 2:] * camera.K[0, 0] + SIZE / 2
    eye = np.asarray(camera.position)
    seen = np.linalg.norm(world.first_hit(eye, points - eye) - points, axis=1) < 1e-3
    inside = seen & (local[:, 2] > 0) & np.all((pixel > 0) & (pixel < SIZE), axis=1)
    assert np.sum(inside) > 500
    with Image.open(dataset / name) as photo:
        x, y = np.floor(pixel[inside]).astype(int).T
        difference = np.abs(np.asarray(photo)[y, x] / 255.0 - colors[inside])
    assert np.median(difference) < 0.02


def test_a_dataset_is_the_same_for_the_same_seed_only(tmp_path):
    def content(name, seed):
        folder = world.write_dataset(tmp_path / name, views=2, size=8, seed=seed)
        return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    first = content("a", 0)
    assert first == content("b", 0)
    assert first != content("c", 1)
    assert set(first) == {"transforms.json", "sparse.ply", "000.png", "001.png"}


def test_a_photograph_averages_over_its_pixels():
    """Each pixel of a small picture is about the mean of the same place in a large one."""
    pose = np.eye(4)
    pose[:3] = [[1, 0, 0, 0], [0, -0.6, 0.8, -1.4], [0, -0.8, -0.6, 1.1]]
    small, large = photograph(pose, 16, 20.0), photograph(pose, 64, 80.0)
    mean = large.reshape(16, 4, 16, 4, 3).mean(axis=(1, 3))
    assert np.mean(np.abs(small - mean)) < 0.01


def test_any_camera_sees_the_world_line_by_line():
    """A pinhole's picture is the photograph; a rolling shutter's ends are those of its poses."""
    pose = np.eye(4, dtype=np.float32)
    pose[:3] = [[1, 0, 0, 0], [0, -0.6, 0.8, -1.4], [0, -0.8, -0.6, 1.1]]
    K = np.array([[20, 0, 8], [0, 20, 8], [0, 0, 1]], np.float32)
    still = Camera(np.linalg.inv(pose), K, width=16, height=16)
    whole = world.picture(still)
    assert np.mean(np.abs(whole - photograph(pose, 16, 20.0))) < 1e-3
    later = still.viewmat + np.array([0.3, 0, 0, 0])[:, None] * np.array([0, 0, 0, 1])
    rolling = still.replace(viewmat_end=later.astype(np.float32), shutter="top_to_bottom")
    lines, end = world.picture(rolling), world.picture(still.replace(viewmat=rolling.viewmat_end))
    np.testing.assert_allclose(lines[0], whole[0], atol=1e-3)
    np.testing.assert_allclose(lines[-1], end[-1], atol=1e-3)
    assert np.abs(lines[8] - whole[8]).max() > 0.05


def test_an_impossible_size_is_refused(tmp_path):
    with pytest.raises(UserError, match="0 views"):
        world.write_dataset(tmp_path, views=0)
