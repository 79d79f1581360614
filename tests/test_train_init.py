"""The first scene, the optimiser and the settings file."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_scenes import QUICK, blobs, dataset

from xpr import sh
from xpr.errors import DataError
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train import mcmc, optim, slots
from xpr.train.config import TrainConfig
from xpr.train.init import MIN_SPACING, initial_scene, spacing
from xpr.types import count


def test_spacing_is_the_root_mean_square_to_three_neighbours():
    """By hand: a corner with neighbours at 1, 2 and 3."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], float)
    assert abs(spacing(points)[0] - np.sqrt((1 + 4 + 9) / 3)) < 1e-6


def test_spacing_of_duplicates_and_of_few_points_is_positive():
    """Case 41: coincident points get the floor, a lone one what it is told."""
    assert (spacing(np.zeros((9, 3))) == np.float32(MIN_SPACING)).all()
    assert spacing(np.zeros((1, 3)), lone=0.25) == [0.25]
    assert (spacing(np.array([[0, 0, 0], [0, 0, 2.0]])) == 2).all()


def test_more_points_than_the_cap_are_subsampled_and_said():
    """Case 35: a random subset of exactly `cap` points."""
    said = []
    config = dataclasses.replace(QUICK, cap=10)
    scene = initial_scene(dataset(), Gaussian3D, config, jax.random.key(0), said.append)
    assert count(scene) == 10 and any("cap 10" in note for note in said)
    cloud = {tuple(p) for p in dataset().points.positions}
    assert {tuple(p) for p in np.asarray(scene.mean)} <= cloud


def test_points_that_are_not_finite_are_left_out_and_said():
    """With their number."""
    photos = dataset()
    photos.points.positions[4] = np.nan
    said = []
    scene = initial_scene(photos, Gaussian3D, QUICK, jax.random.key(0), said.append)
    assert count(scene) == 29 and any("left out 1 " in note for note in said)


def test_the_first_splats_are_half_opaque_half_as_wide_as_their_spacing_and_coloured():
    """Black points are not quite black: they could never brighten."""
    colors = np.random.default_rng(0).integers(0, 256, (30, 3), np.uint8)
    colors[0] = 0
    photos = dataset(colors=colors)
    scene = initial_scene(photos, Gaussian3D, QUICK, jax.random.key(0), print)
    np.testing.assert_allclose(jax.nn.sigmoid(scene.logit_opacity), 0.5, rtol=1e-6)
    wide = spacing(photos.points.positions)
    np.testing.assert_allclose(np.exp(scene.log_scale), np.tile(wide[:, None] / 2, 3), rtol=1e-5)
    shown = 0.5 + sh.C0 * scene.sh0[:, 0]
    np.testing.assert_allclose(shown, np.maximum(colors, 1) / 255, atol=1e-6)


def test_random_points_fill_the_box_that_the_cameras_look_into():
    """Its centre is where the optical axes meet, and the cameras stand on its sides."""
    middle, photos = np.array([5, -2, -8.0]), dataset(points=0)
    moved = np.eye(4)
    moved[:3, 3] = -middle
    views = tuple(
        dataclasses.replace(v, camera=v.camera.replace(viewmat=v.camera.viewmat @ moved))
        for v in photos.views
    )
    photos = dataclasses.replace(photos, views=views)
    scene = initial_scene(photos, Gaussian3D, QUICK, jax.random.key(0), lambda _: None)
    offset = np.asarray(scene.mean) - middle
    assert np.abs(offset.mean(0)).max() < 1 and 2.5 < np.abs(offset).max() < 3.2


