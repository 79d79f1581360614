"""Laws of rendering: what must not matter does not, what is linear is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from test_render_gradients import same

import xpr
from xpr import sh
from xpr.pipeline.admit import admit


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def images(output):
    return output.color, output.alpha, output.depth, output.features


def test_the_order_of_primitives_does_not_matter():
    case = scenes.case()
    order = np.random.default_rng(1).permutation(len(case.scene.mean))
    shuffled = case._replace(
        scene=jax.tree.map(lambda leaf: leaf[order], case.scene), features=case.features[order]
    )
    (_, a), grads = scenes.slopes(case)
    (_, b), shuffled_grads = scenes.slopes(shuffled)
    same(images(b), images(a), 1e-6)
    same(shuffled_grads.scene, jax.tree.map(lambda leaf: leaf[order], grads.scene), 2e-5)


def test_a_batch_of_cameras_is_the_loop_over_them():
    cases = [scenes.case()._replace(camera=scenes.view(seed=seed)) for seed in range(3)]
    backgrounds = jnp.linspace(0, 1, 9).reshape(3, 3)
    batch = cases[0]._replace(camera=stack([c.camera for c in cases]), background=backgrounds)
    loop = [scenes.shoot(c._replace(background=b)) for c, b in zip(cases, backgrounds, strict=True)]
    same(scenes.shoot(batch), stack(loop), 1e-6)


def test_vmap_over_cameras_is_the_loop_with_its_gradients():
    cases = [scenes.case()._replace(camera=scenes.view(seed=seed)) for seed in range(2)]
    batch = cases[0]._replace(camera=stack([c.camera for c in cases]))
    axes = scenes.Case(None, 0, None, None)

    def slopes(case):
        return scenes.jit_slopes.__wrapped__(case, "xla", scenes.SETTINGS)

    mapped = jax.jit(jax.vmap(slopes, in_axes=(axes,)), compiler_options=scenes.QUICK)
    same(mapped(batch), stack([scenes.slopes(c) for c in cases]), 2e-5)


def test_vmap_over_scenes_is_the_loop():
    cases = [scenes.case()._replace(scene=scenes.gaussians(seed=seed)) for seed in range(2)]
    batch = cases[0]._replace(scene=stack([c.scene for c in cases]))
    axes = scenes.Case(0, None, None, None)

    def draw(case):
        return scenes.draw(case, None, "xla", scenes.SETTINGS, scenes.CAPACITY)

    mapped = jax.jit(jax.vmap(draw, in_axes=(axes,)), compiler_options=scenes.QUICK)
    same(mapped(batch), stack([scenes.shoot(c) for c in cases]), 1e-6)


def test_the_background_is_linear():
    case = scenes.case()
    bright, dark = (
        scenes.shoot(case._replace(background=b)) for b in (case.background, jnp.zeros(3))
    )
    want = (1 - dark.alpha)[..., None] * case.background
    np.testing.assert_allclose(bright.color - dark.color, want, atol=1e-6)


def test_features_are_linear():
    case = scenes.case()
    other = jnp.asarray(np.random.default_rng(2).normal(size=case.features.shape), jnp.float32)
    first, second, both = (
        scenes.shoot(case._replace(features=f)).features
        for f in (case.features, other, 2 * case.features - other)
    )
    np.testing.assert_allclose(both, 2 * first - second, atol=1e-5)


def test_features_that_are_the_colours_give_the_picture():
    case = scenes.case()
    scene = case.scene.replace(shN=jnp.zeros_like(case.scene.shN))
    colors = jnp.maximum(0.5 + sh.C0 * scene.sh0[:, 0], 0)
    output = scenes.shoot(
        case._replace(scene=scene, features=colors[:, 1:], background=jnp.zeros(3))
    )
    np.testing.assert_allclose(output.features, output.color[..., 1:], atol=1e-6)


def test_a_splat_that_is_not_alive_is_as_good_as_deleted():
    case, keep = scenes.case(), np.arange(12) % 4 != 1
    fewer = case._replace(
        scene=jax.tree.map(lambda leaf: leaf[keep], case.scene), features=case.features[keep]
    )
    masked, deleted = scenes.shoot(case, jnp.asarray(keep)), scenes.shoot(fewer)
    same(images(masked), images(deleted), 1e-6)
    assert int(masked.overflow.visible) == int(deleted.overflow.visible)


@pytest.mark.parametrize(
    "change",
    [{"tile_size": 16, "batch": 1, "loops": 2}, {"tile_size": 4, "batch": 64, "chunk": 1}],
)
def test_how_the_work_is_cut_up_does_not_matter(change):
    case = scenes.case()
    settings = dataclasses.replace(scenes.SETTINGS, **change)
    ours, oracle = scenes.shoot(case, settings=settings), scenes.shoot(case)
    assert not ours.overflow.any
    same(images(ours), images(oracle), 2e-6)


def test_gradients_in_single_precision_are_the_reference_s_however_cut():
    case = scenes.case()
    settings = dataclasses.replace(scenes.SETTINGS, tile_size=5, batch=7, chunk=32, loops=2)
    (_, ours), grads = scenes.slopes(case, settings=settings)
    (_, oracle), oracle_grads = scenes.slopes(case, backend="reference")
    same(images(ours), images(oracle), 2e-6)
    same(grads, oracle_grads, 2e-5)


def test_a_new_view_does_not_compile_again():
    """Pose, intrinsics and distortion are data; so is every value of the scene."""
    case = scenes.case("OpenCV")
    scenes.shoot(case)
    before = scenes.jit_draw._cache_size()
    camera = scenes.view("OpenCV", seed=5)
    camera = camera.replace(K=1.1 * camera.K, distortion=0.5 * camera.distortion)
    output = scenes.shoot(scenes.case("OpenCV", seed=5)._replace(camera=camera))
    assert jnp.max(output.alpha) > 0.5
    assert scenes.jit_draw._cache_size() == before


def test_single_precision_stays_single_under_x64():
    case = scenes.case()
    want = scenes.shoot(case)
    with jax.enable_x64(True):
        output = scenes.shoot(case)
        slopes = jax.eval_shape(lambda: scenes.jit_slopes.__wrapped__(case, "xla", scenes.SETTINGS))
    assert {leaf.dtype for leaf in jax.tree.leaves(slopes[1])} == {jnp.dtype("float32")}
    assert {image.dtype for image in images(output)} == {jnp.dtype("float32")}
    same(output, want, 1e-6)


def test_a_camera_of_numpy_doubles_is_taken_as_the_scene_s_dtype():
    """Data loaders make such cameras; with x64 or without, the scene decides."""
    case = scenes.case("OpenCV")
    double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), case)

    def color(scene):
        options = {"background": double.background, "features": double.features}
        return xpr.render(scene, double.camera, capacity=scenes.CAPACITY, **options).color

    with jax.enable_x64(True):
        assert admit(case.scene, double.camera)[1].K.dtype == jnp.float32
        assert jax.eval_shape(color, double.scene).dtype == jnp.float64
    assert jax.eval_shape(color, double.scene).dtype == jnp.float32
    same(admit(double.scene, double.camera), (case.scene, case.camera), 1e-7)
    assert double.camera.resized(40, 30).K.dtype == jnp.float32
