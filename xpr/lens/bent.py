"""Lenses in two steps: points land on a flat plane, and the plane is bent.

The flat plane is the pinhole's, or that of the ideal fisheye, where the distance from the centre
is the angle to the axis. What bends it is a polynomial, and the shared inverse unbends it.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from xpr.lens.base import Array, Lens, from_centre
from xpr.lens.inverse import invert
from xpr.math import safe_norm

SAMPLES = 257  # of the angle, from the axis to `widest`
CLOSE = 1e-4  # of the image plane's unit: an inverse that misses by more is none


class Bent(Lens, abc.ABC):
    """A lens that bends a flat plane, valid as far as its radius grows.

    Attributes:
      widest: radians off the axis beyond which the lens is not used in any case.
    """

    widest: ClassVar[float]

    @abc.abstractmethod
    def radius(self, theta: Array) -> Array:
        """How far from the centre of the flat plane a ray lands, `theta` radians off the axis."""

    @abc.abstractmethod
    def flatten(self, point: Array) -> Array:
        """[3] in the camera frame -> [2] on the flat plane."""

    @abc.abstractmethod
    def lift(self, flat: Array) -> tuple[Array, Array]:
        """[2] on the flat plane -> the ray's origin [3] and unit direction [3]."""

    @abc.abstractmethod
    def ahead(self, point: Array, near: float) -> Array:
        """Whether `point` [3] is far enough, and has a place on the flat plane. [] bool."""

    @abc.abstractmethod
    def radial(self, r2: Array, k: Array) -> Array:
        """The factor that stretches a radius whose square is `r2`."""

    @abc.abstractmethod
    def bend(self, flat: Array, k: Array) -> Array:
        """[2] on the flat plane -> [2] on the image plane."""

    def project(self, point: Array, k: Array) -> Array:
        """The bent image of the flat one."""
        return self.bend(self.flatten(point), k)

    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """The ray through the unbent point."""
        return self.lift(self._unbend(xy, k))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Far enough, and where the radius still grows: beyond that there is no image."""
        ahead = self.ahead(point, near)
        flat = self.flatten(jnp.where(ahead, point, jnp.array([0, 0, 1], point.dtype)))
        return ahead & (safe_norm(flat) < self.limit(k))

    def covers(self, xy: Array, k: Array) -> Array:
        """Where the unbent point lies within the valid range, and bends back to `xy`."""
        flat = self._unbend(xy, k)
        missed = safe_norm(self.bend(flat, k) - xy)
        return (safe_norm(flat) < self.limit(k)) & (missed < CLOSE)

    def limit(self, k: Array) -> Array:
        """The radius of the flat plane up to which the bent radius grows. []."""
        growth = jax.vmap(jax.grad(lambda r: r * self.radial(r * r, k)))
        grid = self._grid(k)
        folded = jnp.cumsum(growth(grid) <= 0) > 0
        return jax.lax.stop_gradient(jnp.max(jnp.where(folded, 0, grid)))

    def _unbend(self, xy: Array, k: Array) -> Array:
        """The inverse of `bend`, searched from the inverse of the radius alone."""
        grid = self._grid(k)
        image = jax.lax.cummax(grid * self.radial(grid * grid, k))
        r = safe_norm(xy)
        stretch = jnp.interp(r, image, grid) / jnp.where(r > 0, r, 1)
        return invert(self.bend, xy, k, start=xy * stretch, bound=grid[-1])

    def _grid(self, k: Array) -> Array:
        return self.radius(jnp.linspace(0.0, self.widest, SAMPLES, dtype=k.dtype))


class BentPerspective(Bent, abc.ABC):
    """A bent pinhole, up to 89 degrees off the axis."""

    widest: ClassVar[float] = math.radians(89)

    def radius(self, theta: Array) -> Array:
        """tan(theta)."""
        return jnp.tan(theta)

    def flatten(self, point: Array) -> Array:
        """x/z, y/z."""
        return point[:2] / point[2]

    def lift(self, flat: Array) -> tuple[Array, Array]:
        """Through (x, y, 1)."""
        return from_centre(jnp.append(flat, 1))

    def ahead(self, point: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near


class BentFisheye(Bent, abc.ABC):
    """A bent fisheye: beside and behind the camera's plane it sees as far as its radius grows."""

    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True
    widest: ClassVar[float] = math.pi

    def radius(self, theta: Array) -> Array:
        """The angle itself."""
        return theta

    def flatten(self, point: Array) -> Array:
        """Towards (x, y), as far out as the angle to the axis."""
        r = safe_norm(point[:2])
        aside = r > 1e-9 * jnp.abs(point[2])
        theta = jnp.arctan2(jnp.where(aside, r, 0), jnp.where(aside, point[2], 1))
        scale = theta / jnp.where(aside, r, 1)
        return point[:2] * jnp.where(aside, scale, 1 / jnp.where(aside, 1, point[2]))

    def lift(self, flat: Array) -> tuple[Array, Array]:
        """Inclined to the axis by the length of `flat`."""
        theta = safe_norm(flat)
        tiny = theta < 1e-9
        sideways = jnp.where(tiny, 1, jnp.sin(theta) / jnp.where(tiny, 1, theta))
        return jnp.zeros(3, flat.dtype), jnp.append(flat * sideways, jnp.cos(theta))

    def ahead(self, point: Array, near: float) -> Array:
        """Far enough from the centre, in any direction."""
        return safe_norm(point) > near


def decentred(xy: Array, p1: Array, p2: Array) -> Array:
    """What lens elements off the axis add to `xy` [2] (tangential distortion). [2]."""
    x, y = xy
    r2 = x * x + y * y
    return jnp.stack(
        [2 * p1 * x * y + p2 * (r2 + 2 * x * x), p1 * (r2 + 2 * y * y) + 2 * p2 * x * y]
    )


def polynomial(r2: Array, *k: Array) -> Array:
    """1 + k[0] r2 + k[1] r2^2 + ..."""
    total = jnp.zeros_like(r2)
    for coefficient in reversed(k):
        total = r2 * (coefficient + total)
    return 1 + total
