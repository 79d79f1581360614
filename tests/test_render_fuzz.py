"""One broken splat spoils nothing: neither the image nor anybody else's gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

FIELDS = ("mean", "quat", "log_scale", "logit_opacity", "sh0", "shN")
BROKEN = 4
LARGE = (1e5, 1e9, 1e12, 1e15, 1e18, 1e20, 1e25, 1e30, float(np.finfo(np.float32).max))
VALUES = (np.nan, np.inf, -np.inf, 1e-40, -1e-40, 0.0, 20.0, -20.0, 85.0, -85.0)
VALUES += tuple(sign * value for value in LARGE for sign in (1, -1))


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


def without(case, i):
    """The same scene, one splat fully transparent and hence culled."""
    logit = case.scene.logit_opacity.at[i].set(-jnp.inf)
    return case._replace(scene=case.scene.replace(logit_opacity=logit))


def broken(case, field):
    """Every value, in all components of one splat's field, in its first and in its last."""
    leaf = np.asarray(getattr(case.scene, field))
    size = leaf[0].size
    for value in VALUES:
        for where in (slice(None), 0, size - 1):
            new = leaf.copy().reshape(len(leaf), size)
            new[BROKEN, where] = value
            changed = case.scene.replace(**{field: jnp.asarray(new.reshape(leaf.shape))})
            yield (value, where), case._replace(scene=changed)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("backend", ["xla", "reference"])
def test_one_bad_splat_spoils_nothing(field, backend):
    """The image and all gradients are finite; a culled splat leaves no trace at all."""
    case = scenes.case()
    (_, rest), rest_grads = scenes.slopes(without(case, BROKEN), backend=backend)
    culled = 0
    for what, bad in broken(case, field):
        (_, output), grads = scenes.slopes(bad, backend=backend)
        assert finite((output, grads)), what
        if int(output.overflow.visible) == int(rest.overflow.visible):
            culled += 1
            same = jax.tree.map(np.array_equal, (output, grads), (rest, rest_grads))
            assert all(jax.tree.leaves(same)), what
    assert culled > 0


def test_a_zero_quaternion_stands_for_the_identity():
    case = scenes.case()

    def turned(quat):
        quats = case.scene.quat.at[BROKEN].set(jnp.array(quat))
        return scenes.slopes(case._replace(scene=case.scene.replace(quat=quats)))

    (_, zero), grads = turned([0.0, 0.0, 0.0, 0.0])
    (_, identity), _ = turned([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(zero.color, identity.color)
    assert finite(grads)


@pytest.mark.parametrize("opacity", [0.0, 1e-4, 0.9 / 255])
def test_a_splat_too_faint_to_show_is_culled(opacity):
    """Its opacity-aware extent is zero, not NaN."""
    case = scenes.case()
    logit = jnp.log(jnp.array(opacity)) - jnp.log1p(-jnp.array(opacity))
    logits = case.scene.logit_opacity.at[BROKEN].set(logit)
    (_, output), grads = scenes.slopes(
        case._replace(scene=case.scene.replace(logit_opacity=logits))
    )
    assert int(output.overflow.visible) == len(logits) - 1
    assert finite(grads)
    assert grads.scene.logit_opacity[BROKEN] == 0


@pytest.mark.parametrize("backend", ["xla", "reference"])
def test_nothing_but_broken_splats_is_the_background(backend):
    case = scenes.case()
    bad = case._replace(scene=jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), case.scene))
    (_, output), grads = scenes.slopes(bad, backend=backend)
    np.testing.assert_array_equal(output.color, jnp.broadcast_to(case.background, (15, 20, 3)))
    assert finite((output, grads))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves((grads.scene, grads.camera)))
