"""One step of training, as a pure function of the state and the photos."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from xpr.pipeline.capacity import Capacity, Overflow
from xpr.pipeline.render import render
from xpr.train import mcmc, optim, slots
from xpr.train.config import TrainConfig
from xpr.train.loss import photometric_loss
from xpr.train.metrics import psnr
from xpr.train.photo import Photo, flat
from xpr.train.state import P, TrainState
from xpr.types import Array


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What stays the same over all steps. Static.

    Attributes:
      config: the run's settings.
      extent: of the scene, world units.
    """

    config: TrainConfig
    extent: float


class Report(NamedTuple):
    """What one step tells the host.

    Attributes:
      loss: [] with its penalties.
      psnr: [] dB, of the rendered photos (mean over the batch).
      overflow: of each photo; where any is set, the step changed nothing.
      splats: [] alive after the step.
      dropped: [] splats whose gradient was not finite and was left out.
      relocated: [] faded splats that were moved.
      stalled: [] bool, a refinement found no splat to build on.
    """

    loss: Array
    psnr: Array
    overflow: tuple[Overflow, ...]
    splats: Array
    dropped: Array
    relocated: Array
    stalled: Array


class Seen(NamedTuple):
    """One rendered photo: its loss [], PSNR [] and overflow."""

    loss: Array
    psnr: Array
    overflow: Overflow


def step(
    state: TrainState[P], photos: tuple[Photo, ...], *, recipe: Recipe, capacity: Capacity
) -> tuple[TrainState[P], Report]:
    """Render, descend, redistribute, shake. Where the renderer overflows, nothing changes.

    Args:
      state: before the step.
      photos: a batch of views.
      recipe: static.
      capacity: of the renderer, static.

    Returns:
      The state after the step, and what happened.
    """
    config, extent = recipe.config, recipe.extent
    backdrop, redraw, shake = jax.random.split(jax.random.fold_in(state.key, state.step), 3)
    now = state.step + 1

    def objective(scene: P) -> tuple[Array, list[Seen]]:
        shown = optim.warming(scene, optim.active_degree(state.step, config.steps))
        seen = [
            _look(shown, state.alive, photo, jax.random.fold_in(backdrop, i), recipe, capacity)
            for i, photo in enumerate(photos)
        ]
        fit = sum((view.loss for view in seen), start=jnp.zeros(())) / len(seen)
        return fit + mcmc.penalty(scene, state.alive, extent, config), seen

    (loss, seen), gradient = jax.value_and_grad(objective, has_aux=True)(state.scene)
    overflow = tuple(view.overflow for view in seen)
    sound = ~jnp.any(jnp.stack([o.any for o in overflow]))
    gradient, dropped = optim.masked(gradient, state.alive)
    direction, moments = optim.adam.update(gradient, state.moments)
    shrunk = optim.decay(now, config.steps)
    rate = optim.rates(state.scene, extent, shrunk, len(photos))
    moved = state.replace(scene=optim.descend(state.scene, direction, rate), moments=moments)
    due = mcmc.Schedule.of(config.steps).due(now) & sound
    moved, relocated, stalled = _redistribute(moved, redraw, due, config.min_opacity)
    amount = config.noise * shrunk / extent
    scene = mcmc.shaken(moved.scene, shake, amount, config.min_opacity)
    after = moved.replace(scene=scene, step=now)
    report = Report(
        loss=loss,
        psnr=jnp.mean(jnp.stack([view.psnr for view in seen])),
        overflow=overflow,
        splats=jnp.sum(after.alive),
        dropped=dropped,
        relocated=relocated,
        stalled=stalled,
    )
    return _either(sound, after, state), report


def _look(
    scene: P, alive: Array, photo: Photo, key: Array, recipe: Recipe, capacity: Capacity
) -> Seen:
    """Render one photo over the background that its truth is given as well."""
    background = jax.random.uniform(key, (3,)) if photo.transparent else flat(0)
    truth = photo.over(background)
    output = render(scene, photo.camera, capacity=capacity, background=background, alive=alive)
    weight = recipe.config.ssim_weight
    loss = photometric_loss(output.color, truth, photo.mask, ssim_weight=weight)
    quality = psnr(jax.lax.stop_gradient(output.color), truth, photo.mask)
    return Seen(loss, quality, output.overflow)


def _redistribute(
    state: TrainState[P], key: Array, due: Array, min_opacity: float
) -> tuple[TrainState[P], Array, Array]:
    """Refine the state where it is due; else leave it. Also: how many moved, whether it stalled."""

    def refine(state: TrainState[P]) -> tuple[TrainState[P], Array, Array]:
        refined = mcmc.refine(state.scene, state.alive, key, min_opacity)
        mu, nu = (
            slots.where(refined.touched, jax.tree.map(jnp.zeros_like, moment), moment)
            for moment in (state.moments.mu, state.moments.nu)
        )
        moments = state.moments._replace(mu=mu, nu=nu)
        after = state.replace(scene=refined.scene, alive=refined.alive, moments=moments)
        return after, refined.moved, refined.stalled

    def leave(state: TrainState[P]) -> tuple[TrainState[P], Array, Array]:
        return state, jnp.zeros((), jnp.sum(state.alive).dtype), jnp.bool_(False)

    return jax.lax.cond(due, refine, leave, state)


def _either(sound: Array, after: TrainState[P], before: TrainState[P]) -> TrainState[P]:
    """The state after the step, or the one before, number by number; the run's key stays."""
    new, old = after.replace(key=None), before.replace(key=None)
    chosen = jax.tree.map(lambda a, b: jnp.where(sound, a, b), new, old)
    return chosen.replace(key=before.key)
