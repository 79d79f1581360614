"""How the gradients of many pixels become those of one splat: two ways, one interface.

The replay of a tile works on a splat's inputs at each pixel. A general splat's inputs are its own
leaves, and their gradients are sums over the pixels. A `QuadraticSplat`'s inputs are its few forms.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.grid import Grid
from xpr.types import Array, QuadraticSplat, Ray, Splat, Vec2

HIGHEST = jax.lax.Precision.HIGHEST
SMALLEST = 1.0  # px: a box's half size as far as it scales moments

# In the unit square: the centre and a regular pentagon, for no conic passes through all of them.
ANGLES = 2 * np.pi * np.arange(5) / 5
NODES = np.concatenate([[[0, 0]], np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=-1)])


class Place(NamedTuple):
    """The middle and half the size of splats' boxes, px."""

    center: Vec2
    half: Vec2

    @classmethod
    def of(cls, boxes: Array) -> Place:
        """From boxes [..., 4] (low x, y, high x, y)."""
        low, high = Vec2.of(boxes), Vec2.of(boxes[..., 2:])
        half = high - low
        center = Vec2(0.5 * (low.x + high.x), 0.5 * (low.y + high.y))
        return cls(center, Vec2(*(jnp.maximum(0.5 * side, SMALLEST) for side in half)))


@dataclasses.dataclass(frozen=True)
class Lift(abc.ABC):
    """What a splat is at a pixel.

    Shapes: S splats of each of B tiles with P pixels; `rows` [B, S, D] packed leaves.
    """

    anatomy: Anatomy

    @abc.abstractmethod
    def inputs(self, row: Array, ray: Ray) -> list[Array]:
        """Of one splat a tile (row [B, D]) at the tiles' pixels: arrays that broadcast to [B, P]."""

    @abc.abstractmethod
    def respond(self, inputs: list[Array], ray: Ray) -> tuple[Array, tuple[Array, ...]]:
        """Alpha and the varying channels, [B, P]."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """How many arrays `collect` returns."""

    @abc.abstractmethod
    def collect(self, grads: list[Array], tile: Vec2, place: Place) -> list[Array]:
        """What the gradients of the inputs at a tile's pixels, [B, S, P] each, come to. [B, S] each.

        `tile` is the middle of the tiles, [B, 1] px each, `place` that of the splats, [B, S] each.
        """

    @abc.abstractmethod
    def finish(self, collected: Array, rows: Array, place: Place) -> Array:
        """From the sums over all tiles, [V, n], to gradients of the rows, [V, D]."""


class PerPixel(Lift):
    """The leaves themselves, spread over the pixels."""

    def inputs(self, row: Array, ray: Ray) -> list[Array]:
        """Each leaf, at each pixel."""
        return [jnp.broadcast_to(leaf[:, None], ray.pixel.x.shape) for leaf in row.T]

    def respond(self, inputs: list[Array], ray: Ray) -> tuple[Array, tuple[Array, ...]]:
        """The method's own `evaluate`."""
        return self.anatomy.respond(self.anatomy.unpack(inputs), ray)

    @property
    def width(self) -> int:
        """One a leaf."""
        return sum(self.anatomy.read)

    def collect(self, grads: list[Array], tile: Vec2, place: Place) -> list[Array]:
        """Sums over the pixels, as products with ones (XLA would recompute in a fused sum)."""
        del tile, place
        ones = jnp.ones(grads[0].shape[-1], grads[0].dtype)
        return [jnp.dot(g, ones, precision=HIGHEST) for g in grads]

    def finish(self, collected: Array, rows: Array, place: Place) -> Array:
        """They are the gradients."""
        del rows, place
        return collected


