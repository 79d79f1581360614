"""Linear primitives for splatting (von Luetzow and Niessner 2025, arXiv 2501.16312).

Convex solids of constant density. What the octahedron and the tetrahedron share.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.math import logit, normalize, quat_to_rotation
from xpr.methods.appearance import bands, harmonics, view_color
from xpr.methods.screen import land, place
from xpr.methods.solid import Solid
from xpr.types import Array, Mass, Primitive, Projected, Vec3

OPAQUE = 0.99  # alpha of the shortest full chord of a solid of opacity 1
GAUSSIAN = 2.6  # a distance plays a Gaussian's standard deviation times this
SAMPLING = 0.2**0.5  # px, of the 3D filter (Mip-Splatting)
NEAREST = 0.2  # world units: nearer than this no camera samples a solid
MARGIN = 0.15  # of the image: how far outside a camera still samples a solid
SMALLEST, LARGEST = 1e-5, 0.5  # world units, of the spacing that the first solids go by


class LinPrim(Primitive, abc.ABC):
    """The parameters of a solid and how it trains; subclasses say which solid.

    Attributes:
      distances: d, how many it has.
      volume: of the solid whose distances are all 1.
      mean: [3] the centre, world units.
      quat: [4] (w, x, y, z), any norm.
      log_distance: [d] logs of the distances from the centre to the vertices, world units. (The paper
        optimises the distances themselves, at an absolute rate: short runs then never get small.)
      logit_opacity: [].
      sh0: [1, 3] constant spherical-harmonic coefficient of the colour.
      shN: [K - 1, 3] the higher coefficients, K = (degree + 1)^2.
      filter: [] world units: by half of it every distance grows, so that no camera undersamples
        the solid (Mip-Splatting's 3D filter). Not learned: see `refreshed`.
    """

    size_field: ClassVar[str] = "log_distance"
    distances: ClassVar[int]
    volume: ClassVar[float]

    mean: Array
    quat: Array
    log_distance: Array
    logit_opacity: Array
    sh0: Array
    shN: Array
    filter: Array

    @abc.abstractmethod
    def vertices(self) -> Array:
        """[v, 3] in the local frame, world units."""

    @abc.abstractmethod
    def solid(self, center: Vec3, frame: Array, density: Array, color: Vec3) -> Solid:
        """The record; `frame` [3, 3] is world-from-local."""

    @abc.abstractmethod
    def radii(self) -> Array:
        """[3] how far the solid reaches along its local axes, world units."""

    def reach(self) -> Array:
        """[d] the distances as they are drawn: widened by the filter."""
        return jnp.exp(self.log_distance) + jax.lax.stop_gradient(self.filter) / 2

    def project(self, camera: Camera) -> Projected:
        """The solid, and the box around its vertices.

        The density makes a chord of twice the smallest distance as opaque as 0.99 times the
        opacity. (The published rule for the density; alpha by Beer-Lambert is our reading.)
        """
        frame, opacity = quat_to_rotation(self.quat), jax.nn.sigmoid(self.logit_opacity)
        density = -jnp.log1p(-OPAQUE * opacity) / (2 * jnp.min(self.reach()))
        color = view_color(self.sh0, self.shN, self.mean, camera)
        record = self.solid(Vec3.of(self.mean), frame, density, Vec3.of(color))
        return Projected(record, *place(self.mean, self.mean + self.vertices() @ frame.T, camera))

    @classmethod
    def breadth(cls) -> float:
        """The distances of the regular solid that hides as much as a Gaussian of deviation 1.

        Faint ones of opacity o hide o volume / (2 distance), and o 2 pi deviation^2.
        """
        return math.sqrt(4 * math.pi / cls.volume)

    @classmethod
    @functools.partial(jax.jit, static_argnums=0, static_argnames="sh_degree")
    def from_points(  # pyright: ignore[reportIncompatibleMethodOverride] (jax.jit's type)
        cls, points: Array, colors: Array, spacing: Array, *, key: Array, sh_degree: int = 3
    ) -> Self:
        """Solids turned at random, that hide as much as Gaussians as wide as the spacing do.

        (Of the paper's, one spacing large, short runs keep gaps.) See `Primitive.from_points`.
        """
        n = len(points)
        width = jnp.clip(spacing, SMALLEST, LARGEST) * cls.breadth()
        sh0, shN = harmonics(colors, sh_degree)
        return cls(
            mean=points,
            quat=normalize(jax.random.normal(key, (n, 4), points.dtype)),
            log_distance=jnp.tile(jnp.log(width)[:, None], cls.distances),
            logit_opacity=jnp.full(n, logit(jnp.array(0.1))),
            sh0=sh0,
            shN=shN,
            filter=jnp.zeros(n, points.dtype),
        )

    @classmethod
    def learning_rates(cls, extent: float) -> Self:
        """Those of 3DGS, but for the shape. (The published ones are meant for long runs.)

        A solid has no tails: what it does not reach yet tells it nothing, so it must grow and turn
        faster to find out.
        """
        rates: Any = {"mean": 1.6e-4 * extent, "quat": 5e-3, "log_distance": 2e-2}
        rates |= {"logit_opacity": 5e-2, "sh0": 2.5e-3, "shN": 2.5e-3 / 20, "filter": 0.0}
        return cls(**rates)

    def mass(self) -> Mass:
        """The Gaussian as large as the solid."""
        opacity = jax.nn.sigmoid(self.logit_opacity)
        return Mass(opacity, self.radii() / GAUSSIAN, quat_to_rotation(self.quat))

    def active(self, degree: Array) -> Self:
        """With the harmonics above `degree` left out."""
        return self.replace(shN=bands(self.shN, degree))

    def refreshed(self, cameras: Sequence[Camera]) -> Self:
        """With the filter of these cameras: the finest sampling among those that see it."""
        finest = [jnp.min(jax.lax.map(self._sampling, batch)) for batch in cameras]
        width = SAMPLING * jnp.min(jnp.stack(finest))
        return self.replace(filter=jnp.where(jnp.isfinite(width), width, self.filter))

    def _sampling(self, camera: Camera) -> Array:
        """World units a pixel at the centre; infinite if the camera does not see it. []."""
        depth = camera.to_camera(self.mean)[2]
        visible = land(self.mean[None], camera).within(camera, MARGIN)[0] & (depth > NEAREST)
        focal = jnp.maximum(camera.K[0, 0], camera.K[1, 1])
        return jnp.where(visible, depth / focal, jnp.inf)
