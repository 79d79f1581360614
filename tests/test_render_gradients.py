"""Gradients of every input, on every lens, against finite differences and the reference backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

pytestmark = pytest.mark.usefixtures("x64")

STEP = 1e-7


def names(case):
    """Each input's name, and its place among the leaves."""
    leaves = jax.tree_util.tree_flatten_with_path(case)[0]
    return {jax.tree_util.keystr(path)[1:]: i for i, (path, _) in enumerate(leaves)}


def finite_difference(case, name, direction):
    """The central difference of the loss as the input `name` moves along `direction`."""
    leaves, treedef = jax.tree.flatten(case)
    i = names(case)[name]

    def value(step):
        moved = [*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]]
        return scenes.slopes(treedef.unflatten(moved))[0][0]

    return float(value(STEP) - value(-STEP)) / (2 * STEP)


def check(case, *, held=()):
    """Every input's gradient along two random directions, but for those that are held fixed."""
    _, grads = scenes.slopes(case)
    r = np.random.default_rng(400)
    for name, i in names(case).items():
        if name in held:
            continue
        grad = np.asarray(jax.tree.leaves(grads)[i])
        for _ in range(2):
            direction = r.normal(size=grad.shape)
            want = finite_difference(case, name, direction)
            scale = np.linalg.norm(grad) * np.linalg.norm(direction)
            assert abs(np.sum(grad * direction) - want) < 1e-6 * scale + 1e-7, name


def same(ours, oracle, tolerance):
    """Equal trees, relative to each leaf's largest value."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(oracle), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


def posed(lens):
    """A case of one lens; with view-dependent colour of the third degree for one of them."""
    return scenes.case(lens, degree=3 if lens == "Pinhole" else 1)


@pytest.mark.parametrize("lens", scenes.LENSES)
def test_every_gradient_is_the_finite_difference(lens):
    check(posed(lens))


@pytest.mark.parametrize("lens", scenes.LENSES)
def test_backends_agree_to_rounding(lens):
    """So the reference's gradients, which are plain autodiff, are the finite differences too."""
    case = posed(lens)
    same(scenes.slopes(case), scenes.slopes(case, backend="reference"), 1e-10)


@pytest.mark.parametrize("lens", scenes.LENSES)
def test_a_splat_at_the_camera_centre_is_culled(lens):
    """Its depth and its viewing direction are zero: no image, no gradient, no NaN."""
    case = posed(lens)
    means = case.scene.mean.at[4].set(case.camera.position)
    (_, output), grads = scenes.slopes(case._replace(scene=case.scene.replace(mean=means)))
    assert int(output.overflow.visible) == len(means) - 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((output, grads)))
    assert all(np.all(leaf[4] == 0) for leaf in jax.tree.leaves(grads.scene))


def test_the_antialiased_opacity_has_its_gradient():
    case = scenes.case()
    check(case._replace(scene=case.scene.replace(antialiased=True)))


def test_a_principal_point_far_off_and_the_limited_jacobian():
    """Splats beyond the border are linearised at the limit of the field of view."""
    case = scenes.case(degree=3)
    camera = case.camera.replace(K=case.camera.K.at[:2, 2].set(jnp.array([2.0, 13.5])))
    outward = jnp.array([-1.5, 1.0, 0.0]) * (jnp.arange(12) % 2)[:, None]
    case = case._replace(camera=camera, scene=case.scene.replace(mean=case.scene.mean + outward))
    points = jax.vmap(camera.to_camera)(case.scene.mean)
    limited = jnp.any(jax.vmap(camera.linearization_point)(points) != points, axis=-1)
    _, grads = scenes.slopes(case)
    assert 0 < limited.sum() < 12
    assert jnp.any(limited & jnp.any(grads.scene.mean != 0, axis=-1))
    check(case)