@dataclasses.dataclass(frozen=True)
class PerForm(Lift):
    """The forms' values.

    A tile's pixels come to six moments: the sums of g(p) times the monomials of p. They are moved
    from the tile's frame to that of the splat, where those of all tiles add up. A quadratic is known
    by its values at six nodes, f(p) = sum_j L_j(p) f(node_j), so the sum of g(p) df(p)/dtheta over
    the pixels is that of G_j df(node_j)/dtheta, where the moments give G_j = sum_p g(p) L_j(p).
    """

    tile_size: int

    def inputs(self, row: Array, ray: Ray) -> list[Array]:
        """Each form, at each pixel."""
        return list(self._record([leaf[:, None] for leaf in row.T]).forms(ray.pixel))

    def respond(self, inputs: list[Array], ray: Ray) -> tuple[Array, tuple[Array, ...]]:
        """The method's `respond`; the record it reads colours from matters not here."""
        del ray
        nothing = [jnp.zeros((), inputs[0].dtype)] * sum(self.anatomy.read)
        hit = self._record(nothing).respond(*inputs)
        return hit.alpha, ()

    @property
    def width(self) -> int:
        """Six moments a form."""
        zero = jnp.zeros(())
        nothing = [zero] * sum(self.anatomy.read)
        return 6 * len(jax.eval_shape(lambda: self._record(nothing).forms(Vec2(zero, zero))))

    def collect(self, grads: list[Array], tile: Vec2, place: Place) -> list[Array]:
        """The moments in the splats' frames."""
        half = self.tile_size / 2
        local = (Grid(1, 1, self.tile_size).local_pixels() - half) / half
        basis = jnp.asarray(_monomials(local), grads[0].dtype)
        scale = Vec2(half / place.half.x, half / place.half.y)
        shift = tile - place.center
        shift = Vec2(shift.x / place.half.x, shift.y / place.half.y)
        moments = [jnp.dot(g, basis, precision=HIGHEST) for g in grads]
        return [m for six in moments for m in _moved(six, scale, shift)]

    def finish(self, collected: Array, rows: Array, place: Place) -> Array:
        """To the nodes, and from there through the forms."""
        center, half = place
        forms = list(collected.T.reshape(-1, 6, len(rows)))
        # Written out: XLA would sum over the nodes by slower means.
        at_nodes = [
            tuple(sum(float(w) * m for w, m in zip(row, six, strict=True)) for six in forms)
            for row in np.linalg.inv(_monomials(NODES)).T
        ]

        def at(leaves: list[Array]) -> list[tuple[Array, ...]]:
            there = [Vec2(center.x + half.x * x, center.y + half.y * y) for x, y in NODES.tolist()]
            return [self._record(leaves).forms(pixel) for pixel in there]

        return jnp.stack(jax.vjp(at, list(rows.T))[1](at_nodes)[0], axis=-1)

    def _record(self, leaves: list[Array]) -> QuadraticSplat:
        splat = self.anatomy.unpack(leaves)
        assert isinstance(splat, QuadraticSplat)
        return splat


def lift(splats: Splat, anatomy: Anatomy, tile_size: int) -> Lift:
    """The cheapest way that the splat's class allows."""
    if isinstance(splats, QuadraticSplat) and not anatomy.varying:
        return PerForm(anatomy, tile_size)
    return PerPixel(anatomy)


def _monomials(p: np.ndarray) -> np.ndarray:
    """1, x, y, xx, xy, yy of points [n, 2], side by side: [n, 6]."""
    x, y = p.T
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1)


def _moved(moments: Array, scale: Vec2, shift: Vec2) -> tuple[Array, ...]:
    """The moments [..., 6] of points p as those of scale p + shift."""
    one, x, y, xx, xy, yy = jnp.moveaxis(moments, -1, 0)
    x, y = scale.x * x, scale.y * y
    xx, xy, yy = scale.x * scale.x * xx, scale.x * scale.y * xy, scale.y * scale.y * yy
    return (
        one,
        x + shift.x * one,
        y + shift.y * one,
        xx + shift.x * (2 * x + shift.x * one),
        xy + shift.x * y + shift.y * (x + shift.x * one),
        yy + shift.y * (2 * y + shift.y * one),
    )
