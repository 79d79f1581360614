"""Fisheyes whose image radius is a polynomial of the angle to the axis."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array
from xpr.lens.bent import BentFisheye, decentred, polynomial


class OpenCVFisheye(BentFisheye):
    """OpenCV's `fisheye`: theta (1 + k1 theta^2 + ... + k4 theta^8)."""

    coefficients: ClassVar[tuple[str, ...]] = ("k1", "k2", "k3", "k4")

    def radial(self, r2: Array, k: Array) -> Array:
        """The polynomial over the angle."""
        return polynomial(r2, *k)

    def bend(self, flat: Array, k: Array) -> Array:
        """Radial terms alone."""
        return flat * self.radial(flat @ flat, k)


class ThinPrismFisheye(BentFisheye):
    """COLMAP's THIN_PRISM_FISHEYE: tangential and thin-prism terms beside the radial ones."""

    coefficients: ClassVar[tuple[str, ...]] = ("k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1")

    def radial(self, r2: Array, k: Array) -> Array:
        """The polynomial over the angle."""
        return polynomial(r2, k[0], k[1], k[4], k[5])

    def bend(self, flat: Array, k: Array) -> Array:
        """All terms of the flat point."""
        r2 = flat @ flat
        return flat * self.radial(r2, k) + decentred(flat, k[2], k[3]) + r2 * k[6:]


class RadTanThinPrismFisheye(BentFisheye):
    """COLMAP's RAD_TAN_THIN_PRISM_FISHEYE, Project Aria's FISHEYE624.

    The tangential and the thin-prism terms are of the point that the radial ones have moved.
    """

    coefficients: ClassVar[tuple[str, ...]] = (
        *("k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1"),
        *("s0", "s1", "s2", "s3"),
    )

    def radial(self, r2: Array, k: Array) -> Array:
        """The polynomial over the angle."""
        return polynomial(r2, *k[:6])

    def bend(self, flat: Array, k: Array) -> Array:
        """Radial terms, then the others."""
        moved = flat * self.radial(flat @ flat, k)
        r2 = moved @ moved
        prism = jnp.stack([r2 * (k[8] + k[9] * r2), r2 * (k[10] + k[11] * r2)])
        return moved + decentred(moved, k[7], k[6]) + prism
