"""What a backend composites, and what it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.grid import Grid
from xpr.pipeline.settings import Settings
from xpr.types import Array, Blend, Splat


class Pairs(NamedTuple):
    """(tile, splat) pairs, grouped by tile, front to back inside a tile.

    Attributes:
      ids: [M] ranks of splats.
      starts: [T + 1] where each tile's pairs begin.
    """

    ids: Array
    starts: Array


class Request(NamedTuple):
    """What a backend is asked to render, as far as it is static.

    Attributes:
      splat: the name of the record's class.
      blend: its rule.
      anatomy: of the record.
      dtype: of all arrays.
      features: how many channels are given to `render`, beside those of the hits.
      grid: the tiles.
      settings: of the machine.
    """

    splat: str
    blend: Blend
    anatomy: Anatomy
    dtype: Any
    features: int
    grid: Grid
    settings: Settings


class Frame(NamedTuple):
    """One image's splats, sorted and binned.

    Attributes:
      splats: records, leaves [V], nearest first.
      valid: [V] bool, False marks padding.
      depth: [V] sort key, the depth of methods whose hits have none.
      features: [V, F] extra channels, given to `render`.
      boxes: [V, 4] px (low x, y, high x, y): outside of its box a splat does not show.
      camera: the view, for its rays.
      grid: the tiles. Static.
      anatomy: of the record. Static.
      settings: of the machine. Static.
      pairs: the tiles' lists, once a backend has binned the splats.
    """

    splats: Splat
    valid: Array
    depth: Array
    features: Array
    boxes: Array
    camera: Camera
    grid: Grid
    anatomy: Anatomy
    settings: Settings
    pairs: Pairs = Pairs(jnp.zeros(0, jnp.int32), jnp.zeros(0, jnp.int32))

    def constants(self) -> tuple[Array, Array, Array]:
        """The channels that are constant over a splat: colour, depth and features, [V, n] each.

        The features are the given ones, then those of the hits.
        """
        leaves, n = jax.tree.leaves(self.splats), len(self.valid)
        kept = [leaves[i] for i in self.anatomy.constant[:3] if i is not None]
        color = jnp.stack(kept, axis=-1) if kept else jnp.zeros((n, 0), self.depth.dtype)
        depth = self.depth
        if self.anatomy.has_depth:
            leaf = self.anatomy.constant[3]
            depth = None if leaf is None else leaves[leaf]
        none = jnp.zeros((n, 0), self.depth.dtype)
        own = [leaves[i][:, None] for i in self.anatomy.features if i is not None]
        features = jnp.concatenate([self.features, *own], axis=1)
        return color, none if depth is None else depth[:, None], features


class Layers(NamedTuple):
    """The blended image, over nothing.

    Attributes:
      color: [H, W, 3].
      transmittance: [H, W].
      depth: [H, W], accumulated.
      features: [H, W, F].
    """

    color: Array
    transmittance: Array
    depth: Array
    features: Array


def assemble(
    frame: Frame, constants: tuple[Array, Array, Array], varying: Array, transmittance: Array
) -> Layers:
    """Put the channels back in their places.

    Args:
      frame: what was composited.
      constants: blended constant channels, [H, W, n] each.
      varying: [H, W, v] blended channels that vary along the ray.
      transmittance: [H, W].
    """
    color, depth, features = constants
    kept, moving = iter(jnp.moveaxis(color, -1, 0)), iter(jnp.moveaxis(varying, -1, 0))
    where = frame.anatomy.constant
    rgb = [next(moving) if leaf is None else next(kept) for leaf in where[:3]]
    own_depth = frame.anatomy.has_depth and where[3] is None
    depth = next(moving) if own_depth else depth[..., 0]
    given = frame.features.shape[1]
    kept = iter(jnp.moveaxis(features[..., given:], -1, 0))
    own = [next(moving) if leaf is None else next(kept) for leaf in frame.anatomy.features]
    features = jnp.concatenate([features[..., :given], *(x[..., None] for x in own)], axis=-1)
    return Layers(jnp.stack(rgb, axis=-1), transmittance, depth, features)
