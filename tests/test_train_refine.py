"""Cameras refined with the scene: what moves, what is kept, and that a resumed run keeps it too."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_scenes import QUICK, dataset

from xpr.camera import Camera
from xpr.errors import DataError, UserError
from xpr.lens import OpenCV
from xpr.train import refine, refined
from xpr.train.config import TrainConfig
from xpr.train.fit import fit
from xpr.train.folder import RunFolder
from xpr.train.strides import left, strides, whitened

STRAIGHT = dataset()
ROUNDS = 60  # times that each view is seen
K1 = np.array([1e-4] + 11 * [0.0], np.float32)


def bent(photos):
    """The same photos with lenses that state k1."""
    views = [
        dataclasses.replace(v, camera=v.camera.replace(lens=OpenCV(), distortion=K1))
        for v in photos.views
    ]
    return dataclasses.replace(photos, views=tuple(views))


PHOTOS = bent(STRAIGHT)
ALL = dataclasses.replace(QUICK, optimize="poses,intrinsics,distortion")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run that refines everything."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, fit(PHOTOS, ALL, out=out)


def cameras(out):
    return [view.camera for view in refined.load(PHOTOS, RunFolder(out).cameras).views]


def test_training_views_move_and_held_out_views_share_their_body(whole):
    """One K and one k1 for all; coefficients that were not stated stay zero."""
    found = cameras(whole[0])
    for i, (now, view) in enumerate(zip(found, PHOTOS.views, strict=True)):
        assert np.array_equal(now.viewmat, view.camera.viewmat) == (i in PHOTOS.test)
        np.testing.assert_array_equal(now.K, found[0].K)
        np.testing.assert_array_equal(now.distortion, found[0].distortion)
    assert not np.array_equal(found[0].K, PHOTOS.views[0].camera.K)
    assert found[0].distortion[0] != K1[0] and not found[0].distortion[1:].any()


def test_a_resumed_run_has_refined_the_same_cameras(whole, tmp_path):
    """Bit for bit, and in one compilation for all cameras."""
    out = tmp_path / "parts"
    fit(PHOTOS, ALL, out=out, stop_after=7)
    resumed = fit(PHOTOS, ALL, resume=out)
    assert resumed.compilations <= 3 and whole[1].compilations <= 3
    for one, other in zip(cameras(out), cameras(whole[0]), strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_lens_without_a_stated_coefficient_is_refused():
    with pytest.raises(UserError, match="no camera of the dataset states a coefficient"):
        fit(STRAIGHT, dataclasses.replace(QUICK, optimize="distortion"))
    with pytest.raises(UserError, match="optimize names 'pose', expected some of poses"):
        TrainConfig(optimize="pose").check()


def test_cameras_of_another_dataset_are_refused(whole, tmp_path):
    file = tmp_path / "cameras.json"
    file.write_text(RunFolder(whole[0]).cameras.read_text().replace("003.png", "9.png"))
    with pytest.raises(DataError, match=r"cameras.json does not hold the cameras.*003.png"):
        refined.load(PHOTOS, file)


def test_only_the_rows_of_the_photos_move():
    """At the first step by one stride, root mean square, against the gradient."""
    views = [PHOTOS.views[i].camera for i in PHOTOS.train]
    state = refine.start(("poses", "intrinsics"), views)
    slope = jax.tree.map(lambda x: jnp.ones_like(x).at[..., 0].set(-2), state.correction)
    place = refine.Place(np.array(2), np.array(0))
    stride = refine.Correction(
        jnp.tile(0.5 * jnp.eye(6), (len(views), 1, 1)), 0.25 * jnp.eye(4)[None], None
    )
    after = refine.descend(state, slope, [place], stride).correction
    uphill = np.array([-2.0, 1, 1, 1, 1, 1])
    for row, rate in ((after.poses[2], 0.5), (after.intrinsics[0], 0.25)):
        slope = uphill[: len(row)]
        np.testing.assert_allclose(row, -rate * slope / np.sqrt(np.mean(slope**2)), rtol=1e-6)
    assert not after.poses[jnp.arange(6) != 2].any() and after.distortion is None


def test_a_disturbed_pose_comes_back():
    """With the scene held, the corrections turn each camera back to where it was."""
    truth = [STRAIGHT.views[i].camera for i in STRAIGHT.train]
    points = np.random.default_rng(1).normal(size=(30, 3)) * 0.4
    motion = 0.02 * np.random.default_rng(0).normal(size=(len(truth), 6))
    disturbance = refine.Correction(jnp.asarray(motion, jnp.float32), None, None)

    def image(camera: Camera):
        return jax.vmap(lambda point: camera.to_pixel(camera.to_camera(point)))(jnp.asarray(points))

    places = [refine.Place(np.array(v), np.array(0)) for v in range(len(truth))]
    wrong = [
        refine.corrected(camera, disturbance, place, jnp.ones(()))
        for camera, place in zip(truth, places, strict=True)
    ]
    state = refine.start(("poses",), truth)
    first = strides(("poses",), truth, 1.0, 0.1, ROUNDS * len(truth))

    @jax.jit
    def step(state, camera, wanted, place, share):
        def loss(correction):
            return jnp.sum(
                (image(refine.corrected(camera, correction, place, jnp.ones(()))) - wanted) ** 2
            )

        value, slope = jax.value_and_grad(loss)(state.correction)
        stride = jax.tree.map(lambda x: x * share, first)
        return refine.descend(state, slope, [place], stride), value

    before, after = 0.0, 0.0
    for i in range(ROUNDS * len(truth)):
        v = i % len(truth)
        share = left(jnp.float32(i), ROUNDS * len(truth))
        state, value = step(state, wrong[v], image(truth[v]), places[v], share)
        before += float(value) * (i < len(truth))
        after += float(value) * (i >= (ROUNDS - 1) * len(truth))
    assert after < 0.01 * before


def test_a_disturbed_lens_comes_back():
    """With points and poses held, from focal lengths 2 % too long and half the coefficients.

    k2 hardly shows at these angles, so that it is only asked to show no error.
    """
    k = np.array([0.06, -0.08] + 10 * [0.0], np.float32)
    truth = [STRAIGHT.views[i].camera.replace(lens=OpenCV(), distortion=k) for i in STRAIGHT.train]
    longer = np.array([[1.02, 1, 1], [1, 1.02, 1], [1, 1, 1]], np.float32)
    wrong = [camera.replace(K=camera.K * longer, distortion=k / 2) for camera in truth]
    points = jnp.asarray(np.random.default_rng(1).uniform(-0.8, 0.8, (40, 3)), jnp.float32)
    parts, place = ("intrinsics", "distortion"), refine.Place(np.array(0), np.array(0))
    state, first = refine.start(parts, wrong), strides(parts, wrong, 3.0, 0.05, 400)

    @jax.jit
    def image(camera):
        return jax.vmap(lambda point: camera.to_pixel(camera.to_camera(point)))(points)

    @jax.jit
    def step(state, camera, wanted, share):
        def loss(correction):
            moved = refine.corrected(camera, correction, place, jnp.ones(()))
            return jnp.sum((image(moved) - wanted) ** 2)

        stride = jax.tree.map(lambda x: x * share, first)
        return refine.descend(state, jax.grad(loss)(state.correction), [place], stride)

    wanted = [image(camera) for camera in truth]
    for i in range(400):
        v = i % len(truth)
        state = step(state, wrong[v], wanted[v], left(jnp.float32(i), 400))
    found = refine.corrected(wrong[0], state.correction, place, jnp.ones(()))
    np.testing.assert_allclose(found.K, truth[0].K, atol=0.02)
    assert abs(found.distortion[0] - k[0]) < 0.003
    np.testing.assert_allclose(image(found), wanted[0], atol=0.01)


def test_every_whitened_number_moves_the_picture_equally_far_and_alone():
    """Of numbers that differ a thousandfold and nearly undo one another."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(200, 3)) @ np.array([[1, 0.2, 0], [0, 1, 0], [0, 0.2, 1e-3]])
    white = whitened(slope)
    moved = slope @ white
    effect = moved.T @ moved / len(slope)
    np.testing.assert_allclose(np.diag(effect), 1, atol=0.15)
    assert np.abs(effect - np.diag(np.diag(effect))).max() < 0.1
    assert not whitened(slope * [1, 1, 0])[2].any()
