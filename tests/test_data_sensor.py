"""Camera models of datasets become the right lens, or a named error."""

import jax
import numpy as np
import pytest

from xpr.data.sensor import MODELS, colmap_sensor
from xpr.errors import DataError
from xpr.lens import OpenCV, OpenCVFisheye, Pinhole


@pytest.mark.parametrize("name", MODELS)
def test_every_model_projects_as_colmap_does(name, shared, x64):
    """To 1e-7 px; a perspective model has no image of what lies behind it."""
    golden = np.load(shared / "golden" / "colmap_camera_models.npz")
    size = int(golden["width"]), int(golden["height"])
    sensor = colmap_sensor(name, golden[f"{name}_params"].tolist(), size, "camera 1")
    camera = sensor.camera(np.eye(4), size, np.float64)
    points, expected = golden["points"], golden[f"{name}_img"]
    seen = np.isfinite(expected).all(axis=1)
    if sensor.lens.perspective:
        seen &= points[:, 2] > 1e-3
    assert seen.sum() > 50
    pixels = jax.vmap(camera.to_pixel)(points)
    np.testing.assert_allclose(pixels[seen], expected[seen], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("FOV", 5),
        ("THIN_PRISM_FISHEYE", 12),
        ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
        ("SIMPLE_DIVISION", 4),
        ("DIVISION", 5),
        ("EUCM", 6),
        ("EQUIRECTANGULAR", 2),
    ],
)
def test_a_model_without_a_lens_is_refused_with_the_way_round_it(name, count):
    with pytest.raises(DataError, match=rf"camera 7.*{name}.*colmap image_undistorter"):
        colmap_sensor(name, [1.0] * count, (10, 10), "cameras.bin, camera 7")


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
