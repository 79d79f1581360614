"""A primitive's colour as spherical harmonics: what the methods share."""

from __future__ import annotations

import jax.numpy as jnp

from xpr import sh
from xpr.camera import Camera
from xpr.math import normalize
from xpr.types import Array


def view_color(sh0: Array, shN: Array, mean: Array, camera: Camera) -> Array:
    """The colour of a primitive as one camera sees it.

    Args:
      sh0: [1, 3] constant coefficient.
      shN: [K - 1, 3] the higher ones.
      mean: [3] world units, where the primitive is.
      camera: the view; the direction runs from its centre to the mean.

    Returns:
      [3] linear RGB, at least 0.
    """
    direction = normalize(mean - camera.position)
    basis = sh.basis(direction, sh.degree_of(1 + len(shN)))
    # Side by side in one array they would be copied first, which takes as long as all the rest.
    higher = basis[1:] @ shN if len(shN) else 0
    return sh.lit(basis[0] * sh0[0] + higher)


def harmonics(colors: Array, degree: int) -> tuple[Array, Array]:
    """Coefficients sh0 [N, 1, 3] and shN [N, K - 1, 3] of colours [N, 3] seen alike all round."""
    rest = sh.coefficients(degree) - 1
    return ((colors - 0.5) / sh.C0)[:, None], jnp.zeros((len(colors), rest, 3), colors.dtype)


def bands(shN: Array, degree: Array) -> Array:
    """Coefficients shN [K - 1, 3] with the bands above `degree` [] set to zero."""
    band = jnp.array([sh.band_of(1 + i) for i in range(len(shN))], int)
    return jnp.where(band[:, None] <= degree, shN, 0)
