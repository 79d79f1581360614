"""How the gradients of many pixels become those of one splat: two ways, one interface.

The replay of a tile works on a splat's inputs at each pixel. A general splat's inputs are its own
leaves, and their gradients are sums over the pixels. A `QuadraticSplat`'s inputs are its few forms.
"""

from __future__ import annotations

import abc
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from xpr.pipeline.anatomy import Anatomy
from xpr.types import Array, QuadraticSplat, Ray, Splat, Vec2

HIGHEST = jax.lax.Precision.HIGHEST


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

    @abc.abstractmethod
    def pull(self, grads: list[Array], rows: Array, corner: Vec2) -> Array:
        """Gradients of the inputs, [B, S, P] each, to gradients of the rows, [D, B, S].

        `corner` is the tiles' upper left, [B] each.
        """


class PerPixel(Lift):
    """The leaves themselves, spread over the pixels."""

    def inputs(self, row: Array, ray: Ray) -> list[Array]:
        """Each leaf, at each pixel."""
        return [jnp.broadcast_to(leaf[:, None], ray.pixel.x.shape) for leaf in row.T]

    def respond(self, inputs: list[Array], ray: Ray) -> tuple[Array, tuple[Array, ...]]:
        """The method's own `evaluate`."""
        return self.anatomy.respond(self.anatomy.unpack(inputs), ray)

    def pull(self, grads: list[Array], rows: Array, corner: Vec2) -> Array:
        """Sums over the pixels, as products with ones (XLA would recompute in a fused sum)."""
        del rows, corner
        ones = jnp.ones(grads[0].shape[-1], grads[0].dtype)
        return jnp.stack([jnp.dot(g, ones, precision=HIGHEST) for g in grads])


@dataclasses.dataclass(frozen=True)
class PerForm(Lift):
    """The forms' values.

    A quadratic is known by its values at six nodes: f(p) = sum_j L_j(p) f(node_j). So the sum of
    g(p) df(p)/dtheta over the pixels is that of G_j df(node_j)/dtheta over six nodes, where
    G_j = sum_p g(p) L_j(p) is one matrix product.
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

    def pull(self, grads: list[Array], rows: Array, corner: Vec2) -> Array:
        """To the nodes, and from there through the forms: a node's splats lie side by side."""
        nodes, weights = (jnp.asarray(x, rows.dtype) for x in _nodes(self.tile_size))
        at_nodes = tuple(
            jnp.moveaxis(jnp.dot(g, weights, precision=HIGHEST), -1, 0) for g in grads
        )
        x, y = corner.x[:, None] + nodes[:, 0, None, None], corner.y[:, None] + nodes[:, 1, None, None]
        leaves = [leaf[None] for leaf in jnp.moveaxis(rows, -1, 0)]
        _, pull = jax.vjp(lambda leaves: self._record(leaves).forms(Vec2(x, y)), leaves)
        # Else XLA computes them one number at a time, in the order in which they are stored.
        return jnp.concatenate(jax.lax.optimization_barrier(pull(at_nodes)[0]))

    def _record(self, leaves: list[Array]) -> QuadraticSplat:
        splat = self.anatomy.unpack(leaves)
        assert isinstance(splat, QuadraticSplat)
        return splat


def lift(splats: Splat, anatomy: Anatomy, tile_size: int) -> Lift:
    """The cheapest way that the splat's class allows."""
    if isinstance(splats, QuadraticSplat) and not anatomy.varying:
        return PerForm(anatomy, tile_size)
    return PerPixel(anatomy)


def _nodes(tile_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Six nodes [6, 2] in a tile (px from its corner), and L_j at its pixels [P, 6].

    The centre and a regular pentagon: no conic passes through all of them.
    """
    radius, center = 0.45 * tile_size, 0.5 * tile_size
    angles = 2 * np.pi * np.arange(5) / 5
    unit = np.concatenate([[[0, 0]], np.stack([np.cos(angles), np.sin(angles)], axis=-1)])
    y, x = np.mgrid[:tile_size, :tile_size] + 0.5
    pixels = (np.stack([x.ravel(), y.ravel()], axis=-1) - center) / radius

    def monomials(p: np.ndarray) -> np.ndarray:
        x, y = p.T
        return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1)

    return center + radius * unit, monomials(pixels) @ np.linalg.inv(monomials(unit))
