"""L1, SSIM and PSNR."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpr.train.loss import l1, photometric_loss, ssim
from xpr.train.metrics import PSNR_MAX, psnr


@pytest.fixture
def golden(shared):
    return dict(np.load(shared / "golden" / "ssim_psnr.npz"))


@pytest.fixture
def pair(getkey):
    return jax.random.uniform(getkey(), (20, 26, 3)), jax.random.uniform(getkey(), (20, 26, 3))


def test_values_and_gradient_in_double_precision(golden, x64):
    """L1, PSNR, SSIM and its gradient agree with the reference."""
    render, target = jnp.asarray(golden["pred"]), jnp.asarray(golden["target"])
    assert abs(l1(render, target) - golden["l1"]) < 1e-15
    assert abs(psnr(render, target) - golden["psnr"]) < 1e-12
    value, gradient = jax.value_and_grad(ssim)(render, target)
    assert abs(value - golden["ssim_inria_zero_padded"]) < 1e-10
    assert np.abs(gradient - golden["g_pred"]).max() < 1e-8 * np.abs(golden["g_pred"]).max()


def test_values_in_single_precision(golden):
    """In float32 values agree to 3e-6, the gradient to 2e-5 of its largest."""
    render, target = jnp.float32(golden["pred"]), jnp.float32(golden["target"])
    assert abs(ssim(render, target) - golden["ssim_inria_zero_padded"]) < 3e-6
    assert abs(psnr(render, target) - golden["psnr"]) < 1e-4
    gradient = jax.grad(ssim)(render, target)
    assert np.abs(gradient - golden["g_pred"]).max() < 2e-5 * np.abs(golden["g_pred"]).max()


def test_gradient_matches_a_finite_difference(x64):
    """The blur that calls itself its own transpose is right about it, at borders too."""
    rng = np.random.default_rng(0)
    a, b, way = (jnp.asarray(rng.uniform(size=(9, 14, 2))) for _ in range(3))
    slope = jnp.vdot(jax.grad(photometric_loss)(a, b), way)
    ahead, behind = (photometric_loss(a + h * way, b) for h in (1e-6, -1e-6))
    assert abs((ahead - behind) / 2e-6 - slope) < 1e-8


def test_equal_images_have_no_loss(pair):
    """Nothing is to be gained on a picture that equals its truth."""
    assert photometric_loss(pair[0], pair[0]) < 1e-6
    assert psnr(pair[0], pair[0]) == PSNR_MAX


def test_the_loss_weighs_both_terms(pair):
    """0.8 L1 + 0.2 (1 - SSIM)."""
    expected = 0.8 * l1(*pair) + 0.2 * (1 - ssim(*pair))
    np.testing.assert_allclose(photometric_loss(*pair), expected, rtol=1e-6)


def test_psnr_is_that_of_what_a_screen_shows(pair):
    """Values below 0 and above 1 count as clipped."""
    render = 3 * pair[0] - 1
    assert psnr(render, pair[1]) == psnr(jnp.clip(render, 0, 1), pair[1])


def test_ignored_pixels_contribute_nothing(pair):
    """Neither value nor gradient changes with what lies under the mask, NaN included."""
    render, target = pair
    mask = jnp.ones(render.shape[:2], bool).at[5:12, 8:].set(False)
    other = jnp.where(mask[..., None], target, jnp.nan)
    plain = jax.value_and_grad(photometric_loss)(render, target, mask)
    strange = jax.value_and_grad(photometric_loss)(render, other, mask)
    assert plain[0] == strange[0]
    np.testing.assert_array_equal(*(gradient for _, gradient in (plain, strange)))
    assert not plain[1][~mask].any() and plain[1][mask].any()
    assert psnr(render, target, mask) == psnr(render, other, mask)


def test_a_full_mask_changes_nothing_and_an_empty_one_gives_zero(pair):
    """A mask weighs the pixels that it keeps, whatever their number."""
    render, target = pair
    full = jnp.ones(render.shape[:2], bool)
    assert abs(photometric_loss(*pair, full) - photometric_loss(*pair)) < 1e-7
    value, gradient = jax.value_and_grad(l1)(render, target, ~full)
    assert value == 0 and not gradient.any()
