"""Held-out views at poses that are fitted to their photos, beside the scores of the given ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from training_scenes import blobs, dataset

from xpr.math import rotation_exp
from xpr.pipeline.render import plan
from xpr.train import heldout
from xpr.train.evaluate import evaluate
from xpr.train.photo import Photo, flat

PHOTOS = dataset(count=4)
VIEW = PHOTOS.views[PHOTOS.test[0]]
MOVE = np.eye(4, dtype=np.float32)
MOVE[:3, :3] = rotation_exp(jnp.array([0.02, -0.015, 0.03]))
MOVE[:3, 3] = 0.04, -0.03, 0.05


def misplaced():
    """The photos, with a wrong pose for the held-out one."""
    wrong = VIEW.camera.replace(viewmat=MOVE @ VIEW.camera.viewmat)
    views = [
        dataclasses.replace(view, camera=wrong) if view is VIEW else view for view in PHOTOS.views
    ]
    return dataclasses.replace(PHOTOS, views=tuple(views))


def seen(camera):
    """[N, 2] px where the blobs are."""
    points = jnp.asarray(blobs().mean)
    return np.array(jax.vmap(lambda p: camera.to_pixel(camera.to_camera(p)))(points))


def test_a_known_motion_is_found():
    """To a twentieth of what it does to the picture, from a buffer that is too small at first."""
    data, scene = misplaced(), blobs()
    camera = data.views[data.test[0]].camera
    capacity = dataclasses.replace(plan(scene, [camera]), intersections=8)
    photo = Photo(camera, VIEW.image())
    found = heldout.fitted(scene, photo, flat(0), extent=data.extent, steps=60, capacity=capacity)
    left, was = (np.abs(seen(c) - seen(VIEW.camera)).mean() for c in (found, camera))
    assert was > 0.4 and left < was / 20


def test_both_scores_are_told_and_named():
    """The score at the given pose stays what it was; the other stands beside it."""
    given = evaluate(blobs(), misplaced())
    both = evaluate(blobs(), misplaced(), fit_poses=30)
    assert "psnr_pose_fitted" not in given.summary()
    assert both.scores == given.scores
    told = both.summary()
    assert told["psnr"] == given.psnr and told["pose_fit_steps"] == 30
    assert told["psnr_pose_fitted"] > given.psnr + 3
    assert [score.name for score in both.pose_fitted] == [VIEW.name]
