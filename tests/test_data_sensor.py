"""Camera models of datasets become the right lens, or a named error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpr.data import colmap_binary
from xpr.data.sensor import colmap_sensor
from xpr.errors import DataError
from xpr.lens import OpenCV, OpenCVFisheye, Pinhole


@pytest.mark.parametrize("name", colmap_binary.PARAMETERS)
def test_every_model_projects_and_unprojects_as_colmap_does(name, shared, x64):
    """To 1e-7 px both ways; COLMAP's own inverse is iterated, to about 1e-10 of the plane."""
    golden = np.load(shared / "golden" / "colmap_camera_models.npz")
    size = int(golden["width"]), int(golden["height"])
    sensor = colmap_sensor(name, golden[f"{name}_params"].tolist(), size, "camera 1")
    camera = sensor.camera(np.eye(4), size, np.float64)
    points = jnp.asarray(golden["points"])
    narrow = points[:, 2] > 0.5 * jnp.linalg.norm(points, axis=1)
    assert narrow.sum() > 200 and jax.vmap(camera.sees)(points[narrow]).all()
    pixels = jax.vmap(camera.to_pixel)(points)
    np.testing.assert_allclose(pixels, golden[f"{name}_img"], rtol=0, atol=1e-7)
    expected = golden[f"{name}_cam"]
    known = np.isfinite(expected).all(axis=1)
    flat = jnp.asarray(np.append(expected, np.ones((len(expected), 1)), axis=1)[known])
    rays = camera.rays(jnp.asarray(golden["pixels"][known])).direction
    found = jax.vmap(camera.to_pixel)(jnp.stack([rays.x, rays.y, rays.z], axis=-1))
    np.testing.assert_allclose(found, jax.vmap(camera.to_pixel)(flat), rtol=0, atol=1e-7)


def test_radial_distortion_is_never_a_pinhole():
    sensor = colmap_sensor("SIMPLE_RADIAL", [20, 8, 6, -0.1], (16, 12), "camera 1")
    assert isinstance(sensor.lens, OpenCV)
    assert sensor.distortion is not None and sensor.distortion[0] == -0.1


def test_a_perspective_lens_without_distortion_is_a_pinhole():
    sensor = colmap_sensor("OPENCV", [20, 21, 8, 6, 0, 0, 0, 0], (16, 12), "camera 1")
    assert sensor.lens == Pinhole() and sensor.distortion is None


def test_a_fisheye_with_zero_coefficients_stays_a_fisheye():
    sensor = colmap_sensor("OPENCV_FISHEYE", [20, 21, 3, 6, 0, 0, 0, 0], (16, 12), "camera 1")
    assert sensor.lens == OpenCVFisheye() and not np.any(sensor.distortion)


def test_intrinsics_scale_by_the_true_ratio_of_each_axis():
    """Photos at a quarter, rounded down: 4946 x 3286 becomes 1236 x 821."""
    sensor = colmap_sensor("PINHOLE", [4000, 4100, 2473, 1643], (4946, 3286), "camera 1")
    camera = sensor.camera(np.eye(4), (1236, 821), np.float64)
    x, y = 1236 / 4946, 821 / 3286
    expected = [[4000 * x, 0, 2473 * x], [0, 4100 * y, 1643 * y], [0, 0, 1]]
    np.testing.assert_allclose(camera.K, expected, rtol=1e-15)


@pytest.mark.parametrize("params", [[0, 8, 6], [float("nan"), 8, 6], [20, 8]])
def test_bad_intrinsics_are_refused(params):
    with pytest.raises(DataError, match="camera 1"):
        colmap_sensor("SIMPLE_PINHOLE", params, (16, 12), "camera 1")
