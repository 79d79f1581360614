"""LinPrim's tetrahedron (von Luetzow and Niessner 2025, arXiv 2501.16312)."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from xpr.methods.linprim import LinPrim
from xpr.methods.solid import Solid
from xpr.types import Array, Vec3

# Unit vectors v_i to the corners of a regular tetrahedron: sum v_i = 0, sum v_i v_i^T = 4/3 I.
CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)


class TetrahedronSplat(Solid):
    """Four half-spaces n . (x - center) <= 1."""

    def crossing(self, height: Array, slope: Array) -> tuple[Array, Array]:
        """From the plane on, or up to it."""
        met, far = (1 - height) / slope, jnp.full_like(height, jnp.inf)
        return jnp.where(slope < 0, met, -far), jnp.where(slope > 0, met, far)


class Tetrahedron(LinPrim):
    """A tetrahedron: a vertex along each of four directions. See `LinPrim` for its parameters.

    The directions are those of a regular tetrahedron; each vertex has its own distance.
    """

    distances: ClassVar[int] = 4
    volume: ClassVar[float] = 8 / (9 * 3**0.5)

    def vertices(self) -> Array:
        """At each distance along its direction."""
        return jnp.asarray(CORNERS, self.mean.dtype) * self.reach()[:, None]

    def solid(self, center: Vec3, frame: Array, density: Array, color: Vec3) -> TetrahedronSplat:
        """The faces' normals in the world.

        The face opposite of vertex i holds the others: n . v_j = 1 / d_j for j != i. Since the
        directions are a tight frame, n = 3/4 sum_j (v_j - v_i) / d_j.
        """
        corners, inverse = jnp.asarray(CORNERS, frame.dtype), 1 / self.reach()
        local = 0.75 * (inverse @ corners - jnp.sum(inverse) * corners)
        a, b, c, d = local @ frame.T
        return TetrahedronSplat(
            center, (Vec3.of(a), Vec3.of(b), Vec3.of(c), Vec3.of(d)), density, color
        )

    def radii(self) -> Array:
        """Root mean square of the vertices along each axis, as for a regular one: its distance."""
        return jnp.sqrt(0.75 * jnp.sum(self.vertices() ** 2, axis=0))
