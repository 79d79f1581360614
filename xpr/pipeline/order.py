"""Culling, and the depth order of what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from xpr.camera import Camera
from xpr.types import Array, Primitive, Projected


class Survey(NamedTuple):
    """Where every primitive lands, without gradients.

    Attributes:
      low: [N, 2] px, upper left of the splat's box.
      high: [N, 2] px, lower right.
      depth: [N] sort key.
      seen: [N] bool, whether it can show in the image.
    """

    low: Array
    high: Array
    depth: Array
    seen: Array


class Order(struct.PyTreeNode):
    """The visible primitives, nearest first.

    Attributes:
      index: [V] into the scene; padding repeats the nearest one.
      valid: [V] bool, False marks padding.
    """

    index: Array
    valid: Array

    def watched(self, camera: Camera) -> Camera:
        """The camera, whose gradient is zero if nothing is visible."""
        anything = self.valid[0]
        return jax.tree.map(lambda x: jnp.where(anything, x, jax.lax.stop_gradient(x)), camera)


def each(
    function: Callable[[Primitive, Camera], Any],
    scene: Primitive,
    camera: Camera,
    order: Order | None = None,
) -> Any:
    """A function of one primitive and the camera, over the whole scene or those that `order` names.

    Gradients reach no primitive but those, and nothing from padding.
    """
    if order is not None:
        scene, camera = gather(scene, camera, order)
    return jax.vmap(lambda one: function(one, camera))(scene)


def project(scene: Primitive, camera: Camera) -> Projected:
    """Every primitive on the image plane; leaves [N, ...]."""
    return each(lambda one, camera: one.project(camera), scene, camera)


def survey(
    scene: Primitive, camera: Camera, alive: Array | None = None, each: Callable[..., Any] = each
) -> Survey:
    """Project everything and keep what has a place in the image.

    Args:
      scene: N primitives.
      camera: the view.
      alive: [N] bool; the others are not seen.
      each: maps a function over the scene; a backend may have a faster one.
    """
    found = each(_look, *jax.lax.stop_gradient((scene, camera)))
    return found if alive is None else found._replace(seen=found.seen & alive)


def _look(one: Primitive, camera: Camera) -> Survey:
    """Where one primitive lands.

    If anything in its record is not finite, or so large that its square is not, it is not seen:
    one bad splat spoils no other's gradient.
    """
    projected = one.project(camera)
    low, high = projected.center - projected.extent, projected.center + projected.extent
    size = jnp.array([camera.width, camera.height], low.dtype)
    seen = jnp.all((projected.extent > 0) & (high > 0) & (low < size))
    for leaf in jax.tree.leaves(projected):
        seen &= jnp.all(jnp.isfinite(leaf * leaf))
    return Survey(low, high, projected.depth, seen)


def front_to_back(depth: Array, seen: Array, visible: int) -> Order:
    """Sort by depth, ties by index; the first `visible` ones are kept.

    Every bit of a float32 depth counts: it is the upper half of one 64-bit key, whose lower half
    is the index (one integer operand sorts several times faster than a key with a payload).
    """
    n = len(depth)
    if depth.dtype == jnp.float32:
        with jax.enable_x64(True):
            key = jnp.where(seen, _sortable(depth), jnp.uint32(0xFFFFFFFF)).astype(jnp.uint64)
            packed = (key << 32) | jnp.arange(n, dtype=jnp.uint64)
            index = jnp.sort(packed)[:visible].astype(jnp.uint32).astype(jnp.int32)
    else:
        key = jnp.where(seen, depth, jnp.inf)
        index = jax.lax.sort((key, jnp.arange(n, dtype=jnp.int32)), num_keys=1)[1][:visible]
    valid = jnp.arange(len(index)) < jnp.sum(seen)
    return Order(jnp.where(valid, index, index[0]), valid)


def gather(scene: Primitive, camera: Camera, order: Order) -> tuple[Primitive, Camera]:
    """The visible primitives, and the camera, with gradients that culled ones cannot reach."""

    def pick(leaf: Array) -> Array:
        rows = leaf[order.index]
        valid = order.valid.reshape(-1, *[1] * (rows.ndim - 1))
        return jnp.where(valid, rows, jax.lax.stop_gradient(rows))

    return jax.tree.map(pick, scene), order.watched(camera)


def _sortable(depth: Array) -> Array:
    """uint32 keys in the order of float32 values; -0 equals 0."""
    bits = jax.lax.bitcast_convert_type(jnp.where(depth == 0, 0.0, depth), jnp.uint32)
    negative = (bits >> 31) == 1
    return jnp.where(negative, ~bits, bits | jnp.uint32(0x80000000))
