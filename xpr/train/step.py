"""One step of training, as a pure function of the state and the photos."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from xpr.pipeline.capacity import Capacity, Overflow
from xpr.pipeline.render import render
from xpr.train import mcmc, optim, refine, slots, strides
from xpr.train.compiled import Compiled
from xpr.train.config import TrainConfig
from xpr.train.loss import photometric_loss
from xpr.train.metrics import psnr
from xpr.train.photo import Photo, flat
from xpr.train.refine import Correction, Refinement
from xpr.train.state import P, TrainState
from xpr.types import Array, Primitive


class Recipe(NamedTuple):
    """What stays the same over all steps. Numbers, not static: another run compiles nothing anew.

    Attributes:
      rates: of every field, a tree like the scene.
      steps: of the whole run.
      steps_per_band: until one more harmonic band is used.
      refinements: when splats are redistributed.
      min_opacity: at or below it a splat has faded.
      ssim_weight: of 1 - SSIM in the loss.
      opacity_penalty: weight of the mean opacity.
      scale_penalty: weight of the mean standard deviation, per world unit.
      noise: of the positions, per world unit.
      extent: of the scene, world units.
      camera_strides: of the corrections, at the start; None where cameras are not refined.
    """

    rates: Primitive
    steps: int
    steps_per_band: int
    refinements: mcmc.Schedule
    min_opacity: float
    ssim_weight: float
    opacity_penalty: float
    scale_penalty: float
    noise: float
    extent: float
    camera_strides: Correction | None = None

    @classmethod
    def of(cls, config: TrainConfig, scene: Primitive, extent: float) -> Recipe:
        """The numbers of a run on a scene of this extent (world units)."""
        return cls(
            rates=optim.rates(scene, extent, config.batch),
            steps=config.steps,
            steps_per_band=optim.steps_per_band(config.steps),
            refinements=mcmc.Schedule.of(config.steps),
            min_opacity=config.min_opacity,
            ssim_weight=config.ssim_weight,
            opacity_penalty=config.opacity_penalty,
            scale_penalty=config.scale_penalty / extent,
            noise=config.noise / extent,
            extent=extent,
        )


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
    state: TrainState[P], photos: tuple[Photo, ...], recipe: Recipe, *, capacity: Capacity
) -> tuple[TrainState[P], Report]:
    """Render, descend, redistribute, shake. Where the renderer overflows, nothing changes.

    Args:
      state: before the step.
      photos: a batch of views.
      recipe: of the run.
      capacity: of the renderer, static.

    Returns:
      The state after the step, and what happened.
    """
    backdrop, redraw, shake = jax.random.split(jax.random.fold_in(state.key, state.step), 3)
    now = state.step + 1

    correction = None if state.refinement is None else state.refinement.correction
    look = partial(_fit, state=state, photos=photos, key=backdrop, recipe=recipe, capacity=capacity)
    slope = jax.value_and_grad(look, argnums=(0, 1), has_aux=True)
    (loss, seen), (gradient, twist) = slope(state.scene, correction)
    overflow = tuple(view.overflow for view in seen)
    sound = ~jnp.any(jnp.stack([o.any for o in overflow]))
    gradient, dropped = optim.masked(gradient, state.alive)
    direction, moments = optim.ascent(gradient, state.moments)
    left = optim.decay(now, recipe.steps)
    rates = optim.decayed(recipe.rates, left)
    moved = state.replace(scene=optim.descend(state.scene, direction, rates), moments=moments)
    due = recipe.refinements.due(now) & sound
    moved, relocated, stalled = _redistribute(moved, redraw, due, recipe.min_opacity)
    scene = mcmc.shaken(moved.scene, shake, recipe.noise * left, recipe.min_opacity)
    refinement = _refined(state.refinement, twist, photos, recipe, now)
    after = moved.replace(scene=scene, step=now, refinement=refinement)
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


def _fit(
    scene: P,
    correction: Correction | None,
    *,
    state: TrainState[P],
    photos: tuple[Photo, ...],
    key: Array,
    recipe: Recipe,
    capacity: Capacity,
) -> tuple[Array, list[Seen]]:
    """The loss of the photos, with the penalties, and what was seen of each."""
    shown = optim.warming(scene, state.step // recipe.steps_per_band)
    seen = []
    for i, photo in enumerate(photos):
        photo = _adjusted(photo, correction, recipe)
        own = jax.random.fold_in(key, i)
        seen.append(_look(shown, state.alive, photo, own, recipe, capacity))
    fit = sum((view.loss for view in seen), start=jnp.zeros(())) / len(seen)
    weights = {"opacity": recipe.opacity_penalty, "scale": recipe.scale_penalty}
    return fit + mcmc.penalty(scene, state.alive, **weights), seen


def _adjusted(photo: Photo, correction: Correction | None, recipe: Recipe) -> Photo:
    """The photo with the corrections of its camera."""
    if correction is None or photo.place is None:
        return photo
    camera = refine.corrected(photo.camera, correction, photo.place, jnp.asarray(recipe.extent))
    return photo._replace(camera=camera)


def _refined(
    state: Refinement | None,
    gradient: Correction | None,
    photos: tuple[Photo, ...],
    recipe: Recipe,
    now: Array,
) -> Refinement | None:
    """The cameras' corrections after the step `now`."""
    if state is None or gradient is None:
        return None
    share = strides.left(now, recipe.steps)
    stride = jax.tree.map(lambda x: x * share, recipe.camera_strides)
    places = [photo.place for photo in photos if photo.place is not None]
    return refine.descend(state, gradient, places, stride)


def _look(
    scene: Primitive, alive: Array, photo: Photo, key: Array, recipe: Recipe, capacity: Capacity
) -> Seen:
    """Render one photo over the background that its truth is given as well."""
    background = jax.random.uniform(key, (3,)) if photo.transparent else flat(0)
    truth = photo.over(background)
    output = render(scene, photo.camera, capacity=capacity, background=background, alive=alive)
    loss = photometric_loss(output.color, truth, photo.mask, ssim_weight=recipe.ssim_weight)
    quality = psnr(jax.lax.stop_gradient(output.color), truth, photo.mask)
    return Seen(loss, quality, output.overflow)


def _redistribute(
    state: TrainState[P], key: Array, due: Array, min_opacity: ArrayLike
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


compiled_step = Compiled(step, static_argnames="capacity", donate_argnames="state")
