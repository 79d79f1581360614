"""One way to render one workload, compiled: what the commands time."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from benchmarks.workloads import METHODS, Workload, as_method
from xpr.types import Primitive


class Choice(NamedTuple):
    """Who renders, and how."""

    method: str
    backend: str
    tile_size: int

    def settings(self) -> xpr.Settings:
        """Those of this machine with the tile size replaced."""
        return dataclasses.replace(xpr.Settings.for_this_machine(), tile_size=self.tile_size)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """The options of all commands that render workloads: which ones, how, and how often."""
    parser.add_argument("workloads", nargs="+", help=".npz, run folder or SPLATS@SIZE (10000@256)")
    parser.add_argument("--methods", nargs="+", default=["3dgs"], help=", ".join(METHODS))
    parser.add_argument("--backends", nargs="+", default=["cpu", "xla"])
    parser.add_argument("--tile-size", type=int, nargs="+", default=[16], metavar="PX")
    parser.add_argument("--rounds", type=int, default=7)


def choices(options: argparse.Namespace) -> list[Choice]:
    """Every combination that was asked for."""
    chosen = itertools.product(options.methods, options.backends, options.tile_size)
    return [Choice(*choice) for choice in chosen]


class Case(NamedTuple):
    """Compiled functions and what they are given.

    Attributes:
      scene: of the chosen method.
      capacity: what was reserved.
      forward: the image [H, W, 3].
      both: the L1 loss against random pixels and its gradients of all parameters.
    """

    scene: Primitive
    capacity: xpr.Capacity
    forward: Callable[[], jax.Array]
    both: Callable[[], Any]


def target(camera: xpr.Camera) -> np.ndarray:
    """Random pixels, [H, W, 3]: what every loss here compares with."""
    return np.random.default_rng(7).random((camera.height, camera.width, 3), np.float32)


def case(workload: Workload, choice: Choice) -> Case:
    """Prepare a workload for a choice; each function compiles when first called.

    Raises:
      UserError: the workload cannot be had in that method.
    """
    scene, camera, settings = (
        as_method(workload.scene, choice.method),
        workload.camera,
        choice.settings(),
    )
    capacity = xpr.plan(scene, camera, settings=settings)
    truth = jnp.asarray(target(camera))

    def image(scene: Primitive, camera: xpr.Camera) -> jax.Array:
        return xpr.render(
            scene, camera, capacity=capacity, settings=settings, backend=choice.backend
        ).color

    def loss(scene: Primitive, camera: xpr.Camera, truth: jax.Array) -> jax.Array:
        return jnp.mean(jnp.abs(image(scene, camera) - truth))

    forward, both = jax.jit(image), jax.jit(jax.value_and_grad(loss))
    return Case(scene, capacity, lambda: forward(scene, camera), lambda: both(scene, camera, truth))
