"""Front-to-back blending of one more layer: the recursion that every backend shares."""

from __future__ import annotations

from typing import NamedTuple

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


class Replayed(NamedTuple):
    """One layer on the way back.

    Attributes:
      weight: of the layer in the pixel.
      transmittance: behind it.
      behind: what lies behind it, times its cotangents.
      g_alpha: gradient of the layer's alpha, before it was clamped.
    """

    weight: Array
    transmittance: Array
    behind: Array
    g_alpha: Array


def replay(
    blend: Blend, transmittance: Array, raw: Array, least: Array, seen: Array, behind: Array
) -> Replayed:
    """Put one more layer behind, as `over` does, and find the gradient of its alpha.

    With T the transmittance before layer i, g the channels' cotangents and S_i the blend of the
    layers behind i:  dL/dalpha_i = T (c_i . g) - (S_i . g + T_end g_T) / (1 - alpha_i)
    (Kerbl et al. 2023, appendix; here replayed forwards).

    Args:
      blend: the method's rule.
      transmittance: as for `over`.
      raw: alpha as the method returns it.
      least: below it alpha does not count.
      seen: c_i . g.
      behind: S . g + T_end g_T of this layer and all behind it.
    """
    alpha = opaque(blend, raw, least)
    weight, after = over(blend, transmittance, alpha)
    behind = behind - weight * seen
    slope = jnp.abs(transmittance) * seen - behind / (1 - alpha)
    counts = (weight > 0) & (raw < blend.alpha_max)
    return Replayed(weight, after, behind, jnp.where(counts, slope, 0))
