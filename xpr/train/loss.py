"""The photometric loss: L1 and structural similarity.

SSIM is the field's: Wang et al. 2004 with an 11x11 Gaussian window of sigma 1.5 and zero padding,
as 3DGS trains and reports it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import linear_call
from jax.typing import ArrayLike

Array = jax.Array

RADIUS = 5  # px: the window is 11x11
SIGMA = 1.5  # px
C1, C2 = 0.01**2, 0.03**2  # for images in [0, 1]


def _window() -> tuple[float, ...]:
    """The window along one axis, [11].

    The original multiplies it out and rounds the 11x11 window to float32. The marginals of that
    window give the original's values to 1e-10 in float64, the unrounded bell only to 1e-7.
    """
    bell = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    bell /= bell.sum()
    square = np.outer(bell, bell).astype(np.float32).astype(np.float64)
    return tuple((square.sum(0) / np.sqrt(square.sum())).tolist())


WINDOW = _window()


def l1(render: Array, target: Array, mask: Array | np.ndarray | None = None) -> Array:
    """Mean absolute difference of two images [H, W, C] over the pixels of `mask` [H, W]. []."""
    return masked_mean(jnp.abs(render - target), mask)


def ssim(render: Array, target: Array, mask: Array | np.ndarray | None = None) -> Array:
    """Structural similarity of two images, in [-1, 1].

    Args:
      render: [H, W, C] in [0, 1].
      target: [H, W, C] in [0, 1].
      mask: [H, W] bool, False = ignored. Ignored pixels count as black in both images for the
        windows of their neighbours, and have no window of their own.

    Returns:
      [] the mean over pixels and channels.
    """
    if mask is not None:
        render, target = (jnp.where(mask[..., None], image, 0) for image in (render, target))
    a, b = (jnp.moveaxis(image, -1, 0) for image in (render, target))
    # With s = a + b and d = a - b, 2 cov(a, b) + var(a) + var(b) = var(s), and d is small where it
    # counts: each factor is 1 minus a share of d, and float32 does not cancel.
    center = jax.lax.stop_gradient(jnp.mean(a + b))
    s, d = a + b - center, a - b
    near_mean, mean, sum_square, square = jnp.split(_blur(jnp.concatenate([s, d, s * s, d * d])), 4)
    # Nor does var(s), taken about its mean; at the border the window holds less than all of it.
    held = jnp.asarray(_held(*a.shape[1:]), a.dtype)
    sum_mean = near_mean + center * held
    outside = center * (1 - held) * (2 * near_mean + center * held)
    sum_variance, variance = sum_square - near_mean**2 + outside, square - mean**2
    luminance = 1 - 2 * mean**2 / (sum_mean**2 + mean**2 + 2 * C1)
    contrast = 1 - 2 * variance / (sum_variance + variance + 2 * C2)
    return masked_mean(jnp.moveaxis(luminance * contrast, 0, -1), mask)


def photometric_loss(
    render: Array,
    target: Array,
    mask: Array | np.ndarray | None = None,
    *,
    ssim_weight: ArrayLike = 0.2,
) -> Array:
    """(1 - w) L1 + w (1 - SSIM), the loss of 3DGS. [].

    Args:
      render: [H, W, C].
      target: [H, W, C] in [0, 1].
      mask: [H, W] bool, False = ignored: such a pixel contributes nothing.
      ssim_weight: w, in [0, 1].
    """
    difference = l1(render, target, mask)
    weight = jnp.asarray(ssim_weight, difference.dtype)
    return (1 - weight) * difference + weight * (1 - ssim(render, target, mask))


def masked_mean(values: Array, mask: Array | np.ndarray | None) -> Array:
    """The mean of [H, W, C] over the pixels of a mask [H, W] bool; an empty mask gives 0. []."""
    if mask is None:
        return jnp.mean(values)
    kept = jnp.sum(jnp.where(mask[..., None], values, 0))
    return kept / jnp.maximum(jnp.sum(mask) * values.shape[-1], 1)


def _held(height: int, width: int) -> np.ndarray:
    """The share of the window that lies inside an image, at each pixel. [H, W]."""
    rows, columns = (np.convolve(np.ones(n), WINDOW)[RADIUS:-RADIUS] for n in (height, width))
    return np.outer(rows, columns)


def _blur(planes: Array) -> Array:
    """The Gaussian window over [M, H, W], zero padded.

    With zero padding and an even window the blur is its own transpose. Said so, its gradient costs
    as much as itself (2.6 ms for SSIM and gradient of 135x240x3 on a CPU, against 26 ms).
    """
    return linear_call(_blur_residual, _blur_residual, (), planes)


def _blur_residual(_: tuple[()], planes: Array) -> Array:
    rows = _slide(planes, axis=1)
    # Kept apart, or XLA fuses both passes into one of 121 taps.
    return _slide(jax.lax.optimization_barrier(rows), axis=2)


def _slide(planes: Array, axis: int) -> Array:
    """The window along one axis, as shifted sums: they vectorise where convolutions do not."""
    length = planes.shape[axis]
    width = [(RADIUS, RADIUS) if a == axis else (0, 0) for a in range(planes.ndim)]
    padded = jnp.pad(planes, width)
    return sum(
        (
            weight * jax.lax.slice_in_dim(padded, i, i + length, axis=axis)
            for i, weight in enumerate(WINDOW)
        ),
        start=jnp.zeros_like(planes),
    )
