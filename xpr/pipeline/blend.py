"""Front-to-back blending of one more layer: the recursion that every backend shares."""

from __future__ import annotations

import jax.numpy as jnp

from xpr.types import Array, Blend


def opaque(blend: Blend, alpha: Array, least: Array | float) -> Array:
    """Alpha as it is blended: clamped to `alpha_max`, and zero below `least`."""
    alpha = jnp.minimum(alpha, blend.alpha_max)
    return jnp.where(alpha >= least, alpha, 0)


def over(blend: Blend, transmittance: Array, alpha: Array) -> tuple[Array, Array]:
    """Put one more layer behind what is already blended.

    Args:
      blend: the method's rule.
      transmittance: of the layers so far. A negative value marks a pixel that is done; its
        magnitude is the final transmittance.
      alpha: of the layer, as `opaque` returns it.

    Returns:
      The layer's weight in the pixel, and the transmittance behind it.
    """
    behind = transmittance * (1 - alpha)
    goes_on = behind > blend.transmittance_min
    if blend.keeps_last:
        lit = transmittance > 0
        last = jnp.where(lit, -behind, transmittance)
        return jnp.where(lit, alpha * transmittance, 0), jnp.where(goes_on, behind, last)
    return (
        jnp.where(goes_on, alpha * transmittance, 0),
        jnp.where(goes_on, behind, -jnp.abs(transmittance)),
    )
