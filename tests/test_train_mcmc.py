"""Redistribution of splats: relocation, growth, noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_scenes import blobs

from xpr.math import quat_to_rotation
from xpr.train import mcmc, slots
from xpr.train.config import FULL_RUN
from xpr.train.sampling import draw

MIN_OPACITY = 0.005


SLOTS = 60  # one size for all, hence one compilation
refine = jax.jit(mcmc.refine)


def refined(scene, alive, key, times=1):
    for each in jax.random.split(key, times):
        out = refine(scene, alive, each, MIN_OPACITY)
        scene, alive = out.scene, out.alive
    return out


def faded(scene, which):
    return scene.replace(logit_opacity=jnp.where(which, -9.0, scene.logit_opacity))


@pytest.mark.parametrize(("double", "tolerance"), [(True, 1e-13), (False, 1e-6)])
def test_shares_of_a_split_splat(shared, double, tolerance):
    """Opacity and scale of each copy agree with the values computed to 80 digits."""
    golden = np.load(shared / "golden" / "mcmc_relocation.npz")
    with jax.enable_x64(double):
        opacities = jnp.asarray(golden["opacities"], float)
        opacity, shrink = mcmc.split(opacities, jnp.asarray(golden["ratios"]))
        scales = shrink[:, None] * golden["scales"]
        np.testing.assert_allclose(opacity, golden["new_opacities"], rtol=tolerance)
        np.testing.assert_allclose(scales, golden["new_scales"], rtol=tolerance)


@pytest.mark.parametrize("copies", [1, 2, 51, 1000])
@pytest.mark.parametrize("opacity", [0.0, 1e-6, 0.3, 0.999999])
def test_copies_let_as_much_light_pass_as_the_one_they_replace(opacity, copies):
    """(1 - x)^n = 1 - o in float32, for any number of copies, and sizes stay finite."""
    shared, shrink = mcmc.split(jnp.array([opacity]), jnp.array([copies]))
    kept = -np.expm1(copies * np.log1p(-np.float64(shared[0])))
    assert abs(kept - opacity) < 1e-6
    assert 0 < shrink[0] <= 1 + 1e-6


def test_faded_splats_move_onto_opaque_ones(getkey):
    """Every relocated splat sits where a living one is, and none below the threshold is left."""
    scene, alive = slots.padded(blobs(SLOTS), SLOTS)
    which = jnp.arange(SLOTS) % 4 == 0
    out = refined(faded(scene, which), alive, getkey())
    assert int(out.moved) == 15 and not out.stalled
    assert mcmc.masses(out.scene).opacity.min() > MIN_OPACITY
    living = {tuple(mean) for mean in np.asarray(scene.mean[~which])}
    assert {tuple(mean) for mean in np.asarray(out.scene.mean)} <= living


def test_only_those_touched_lose_their_moments(getkey):
    """A slot is touched exactly if its numbers changed: stale moments are never used."""
    scene, alive = slots.padded(blobs(40), SLOTS)
    scene = faded(scene, jnp.arange(SLOTS) % 5 == 0)
    out = refined(scene, alive, getkey())
    changed = np.zeros(SLOTS, bool)
    for before, after in zip(jax.tree.leaves(scene), jax.tree.leaves(out.scene), strict=True):
        changed |= np.any(np.reshape(before != after, (SLOTS, -1)), axis=1)
    assert out.touched.any() and not out.touched.all()
    np.testing.assert_array_equal(np.asarray(out.touched) & np.asarray(out.alive), changed)


def test_numbers_grow_by_five_percent_up_to_the_cap(getkey):
    """50 -> 52 -> 54 ..., never above the slots, and a full scene only relocates."""
    scene, alive = slots.padded(blobs(50), SLOTS)
    assert int(refined(scene, alive, getkey()).alive.sum()) == 52
    out = refined(scene, alive, getkey(), times=10)
    assert out.alive.all()
    assert not refined(out.scene, out.alive, getkey()).touched.any()


def test_a_single_splat_grows_too(getkey):
    """Five percent of few is at least one."""
    scene, alive = slots.padded(blobs(1), SLOTS)
    assert refined(scene, alive, getkey(), times=6).alive.sum() == 7


def test_a_scene_of_faded_splats_is_left_alone(getkey):
    """Case 32: with nothing to build on nothing happens, and it is said."""
    scene, alive = slots.padded(faded(blobs(20), True), SLOTS)
    out = refined(scene, alive, getkey())
    assert out.stalled and not out.touched.any() and int(out.alive.sum()) == 20
    assert slots.all_finite(out.scene).all()


def test_splats_that_are_not_finite_are_relocated(getkey):
    """A NaN or an infinity is a faded splat, and never a source."""
    scene, alive = slots.padded(blobs(SLOTS), SLOTS)
    scene = scene.replace(mean=scene.mean.at[3, 1].set(jnp.nan))
    scene = scene.replace(logit_opacity=scene.logit_opacity.at[7].set(jnp.inf))
    out = refined(scene, alive, getkey())
    assert slots.all_finite(out.scene).all() and int(out.moved) == 2


def test_relocation_keeps_the_picture(getkey):
    """A splat and its copies let as much light pass along every line as the one before."""
    scene, alive = slots.padded(blobs(1), SLOTS)
    out = refined(scene, alive, getkey())
    before, after = (mcmc.masses(slots.compact(s, a)) for s, a in ((scene, alive), out[:2]))
    line = np.linspace(-8, 8, 4001)

    def passed(mass):
        spread = np.exp(-0.5 * (line / np.asarray(mass.scale)[:, :1] * 0.12) ** 2)
        return np.prod(1 - np.asarray(mass.opacity)[:, None] * spread, axis=0)

    assert abs(passed(before)[2000] - passed(after)[2000]) < 1e-6
    np.testing.assert_allclose((1 - passed(before)).sum(), (1 - passed(after)).sum(), rtol=1e-5)


def test_noise_shakes_the_faint_along_their_own_axes(getkey):
    """An opaque splat stays; a faint flat one does not leave its plane."""
    scene = blobs(2000)
    flat = jnp.log(jnp.array([0.1, 0.1, 1e-6]))
    faint = jnp.arange(2000) % 2 == 0
    scene = faded(scene.replace(log_scale=jnp.tile(flat, (2000, 1))), faint)
    offset = mcmc.shaken(scene, getkey(), jnp.float32(80), MIN_OPACITY).mean - scene.mean
    assert np.abs(offset[~faint]).max() < 1e-5
    assert np.abs(offset[faint][:, 2]).max() < 1e-5
    expected = 0.1**2 * 80 * jax.nn.sigmoid(100 * (MIN_OPACITY - jax.nn.sigmoid(-9.0)))
    np.testing.assert_allclose(offset[faint][:, :2].std(0), expected, rtol=0.1)


def test_noise_keeps_a_turned_flat_splat_in_its_plane(getkey):
    """The noise lies in the splat's own frame, whatever its rotation."""
    quat = jax.random.normal(getkey(), (200, 4))
    flat = jnp.tile(jnp.log(jnp.array([0.1, 0.1, 1e-6])), (200, 1))
    scene = faded(blobs(200).replace(log_scale=flat, quat=quat), True)
    offset = mcmc.shaken(scene, getkey(), jnp.float32(80), MIN_OPACITY).mean - scene.mean
    normals = jax.vmap(quat_to_rotation)(quat)[:, :, 2]
    assert np.abs(np.sum(offset * normals, axis=1)).max() < 1e-5
    assert np.abs(offset).max() > 0.1


