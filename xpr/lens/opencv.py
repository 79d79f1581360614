"""OpenCV's perspective lens (`calib3d`), of which COLMAP's radial ones are special cases."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.lens.base import Array
from xpr.lens.bent import BentPerspective, decentred, polynomial


class OpenCV(BentPerspective):
    """A pinhole with rational radial, tangential and thin-prism distortion."""

    coefficients: ClassVar[tuple[str, ...]] = (
        *("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"),
        *("s1", "s2", "s3", "s4"),
    )

    def radial(self, r2: Array, k: Array) -> Array:
        """(1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)."""
        k1, k2, _, _, k3, k4, k5, k6 = k[:8]
        return polynomial(r2, k1, k2, k3) / polynomial(r2, k4, k5, k6)

    def bend(self, flat: Array, k: Array) -> Array:
        """Radial, tangential and thin-prism terms, all of the flat point."""
        r2 = flat @ flat
        prism = jnp.stack([r2 * (k[8] + k[9] * r2), r2 * (k[10] + k[11] * r2)])
        return flat * self.radial(r2, k) + decentred(flat, k[2], k[3]) + prism
