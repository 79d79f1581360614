"""What a method's `evaluate` reads and returns, found by tracing it once."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from xpr.types import Array, Hit, Ray, Splat, Vec2, Vec3

DEPTH = 3  # the channel behind red, green and blue, where a hit has a depth


@dataclasses.dataclass(frozen=True)
class Anatomy:
    """The traced structure of a splat class. Static.

    A channel (red, green, blue, depth, features) of a hit is constant where it is a leaf of the record as
    it stands: then it need not be evaluated at every pixel.

    Attributes:
      treedef: of the record.
      read: for each leaf of the record, whether alpha or a varying channel depends on it.
      constant: for each channel, the leaf that it is, or None where it varies along the ray.
      has_depth: whether a hit has a depth of its own.
      reads_rays: whether the ray's origin or direction matters, beside the pixel.
    """

    treedef: Any
    read: tuple[bool, ...]
    constant: tuple[int | None, ...]
    has_depth: bool
    reads_rays: bool

    @property
    def varying(self) -> tuple[int, ...]:
        """The channels that differ from pixel to pixel."""
        return tuple(i for i, leaf in enumerate(self.constant) if leaf is None)

    @property
    def has_distance(self) -> bool:
        """Whether a hit has a depth of its own that differs from pixel to pixel."""
        return self.has_depth and self.constant[DEPTH] is None

    @property
    def features(self) -> tuple[int | None, ...]:
        """For each feature of a hit, the leaf that it is, or None where it varies."""
        return self.constant[DEPTH + self.has_depth :]

    def pack(self, splats: Splat) -> Array:
        """The leaves that are read, as rows [V, D]."""
        leaves = jax.tree.leaves(splats)
        return jnp.stack([x for x, read in zip(leaves, self.read, strict=True) if read], axis=-1)

    def unpack(self, leaves: list[Array]) -> Splat:
        """A record from the leaves that are read; the others are zero."""
        given = iter(leaves)
        zero = jnp.zeros_like(leaves[0])
        return self.treedef.unflatten([next(given) if read else zero for read in self.read])

    def respond(self, splat: Splat, ray: Ray) -> tuple[Array, tuple[Array, ...]]:
        """Alpha and the varying channels of one hit."""
        hit = splat.evaluate(ray)
        channels, shape = _channels(hit), ray.pixel.x.shape
        alpha, *moving = (
            jnp.broadcast_to(x, shape) for x in (hit.alpha, *(channels[i] for i in self.varying))
        )
        return alpha, tuple(moving)


def anatomy(splats: Splat) -> Anatomy:
    """Trace `evaluate` of a record (leaves of any shape) on scalars.

    Raises:
      TypeError: when a leaf of one record is not a scalar; a kernel could not load it.
    """
    paths, treedef = jax.tree_util.tree_flatten_with_path(splats)
    for path, leaf in paths:
        if leaf.ndim != 1:
            name = f"{type(splats).__name__}{jax.tree_util.keystr(path)}"
            raise TypeError(
                f"{name} has shape {leaf.shape[1:]}, expected a scalar. Use Vec2, Vec3 or a tuple."
            )
    scalar: Any = jax.ShapeDtypeStruct((), paths[0][1].dtype)
    ray = Ray(Vec2(scalar, scalar), Vec3(scalar, scalar, scalar), Vec3(scalar, scalar, scalar))
    n = len(paths)
    has_depth = [False]

    def outputs(leaves: list[Array], ray: Ray) -> list[Array]:
        hit = treedef.unflatten(leaves).evaluate(ray)
        has_depth[0] = hit.depth is not None
        return [hit.alpha, *_channels(hit)]

    jaxpr = jax.make_jaxpr(outputs)([scalar] * n, ray).jaxpr
    position = {id(var): i for i, var in enumerate(jaxpr.invars[:n])}
    constant = tuple(position.get(id(var)) for var in jaxpr.outvars[1:])
    varying = [True, *(leaf is None for leaf in constant)]
    used = _dependencies(jaxpr, varying)
    return Anatomy(treedef, tuple(used[:n]), constant, has_depth[0], any(used[n + 2 :]))


def _channels(hit: Hit) -> list[Array]:
    return [*hit.color, *([] if hit.depth is None else [hit.depth]), *hit.features]


def _dependencies(jaxpr: Any, wanted: list[bool]) -> list[bool]:
    """Which inputs the wanted outputs depend on."""
    needed = {id(v) for v, want in zip(jaxpr.outvars, wanted, strict=True) if want}
    for equation in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in equation.outvars):
            needed |= {id(v) for v in equation.invars}
    return [id(v) in needed for v in jaxpr.invars]
