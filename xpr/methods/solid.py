"""A convex solid of constant density, met along the ray: what LinPrim's primitives look like.

Alpha follows from the length of the ray's chord through it (Beer-Lambert).
"""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp

from xpr.types import Array, Blend, Hit, Ray, Splat, Vec3


class Solid(Splat, abc.ABC):
    """A convex solid around its centre, bounded by planes n . (x - center) = 1.

    Attributes:
      center: world units.
      normals: n of four planes, 1/world units.
      density: of absorption, 1/world units.
      color: linear RGB.
    """

    blend: ClassVar[Blend] = Blend(transmittance_min=1e-3, keeps_last=True)

    center: Vec3
    normals: tuple[Vec3, Vec3, Vec3, Vec3]
    density: Array
    color: Vec3

    @abc.abstractmethod
    def crossing(self, height: Array, slope: Array) -> tuple[Array, Array]:
        """Where a ray with n . x = height + slope t is inside one plane, or one pair of them."""

    def interval(self, ray: Ray) -> tuple[Array, Array, Array]:
        """How far along the ray the point next to the centre is, and from where to where it is inside.

        Both ends are counted from that point, so that no digits cancel in the chord of a small
        solid far away; the first is larger if the ray misses it.
        """
        offset = ray.origin - self.center
        middle = -ray.direction.dot(offset)
        nearest = offset + ray.direction * middle
        slopes = [n.dot(ray.direction) for n in self.normals]
        # A plane parallel to the ray is met very far away.
        slopes = [jnp.where(jnp.abs(s) < 1e-12, 1e-12, s) for s in slopes]
        heights = [n.dot(nearest) for n in self.normals]
        spans = [self.crossing(h, s) for h, s in zip(heights, slopes, strict=True)]
        enter = jnp.maximum(*(jnp.maximum(*pair) for pair in _pairs([a for a, _ in spans])))
        leave = jnp.minimum(*(jnp.minimum(*pair) for pair in _pairs([b for _, b in spans])))
        return middle, enter, leave

    def evaluate(self, ray: Ray) -> Hit:
        """Alpha = 1 - exp(-density chord), the chord counted from the ray's origin on."""
        middle, enter, leave = self.interval(ray)
        chord = jnp.maximum(leave - jnp.maximum(enter, -middle), 0)
        return Hit(1 - jnp.exp(-self.density * chord), self.color)


def _pairs(items: list[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    a, b, c, d = items
    return (a, b), (c, d)
