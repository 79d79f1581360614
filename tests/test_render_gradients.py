"""Gradients of every input, on every lens, against finite differences and the reference backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

pytestmark = pytest.mark.usefixtures("x64")

STEP = 1e-6


def slices(case):
    """Each input's name, and the flat index range of its entries."""
    leaves = jax.tree_util.tree_flatten_with_path(case)[0]
    return {jax.tree_util.keystr(path)[1:]: i for i, (path, _) in enumerate(leaves)}


def finite_difference(case, name, direction, **options):
    """The central difference of the loss as the input `name` moves along `direction`."""
    leaves, treedef = jax.tree.flatten(case)
    i = slices(case)[name]

    def value(step):
        moved = [*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]]
        return scenes.slopes(treedef.unflatten(moved), **options)[0][0]

    return float(value(STEP) - value(-STEP)) / (2 * STEP)


def check(case, names=None, **options):
    """Every input's gradient along two random directions."""
    _, grads = scenes.slopes(case, **options)
    r = np.random.default_rng(400)
    for name, i in slices(case).items():
        if names and name not in names:
            continue
        grad = np.asarray(jax.tree.leaves(grads)[i])
        for _ in range(2):
            direction = r.normal(size=grad.shape)
            want = finite_difference(case, name, direction, **options)
            scale = np.linalg.norm(grad) * np.linalg.norm(direction)
            assert abs(np.sum(grad * direction) - want) < 1e-6 * scale + 1e-7, name


@pytest.mark.parametrize("lens", scenes.LENSES)
def test_every_gradient_is_the_finite_difference(lens):
    check(scenes.case(lens, degree=3))


@pytest.mark.parametrize("lens", scenes.LENSES)
def test_backends_agree_to_rounding(lens):
    """So the reference's gradients, which are plain autodiff, are the finite differences too."""
    case = scenes.case(lens, degree=3)
    ours, oracle = scenes.slopes(case), scenes.slopes(case, backend="reference")
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(oracle), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * max(1, np.abs(b).max()))


def test_a_principal_point_far_off_and_the_limited_jacobian():
    """Splats beyond the border are linearised at the limit of the field of view."""
    case = scenes.case(degree=3)
    camera = case.camera.replace(K=case.camera.K.at[:2, 2].set(jnp.array([2.0, 13.5])))
    outward = jnp.array([-1.5, 1.0, 0.0]) * (jnp.arange(12) % 2)[:, None]
    case = case._replace(camera=camera, scene=case.scene.replace(mean=case.scene.mean + outward))
    points = jax.vmap(camera.to_camera)(case.scene.mean)
    limited = jnp.any(jax.vmap(camera.linearization_point)(points) != points, axis=-1)
    (_, output), grads = scenes.slopes(case)
    assert 0 < limited.sum() < 12
    assert jnp.any(limited & jnp.any(grads.scene.mean != 0, axis=-1))
    check(case)
