"""Density control as Markov chain Monte Carlo (Kheradmand et al. 2024, arXiv 2404.09591).

A fixed budget of splats. Those that fade are moved onto opaque ones, which share their opacity with
the newcomers so that the picture stays; noise makes the positions explore.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xpr.train.config import FULL_RUN
from xpr.train.sampling import draw
from xpr.train.slots import all_finite, take, where
from xpr.types import Array, Mass, Primitive

P = TypeVar("P", bound=Primitive)

GROWTH = 1.05  # of the number of splats, at each refinement
START, STOP = 500 / FULL_RUN, 25_000 / FULL_RUN  # of the run: when refinements happen
EVERY = 100  # steps between refinements
MIN_REFINEMENTS = 60  # short runs refine more often: 1.05^60 grows 18 times
SHARPNESS = 100  # of the threshold above which a splat is too opaque to be shaken

# Nodes of the trapezoid rule over a bell: at this spacing it is exact to float64.
NODES = 0.2 * np.arange(32)
WEIGHTS = 0.2 / math.sqrt(math.pi) * np.where(NODES == 0, 1, 2)


class Schedule(NamedTuple):
    """When the splats are redistributed: after every `every`-th step from `start` to `stop`."""

    start: int
    stop: int
    every: int

    @classmethod
    def of(cls, steps: int) -> Self:
        """The published schedule, scaled to a run of `steps`."""
        start, stop = round(START * steps), round(STOP * steps)
        return cls(start, stop, max(min(EVERY, (stop - start) // MIN_REFINEMENTS), 1))

    def due(self, step: Array) -> Array:
        """Whether to refine after `step` (counted from 1). []."""
        return (step > self.start) & (step <= self.stop) & (step % self.every == 0)


class Refined(NamedTuple):
    """A redistributed scene.

    Attributes:
      scene: [cap] primitives.
      alive: [cap] bool.
      touched: [cap] bool, slots whose optimiser moments no longer mean anything.
      moved: [] how many faded splats were relocated.
      stalled: [] bool, nothing was done because every splat had faded.
    """

    scene: Primitive
    alive: Array
    touched: Array
    moved: Array
    stalled: Array


def refine(scene: Primitive, alive: Array, key: Array, min_opacity: ArrayLike) -> Refined:
    """Relocate the faded splats and add 5 %, each onto a splat drawn by its opacity.

    Args:
      scene: [cap] primitives.
      alive: [cap] bool.
      key: PRNG key.
      min_opacity: at or below it a splat has faded; so has one with a number that is not finite.
    """
    opacity = masses(scene).opacity
    sound = alive & all_finite(scene) & (opacity > min_opacity)
    vacant = (alive & ~sound) | _added(alive)
    vacant &= jnp.any(sound)
    source = draw(key, jnp.where(sound, opacity, 0), len(alive))
    copies = 1 + jnp.zeros_like(source).at[source].add(vacant.astype(source.dtype))
    shared, shrink = split(opacity, copies)
    shared = jnp.clip(shared, min_opacity, 1 - jnp.finfo(shared.dtype).eps)
    parents = jax.vmap(lambda p, o, s: p.reshaped(o, s))(scene, shared, shrink)
    divided = where(copies > 1, parents, scene)
    return Refined(
        scene=where(vacant, take(divided, source), divided),
        alive=alive | vacant,
        touched=vacant | (copies > 1),
        moved=jnp.sum(vacant & alive),
        stalled=~jnp.any(sound),
    )


def split(opacity: Array, copies: Array) -> tuple[Array, Array]:
    """What each of n coincident copies must be to look like the one they replace (Eq. 9).

    n copies of opacity x let (1 - x)^n of the light pass, which gives x. Their size follows from
    equal sums of alpha over a line through the centre:
    o int exp(-t^2) = shrink int 1 - (1 - x exp(-t^2))^n. The paper expands the integral into an
    alternating double sum of binomials; as an integral nothing cancels, whatever n is.

    Args:
      opacity: [N] of the splat, in [0, 1].
      copies: [N] n, at least 1.

    Returns:
      [N] the opacity of each copy, and [N] the factor of its size.
    """
    shared = -jnp.expm1(jnp.log1p(-opacity) / copies)
    bell = jnp.exp(-(jnp.asarray(NODES, opacity.dtype) ** 2))
    passed = jnp.log1p(-shared[:, None] * bell)
    line = -jnp.expm1(copies[:, None] * passed) @ jnp.asarray(WEIGHTS, opacity.dtype)
    visible = opacity > 0
    return shared, jnp.where(visible, opacity / jnp.where(visible, line, 1), 1)


def shaken(scene: P, key: Array, amount: Array, min_opacity: ArrayLike) -> P:
    """The scene with noise on the positions of the faint splats: Sigma N(0, 1) amount.

    Args:
      scene: [N] primitives.
      key: PRNG key.
      amount: [] in 1/world units; fades as the means' rate does.
      min_opacity: about where the noise sets in.
    """
    opacity, scale, rotation = masses(scene)
    faint = jax.nn.sigmoid(-SHARPNESS * (opacity - min_opacity))
    noise = jax.random.normal(key, scale.shape, scale.dtype)
    local = scale**2 * jnp.einsum("nij,ni->nj", rotation, noise)
    offset = jnp.einsum("nij,nj->ni", rotation, local) * (amount * faint)[:, None]
    return jax.vmap(lambda primitive, by: primitive.moved(by))(scene, offset)


def penalty(scene: Primitive, alive: Array, *, opacity: ArrayLike, scale: ArrayLike) -> Array:
    """What keeps splats faint and small, so that some fade and can be moved. [].

    Args:
      scene: [N] primitives.
      alive: [N] bool.
      opacity: weight of the mean opacity.
      scale: weight of the mean standard deviation, per world unit.
    """
    mass, living = masses(scene), jnp.maximum(jnp.sum(alive), 1)
    faintness = jnp.sum(jnp.where(alive, mass.opacity, 0)) / living
    size = jnp.sum(jnp.where(alive[:, None], mass.scale, 0)) / (3 * living)
    return jnp.asarray(opacity * faintness + scale * size)


def masses(scene: Primitive) -> Mass:
    """The mass of each primitive of a scene, [N] leading."""
    return jax.vmap(lambda primitive: primitive.mass())(scene)


def _added(alive: Array) -> Array:
    """The dead slots that come alive: 5 % of the living, as far as there are slots. [cap] bool."""
    living = jnp.sum(alive)
    # At least one, or fewer than 20 splats would never grow.
    grown = jnp.maximum((GROWTH * living).astype(living.dtype), living + 1)
    return ~alive & (jnp.cumsum(~alive) <= grown - living)
