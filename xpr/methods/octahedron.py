"""LinPrim's octahedron (von Luetzow and Niessner 2025, arXiv 2501.16312)."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from xpr.methods.linprim import LinPrim
from xpr.methods.solid import Solid
from xpr.types import Array, Vec3

# With u the local point over its three half diagonals, |u1| + |u2| + |u3| <= 1 is four slabs.
SLABS = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1))


class OctahedronSplat(Solid):
    """Four slabs |n . (x - center)| <= 1."""

    def crossing(self, height: Array, slope: Array) -> tuple[Array, Array]:
        """Around the slab's middle, half its thickness along the ray to either side."""
        inverse = 1 / slope
        middle, half = -height * inverse, jnp.abs(inverse)
        return middle - half, middle + half


class Octahedron(LinPrim):
    """An octahedron: a pair of vertices on each local axis. See `LinPrim` for its parameters.

    The three distances are its half diagonals.
    """

    distances: ClassVar[int] = 3
    volume: ClassVar[float] = 4 / 3

    def vertices(self) -> Array:
        """At plus and minus each distance, on its axis."""
        ends = jnp.diag(self.reach())
        return jnp.concatenate([ends, -ends])

    def solid(self, center: Vec3, frame: Array, density: Array, color: Vec3) -> OctahedronSplat:
        """The slabs' normals in the world."""
        local = jnp.array(SLABS, frame.dtype) / self.reach()
        a, b, c, d = local @ frame.T
        return OctahedronSplat(
            center, (Vec3.of(a), Vec3.of(b), Vec3.of(c), Vec3.of(d)), density, color
        )

    def radii(self) -> Array:
        """The half diagonals."""
        return self.reach()
