"""Every built-in method trains through what it says of itself."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_scenes import QUICK, dataset

from xpr import methods
from xpr.train.init import initial_scene
from xpr.train.refresh import refreshed, stacked
from xpr.train.trainer import Trainer


@pytest.fixture(scope="module")
def photos():
    return dataset()


@pytest.mark.parametrize("name", sorted(methods.BUILTIN))
def test_a_reshaped_primitive_has_the_mass_that_was_asked_for(name, photos, x64):
    method = methods.load(name)
    scene = initial_scene(photos, method, QUICK, jax.random.key(0), print)
    one = jax.tree.map(lambda leaf: leaf[0].astype(float), scene)
    half = one.reshaped(jnp.array(0.3), jnp.array(0.5))
    assert abs(half.mass().opacity - 0.3) < 1e-9
    np.testing.assert_allclose(half.mass().scale, 0.5 * one.mass().scale, rtol=1e-9)
    np.testing.assert_allclose(one.moved(jnp.ones(3)).mean, one.mean + 1)


def test_octahedra_learn_and_their_3d_filter_follows_them(photos):
    """In 60 steps the loss falls by a tenth; a refinement leaves the filter as the solids lie."""
    config = dataclasses.replace(QUICK, method="linprim", steps=1000, cap=48)
    trainer, losses = Trainer(photos, methods.load("linprim"), config), []
    try:
        while trainer.done < 60 or not trainer.recipe.refinements.due(trainer.done):
            losses.append(float(trainer.advance().loss))
        scene = trainer.state.scene
        cameras = stacked(photos.views[i].camera for i in photos.train)
        np.testing.assert_array_equal(scene.filter, refreshed(scene, cameras).filter)
        assert scene.filter.min() > 0
    finally:
        trainer.close()
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:20])