def test_penalty_counts_the_living_only():
    """Mean opacity and mean scale, without the padding."""
    scene, alive = slots.padded(blobs(10), 30)
    mass = mcmc.masses(blobs(10))
    expected = 0.5 * mass.opacity.mean() + 2 * mass.scale.mean()
    found = mcmc.penalty(scene, alive, opacity=0.5, scale=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_published_schedule_and_short_runs():
    """Every 100 steps from 500 to 25,000; a short run refines often enough to grow 18 times."""
    full = mcmc.Schedule.of(FULL_RUN)
    assert (full.start, full.stop, full.every) == (500, 25_000, 100)
    for steps in (100, 600, 2_000, 7_000):
        short = mcmc.Schedule.of(steps)
        due = sum(bool(short.due(np.int32(step))) for step in range(1, steps + 1))
        assert due >= 60 and short.stop < steps


def test_refinements_begin_after_the_start_and_end_with_the_stop():
    """500 is too early, 25,000 the last."""
    full = mcmc.Schedule.of(FULL_RUN)
    steps = (500, 550, 600, 25_000, 25_100)
    assert [step for step in steps if full.due(np.int32(step))] == [600, 25_000]


def test_drawing_follows_the_weights(getkey):
    """Frequencies are proportional; what weighs nothing is never drawn."""
    weights = jnp.array([0.0, 1.0, 0.0, 3.0, 4.0, 0.0, 0.0])
    drawn = np.bincount(draw(getkey(), weights, 80_000), minlength=7)
    np.testing.assert_allclose(drawn / 10_000, weights, atol=0.12)
    assert not drawn[np.asarray(weights) == 0].any()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17])
def test_drawing_reaches_every_item(n, getkey):
    """Blocks that do not divide the number of items lose none."""
    assert set(np.asarray(draw(getkey(), jnp.ones(n), 2_000)).tolist()) == set(range(n))


def test_drawing_among_more_than_two_to_the_24(getkey):
    """Case 33: beyond 2^24 items the draw stays even, to the last one and to the last bit."""
    n = 2**24 + 2**22 + 5
    drawn = np.asarray(draw(getkey(), jnp.full(n, 0.7), 200_000))
    assert drawn.min() >= 0 and drawn.max() < n
    beyond = drawn[drawn >= 2**24]
    assert abs(len(beyond) / 200_000 - (n - 2**24) / n) < 0.004
    assert abs(np.mean(beyond % 2) - 0.5) < 0.01
    assert len(np.unique(drawn)) > 198_000
