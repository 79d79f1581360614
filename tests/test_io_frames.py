"""A change of frame: cameras that move along see the same picture."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from splat_tables import assert_equal, mild_table, random_table

import xpr
from xpr import io, sh
from xpr.errors import UserError
from xpr.io.frames import axes_matrix, to_axes, transformed

K = np.float32([[60, 0, 30], [0, 60, 20], [0, 0, 1]])


def view(table, viewmat):
    camera = xpr.Camera(jnp.asarray(viewmat, jnp.float32), jnp.asarray(K), width=60, height=40)
    scene = io.to_scene(table)
    return np.asarray(xpr.render(scene, camera, capacity=xpr.Capacity(64, 2048)).color)


def viewmat():
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", [0.2, -0.3, 0.1]).as_matrix()
    matrix[2, 3] = 5
    return matrix


def similarity(scale=1.0, turn=(0.5, 1.1, -2.0), shift=(1, 2, 3)):
    matrix = np.eye(4)
    matrix[:3, :3] = scale * Rotation.from_euler("xyz", turn).as_matrix()
    matrix[:3, 3] = shift
    return matrix


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("mirrored", [False, True])
def test_harmonics_turn_with_the_scene_exact_to_rounding(x64, degree, mirrored):
    turn = similarity()[:3, :3] * (-1 if mirrored else 1)
    rng = np.random.default_rng(degree)
    old = rng.standard_normal((sh.coefficients(degree), 3))
    new = sh.rotation(turn, degree) @ old
    for direction in rng.standard_normal((5, 3)):
        direction /= np.linalg.norm(direction)
        before = sh.evaluate(jnp.asarray(old), jnp.asarray(direction))
        after = sh.evaluate(jnp.asarray(new), jnp.asarray(turn @ direction))
        np.testing.assert_allclose(after, before, atol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_a_moved_camera_sees_the_same_picture_of_a_moved_scene(scale):
    """SH of degree 3, where a wrong turn of the harmonics shows at once."""
    table, matrix = mild_table(40), similarity(scale)
    moved = viewmat() @ np.linalg.inv(matrix)
    moved[:3] *= scale
    before, after = view(table, viewmat()), view(transformed(table, matrix), moved)
    assert np.std(before) > 0.05
    np.testing.assert_allclose(after, before, atol=5e-5)
    unturned = dataclasses.replace(transformed(table, matrix), shN=table.shN)
    assert np.abs(view(unturned, moved) - before).max() > 0.01, "the test can fail"


@pytest.mark.parametrize("axes", ["RUB", "LUF", "RUF"])
def test_axes_flip_there_and_back_without_a_trace(axes):
    table = random_table()
    there = to_axes(table, axes)
    assert there.axes == axes and np.abs(there.mean - table.mean).max() > 1
    assert_equal(to_axes(there, "RDF"), table)


def test_axes_name_where_the_coordinates_point():
    np.testing.assert_array_equal(axes_matrix("RDF", "RUB"), np.diag([1, -1, -1]))
    np.testing.assert_array_equal(axes_matrix("RDF", "RFU") @ [1, 2, 3], [1, 3, -2])
    np.testing.assert_array_equal(axes_matrix("RUB", "LUF"), np.diag([-1, 1, -1]))


def test_a_mirrored_splat_is_the_mirror_image_of_its_ellipsoid():
    table, mirror = random_table(4), np.diag([1.0, -1, 1, 1])
    new = transformed(table, mirror)

    def covariance(t):
        axes = Rotation.from_quat(np.roll(t.quat, -1, axis=1)).as_matrix()
        axes = axes * np.exp(t.log_scale)[:, None]
        return axes @ axes.transpose(0, 2, 1)

    m = mirror[:3, :3]
    np.testing.assert_allclose(covariance(new), m @ covariance(table) @ m.T, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "matrix", [np.diag([1, 2, 1, 1.0]), np.zeros((4, 4)), np.eye(3), np.full((4, 4), np.nan)]
)
def test_what_is_no_similarity_is_refused(matrix):
    with pytest.raises(UserError, match=r"similarity|4x4"):
        transformed(random_table(), matrix)
