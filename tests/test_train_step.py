"""One step on its own: what it looks at, and what it leaves behind. All compile once."""

import jax
import jax.numpy as jnp
import numpy as np
from training_scenes import QUICK, SIZE, View, blobs, dataset, looking_in

from xpr.pipeline.capacity import Capacity
from xpr.train.evaluate import evaluate
from xpr.train.photo import Photo
from xpr.train.state import TrainState
from xpr.train.step import Recipe, compiled_step

CAPACITY = Capacity(128, 1024)
CLEAR = np.zeros((SIZE, SIZE, 4), np.uint8)
ALL = np.ones((SIZE, SIZE), bool)


def begin(scene, step=0):
    state = TrainState.start(scene, QUICK.cap, jax.random.key(0))
    return state.replace(step=jnp.full_like(state.step, step))


def advance(state, image=CLEAR, mask=ALL, **changes):
    recipe = Recipe.of(QUICK, state.scene, 3.0)._replace(**changes)
    photo = Photo(looking_in(0.4), image, mask)
    state, report = compiled_step(state, (photo,), recipe, capacity=CAPACITY)
    assert not report.overflow[0].any
    return state, report


def jumps(step):
    """How far a step moves faded splats that do not learn: by its noise alone."""
    scene = blobs(QUICK.cap).replace(logit_opacity=jnp.full(QUICK.cap, -9.0))
    state = begin(scene, step)
    rates = jax.tree.map(lambda rate: 0 * rate, Recipe.of(QUICK, scene, 3.0).rates)
    return np.asarray(advance(state, rates=rates)[0].scene.mean - scene.mean)


def test_noise_fades_with_the_rate_of_the_positions_and_is_new_each_step():
    """To a hundredth at the last step."""
    first, last = jumps(0), jumps(QUICK.steps - 1)
    np.testing.assert_allclose(last.std() / first.std(), 0.01 / 0.01 ** (1 / 12), rtol=0.2)
    assert abs(np.corrcoef(first.ravel(), last.ravel())[0, 1]) < 0.3


def test_a_refinement_forgets_both_moments_of_the_new_splats():
    """Those of the splats that were not touched stay."""
    before = begin(blobs(40))
    ones = jax.tree.map(jnp.ones_like, before.scene)
    living = np.asarray(before.alive)
    moments = before.moments._replace(mu=ones, nu=jax.tree.map(jnp.copy, ones))
    after, _ = advance(before.replace(moments=moments))
    new = np.asarray(after.alive) & ~living
    assert new.sum() == 2
    for moment in (after.moments.mu, after.moments.nu):
        assert not any(np.any(leaf[new]) for leaf in jax.tree.leaves(moment))
        assert np.sum(np.asarray(moment.logit_opacity)[living] != 0) >= 38


def test_the_first_steps_leave_the_higher_harmonics_alone():
    """Their gradient is zero until their band is in use; that of the constant is not."""
    moments = advance(begin(blobs(40)))[0].moments.mu
    assert np.any(moments.sh0) and not np.any(moments.shN)


def test_a_photo_lies_over_the_background_of_its_render_and_ignored_pixels_do_not_count():
    """An empty scene is a perfect copy of a transparent photo, whatever its hidden colours."""
    image = np.where(np.arange(4) == 3, 0, np.uint8(200)) * np.ones_like(CLEAR)
    image[:9, :, 3] = 255
    mask = ALL & (np.arange(SIZE) >= 9)[:, None]
    state = begin(blobs(40))
    empty = state.replace(alive=jnp.zeros_like(state.alive))
    report = advance(empty, image.astype(np.uint8), mask)[1]
    assert report.loss < 1e-6 and report.psnr > 90


def test_ignored_pixels_do_not_count_in_the_scores(monkeypatch):
    """A black picture of a photo that is black but for what its mask hides."""
    image = np.zeros((SIZE, SIZE, 3), np.uint8)
    image[:9] = 200
    monkeypatch.setattr(View, "image", lambda self: image)
    monkeypatch.setattr(View, "mask", lambda self: ALL & (np.arange(SIZE) >= 9)[:, None])
    unseen = blobs(4).replace(logit_opacity=jnp.full(4, -20.0))
    scores = evaluate(unseen, dataset(count=4)).scores
    assert all(score.psnr == 100 and score.ssim > 1 - 1e-6 for score in scores)