def test_padding_keeps_the_scene_and_repeats_a_real_splat():
    """What is cut back is what was put in; the padding is finite."""
    scene = blobs(7)
    wide, alive = slots.padded(scene, 12)
    assert int(alive.sum()) == 7 and slots.all_finite(wide).all()
    back = slots.compact(wide, alive)
    for one, other in zip(jax.tree.leaves(scene), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_decaying_fields_decay():
    """Positions end at 1 % of their rate, in proportion to the extent; the others keep theirs."""
    rates = optim.rates(blobs(2), 3.0)
    start, end = (optim.decayed(rates, optim.decay(jnp.float32(t), 50)) for t in (0, 50))
    np.testing.assert_allclose(start.mean, 3 * 1.6e-4, rtol=1e-6)
    np.testing.assert_allclose(end.mean, 3 * 1.6e-6, rtol=1e-5)
    assert start.replace(mean=0) == end.replace(mean=0)


def test_a_batch_grows_the_rates_by_its_root():
    """Four views a step, twice the rate."""
    one, four = (optim.rates(blobs(2), 1.0, batch=b) for b in (1, 4))
    assert jax.tree.all(jax.tree.map(lambda a, b: abs(b - 2 * a) < 1e-9, one, four))


def test_rates_fit_a_scene_with_other_static_fields():
    """An antialiased scene has the rates of its method."""
    scene = blobs(2).replace(antialiased=True)
    rate = optim.rates(scene, 1.0)
    assert jax.tree.structure(rate) == jax.tree.structure(scene)


def test_harmonics_warm_up_band_by_band():
    """One more each 1000 of 30,000 steps; the gradient of the others is zero."""
    assert [optim.steps_per_band(steps) for steps in (30_000, 3_000, 3)] == [1000, 100, 1]
    scene = Gaussian3D.from_points(
        jnp.zeros((1, 3)), jnp.ones((1, 3)), jnp.ones(1), key=jax.random.key(0)
    )
    scene = scene.replace(shN=jnp.ones_like(scene.shN))
    shown = optim.warming(scene, jnp.int32(2)).shN[0, :, 0]
    np.testing.assert_array_equal(shown, [1] * 8 + [0] * 7)


def test_a_gradient_that_is_not_finite_is_left_out_and_counted():
    """Of a living splat; dead slots are left out without a count."""
    scene = blobs(5)
    gradient = scene.replace(mean=scene.mean.at[jnp.array([1, 4]), 0].set(jnp.nan))
    kept, dropped = optim.masked(gradient, jnp.arange(5) < 3)
    assert int(dropped) == 1 and slots.all_finite(kept).all()
    np.testing.assert_array_equal(kept.logit_opacity != 0, [True, False, True, False, False])


def test_adam_has_the_papers_averages():
    """A tenth and a thousandth of the first gradient and its square; a direction of length 1."""
    scene = blobs(2)
    twos = jax.tree.map(lambda leaf: jnp.full_like(leaf, 2), scene)
    direction, moments = optim.ascent(twos, optim.start(scene))
    np.testing.assert_allclose(moments.mu.mean, 0.2, rtol=1e-5)
    np.testing.assert_allclose(moments.nu.mean, 0.004, rtol=1e-5)
    np.testing.assert_allclose(direction.mean, 1, rtol=1e-5)


def test_new_splats_start_without_moments():
    """Case 38: after a refinement and one Adam step, the moments are the new gradient's alone."""
    scene, alive = slots.padded(blobs(20), 22)
    state = optim.start(scene)
    ones = jax.tree.map(jnp.ones_like, scene)
    _, state = optim.ascent(ones, state)
    out = mcmc.refine(scene, alive, jax.random.key(0), 0.005)
    mu = slots.where(out.touched, jax.tree.map(jnp.zeros_like, state.mu), state.mu)
    _, state = optim.ascent(jax.tree.map(lambda x: 2 * x, ones), state._replace(mu=mu))
    expected = jnp.where(out.touched, 0.2, 0.29)
    np.testing.assert_allclose(state.mu.logit_opacity, expected, rtol=1e-5)


def test_settings_survive_their_file(tmp_path):
    """What is saved is what is loaded."""
    config = TrainConfig(steps=123, method="3dgs", data="somewhere", seed=9)
    config.save(tmp_path / "config.json")
    assert TrainConfig.load(tmp_path / "config.json") == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[1]", "holds a list"),
        ('{"version": 99}', "another version"),
        ('{"version": 1, "stepz": 4}', "unknown settings: stepz"),
        (None, "does not exist"),
    ],
)
def test_a_settings_file_that_is_none_is_refused(tmp_path, text, words):
    """In one line that says what is wrong."""
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=words):
        TrainConfig.load(path)
