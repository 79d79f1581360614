"""Every built-in method trains through what it says of itself."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_scenes import QUICK, dataset

from xpr import methods
from xpr.train.fit import fit
from xpr.train.init import initial_scene
from xpr.train.refresh import refreshed, stacked
from xpr.train.trainer import Trainer

NAMES = ("3dgut", "linprim", "linprim-tetrahedron")  # 3DGS has tests of its own


@pytest.fixture(scope="module")
def photos():
    return dataset()


@pytest.mark.parametrize("name", NAMES)
def test_training_raises_the_quality_of_the_training_views(name, photos):
    config = dataclasses.replace(QUICK, method=name, steps=40, log_every=1, cap=64)
    seen = []
    fit(photos, config, progress=lambda progress: seen.append(progress.psnr))
    assert np.mean(seen[-6:]) > np.mean(seen[:6]) + 1


@pytest.mark.parametrize("name", sorted(methods.BUILTIN))
def test_a_reshaped_primitive_has_the_mass_that_was_asked_for(name, photos, x64):
    method = methods.load(name)
    scene = initial_scene(photos, method, QUICK, jax.random.key(0), print)
    one = jax.tree.map(lambda leaf: leaf[0].astype(float), scene)
    half = one.reshaped(jnp.array(0.3), jnp.array(0.5))
    assert abs(half.mass().opacity - 0.3) < 1e-9
    np.testing.assert_allclose(half.mass().scale, 0.5 * one.mass().scale, rtol=1e-9)
    np.testing.assert_allclose(one.moved(jnp.ones(3)).mean, one.mean + 1)


def test_the_3d_filter_is_that_of_the_moved_solids_after_a_refinement(photos):
    config = dataclasses.replace(QUICK, method="linprim", steps=200, cap=48)
    trainer = Trainer(photos, methods.load("linprim"), config)
    try:
        while not trainer.recipe.refinements.due(trainer.done):
            trainer.advance()
        scene = trainer.state.scene
        cameras = stacked(photos.views[i].camera for i in photos.train)
        np.testing.assert_array_equal(scene.filter, refreshed(scene, cameras).filter)
        assert scene.filter.min() > 0
    finally:
        trainer.close()
