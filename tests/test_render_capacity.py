"""Buffers: planned by themselves, exact in what they report, never short in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import xpr
from xpr.pipeline.capacity import LARGEST, Count, Overflow


def crowd(n):
    """`n` faint splats on one tile of 16 x 16 px."""
    r = np.random.default_rng(n)
    scene = scenes.gaussians(n)
    scene = scene.replace(
        mean=jnp.asarray(r.uniform(-0.5, 0.5, (n, 3)), jnp.float32),
        logit_opacity=jnp.full(n, -4.0),
    )
    K = jnp.array([[18.0, 0, 8], [0, 18, 8], [0, 0, 1]])
    return scene, scenes.view().replace(K=K, width=16, height=16)


@pytest.mark.parametrize("n", [500, 5000])
def test_a_scene_ten_times_larger_still_renders_exactly_without_a_capacity(n):
    """All on one tile: no list is cut short."""
    scene, camera = crowd(n)
    output = xpr.render(scene, camera)
    assert not output.overflow.any
    assert int(output.overflow.visible) > 0.9 * n
    oracle = xpr.render(scene, camera, capacity=xpr.Capacity(n, 1), backend="reference")
    np.testing.assert_allclose(output.color, oracle.color, atol=2e-5)


def test_an_overflow_reports_the_exact_need_and_the_remedy():
    case = scenes.case()
    exact = scenes.shoot(case)
    need = exact.overflow.needed()
    enough = scenes.shoot(case, capacity=need)
    assert not enough.overflow.any
    enough.overflow.check(need)
    np.testing.assert_array_equal(enough.color, exact.color)
    for short in (
        xpr.Capacity(need.visible, need.intersections - 1),
        xpr.Capacity(need.visible - 1, need.intersections),
    ):
        overflow = scenes.shoot(case, capacity=short).overflow
        assert overflow.any
        assert overflow.needed() == need
        with pytest.raises(xpr.CapacityError, match=r"lacks splats .* reserved, .* needed") as told:
            overflow.check(short)
        assert repr(xpr.Capacity.covering(need.visible, need.intersections)) in str(told.value)


def test_a_batch_reports_its_hungriest_view():
    near, far = scenes.view(), scenes.view()
    far = far.replace(viewmat=far.viewmat.at[2, 3].set(40.0))
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), far, near)
    scene = scenes.gaussians()
    planned = xpr.plan(scene, [far, near], settings=scenes.SETTINGS)
    assert planned == xpr.plan(scene, batch, settings=scenes.SETTINGS)
    assert planned == xpr.plan(scene, near, settings=scenes.SETTINGS)
    assert planned.intersections > xpr.plan(scene, far, settings=scenes.SETTINGS).intersections


def test_counts_are_exact_beyond_32_bits():
    counts = jnp.full(5, 2**31 - 1, jnp.int32)
    total = Count.total(counts)
    assert int(total) == 5 * (2**31 - 1)
    assert total.exceeds(LARGEST)
    assert not Count.total(counts[:1]).exceeds(LARGEST)


def test_more_pairs_than_can_be_indexed_is_an_error_with_a_remedy():
    many, few = Count.total(jnp.full(3, 2**31 - 1, jnp.int32)), Count.total(jnp.arange(3))
    overflow = Overflow(few, many, jnp.array(True))
    for ask in (overflow.needed, lambda: overflow.check(xpr.Capacity(4, 4))):
        with pytest.raises(xpr.CapacityError, match=r"6,442,450,941.* pairs.*Render it in parts"):
            ask()
    assert xpr.Capacity.covering(1, LARGEST).intersections == LARGEST


@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_a_capacity_that_no_buffer_can_have_is_refused(size):
    with pytest.raises(xpr.UserError, match=r"capacity\.visible is .*expected 1 to"):
        xpr.Capacity(size, 64)


def test_under_jit_and_vmap_a_capacity_is_asked_for():
    scene, camera = scenes.gaussians(), scenes.view()

    def color(viewmat):
        return xpr.render(scene, camera.replace(viewmat=viewmat)).color

    with pytest.raises(xpr.UserError, match=r"needs a capacity under jax\.jit"):
        jax.jit(color)(camera.viewmat)
    with pytest.raises(xpr.UserError, match=r"needs a capacity under jax\.jit"):
        jax.vmap(color)(camera.viewmat[None])


def test_a_first_gradient_needs_no_capacity():
    """`jax.grad` of an eager render, in the scene and in the camera."""
    case = scenes.case()

    def loss(scene, camera):
        return jnp.sum(xpr.render(scene, camera, settings=scenes.SETTINGS).color ** 2)

    grads = jax.grad(loss, argnums=(0, 1))(case.scene, case.camera)
    assert all(jnp.any(leaf != 0) for leaf in jax.tree.leaves(grads))


def render_some(keep):
    case = scenes.case()
    return scenes.slopes(
        case._replace(
            scene=jax.tree.map(lambda leaf: leaf[keep], case.scene), features=case.features[keep]
        )
    )


def test_a_scene_of_nothing_is_the_background():
    """Forward and backward; a plan exists as well."""
    case = scenes.case()
    (_, output), grads = render_some(slice(0))
    np.testing.assert_array_equal(output.color, jnp.broadcast_to(case.background, (15, 20, 3)))
    assert not output.overflow.any and output.features.shape == (15, 20, 2)
    assert grads.scene.mean.shape == (0, 3)
    assert all(jnp.all(leaf == 0) for leaf in jax.tree.leaves(grads.camera))
    empty = jax.tree.map(lambda leaf: leaf[:0], case.scene)
    assert xpr.plan(empty, case.camera) == xpr.Capacity(1, 1)


def test_a_scene_of_one_splat_is_that_splat():
    case = scenes.case()
    hidden = case.scene.logit_opacity.at[1:].set(-jnp.inf)
    (_, want), want_grads = scenes.slopes(
        case._replace(scene=case.scene.replace(logit_opacity=hidden))
    )
    (_, one), grads = render_some(slice(1))
    np.testing.assert_allclose(one.color, want.color, atol=1e-6)
    np.testing.assert_allclose(grads.scene.mean, want_grads.scene.mean[:1], rtol=1e-4)


def test_a_scene_behind_the_camera_is_the_background_with_zero_gradients():
    case = scenes.case()
    away = case.scene.mean - 20 * jnp.linalg.inv(case.camera.viewmat)[:3, 2]
    (_, output), grads = scenes.slopes(case._replace(scene=case.scene.replace(mean=away)))
    np.testing.assert_array_equal(output.color, jnp.broadcast_to(case.background, (15, 20, 3)))
    assert all(jnp.all(leaf == 0) for leaf in jax.tree.leaves((grads.scene, grads.camera)))
    assert jnp.all(grads.background != 0)


def half(scene):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), scene)


WRONG = {
    "half precision": (lambda s, c: (half(s), c, {}), "the scene is bfloat16, expected float32"),
    "no scene": (lambda s, c: ({"mean": 1}, c, {}), "scene is a dict, expected an xpr.Primitive"),
    "no camera": (lambda s, c: (s, [c], {}), "camera is a list, expected an xpr.Camera"),
    "lengths": (
        lambda s, c: (s.replace(quat=s.quat[:5]), c, {}),
        r"no common leading axis N \(.*quat \(5, 4\)",
    ),
    "one primitive": (
        lambda s, c: (jax.tree.map(lambda leaf: leaf[0], s), c, {}),
        "no common leading axis N .*N = 1",
    ),
    "viewmat": (
        lambda s, c: (s, c.replace(viewmat=c.viewmat[:3]), {}),
        r"camera.viewmat has shape \(3, 4\), expected \(4, 4\)",
    ),
    "batch": (
        lambda s, c: (s, c.replace(viewmat=c.viewmat[None]), {}),
        "a batch of cameras has leading axes",
    ),
    "distortion": (
        lambda s, c: (s, c.replace(distortion=jnp.zeros(4)), {}),
        "camera.distortion has 4 coefficients, Pinhole expects 0",
    ),
    "size": (lambda s, c: (s, c.replace(width=0), {}), "image is 0 x 15 px, expected at least 1"),
    "features": (
        lambda s, c: (s, c, {"features": jnp.zeros((5, 2))}),
        r"features has shape \(5, 2\), expected \(12, F\)",
    ),
    "alive": (lambda s, c: (s, c, {"alive": [True]}), r"alive has shape \(1,\), expected \(12,\)"),
    "background": (
        lambda s, c: (s, c, {"background": jnp.zeros((2, 3))}),
        r"background has shape \(2, 3\), expected \(3,\)",
    ),
    "backend": (
        lambda s, c: (s, c, {"backend": "gpu"}),
        "unknown backend 'gpu'; known: auto, cpu, pallas, xla",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_in_one_line(mistake):
    wrong, message = WRONG[mistake]
    scene, camera, options = wrong(scenes.gaussians(), scenes.view())
    with pytest.raises(xpr.UserError, match=message) as told:
        xpr.render(scene, camera, **{"capacity": scenes.CAPACITY, **options})
    assert "\n" not in str(told.value)
