"""Where the time of an image and its gradients goes, stage by stage.

    python -m benchmarks stages WORKLOAD ... [--methods 3dgs] [--backends cpu xla] [--rounds 7]

The stages run apart, in turn with the whole render in every round. What the whole takes beyond
their sum is said as such: it may be negative, for a stage alone costs a call and XLA merges stages.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.case import Choice, add_choices, case, choices, target
from benchmarks.cut import Cut
from benchmarks.results import Results, Row, add_out
from benchmarks.timing import Times, interleaved, median_and_minimum
from benchmarks.workloads import Workload, workload
from xpr.errors import UserError

FORWARD = ("survey", "order", "project", "bin", "composite")
BACKWARD = ("composite backward", "project backward")
WHOLE = ("whole forward", "whole forward + backward")


def main(arguments: Sequence[str]) -> None:
    """Measure every combination that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks stages")
    add_choices(parser)
    add_out(parser)
    options = parser.parse_args(arguments)
    results = Results(options)
    for given in map(workload, options.workloads):
        for choice in choices(options):
            results.add(rows(given, choice, options.rounds))


def rows(given: Workload, choice: Choice, rounds: int) -> Iterator[Row]:
    """One row a stage, then the whole and what is not accounted for."""
    named = {"workload": given.name, **choice._asdict()}
    try:
        functions = stages(given, choice)
    except UserError as error:
        yield named | {"problem": str(error)}
        return
    times = interleaved(functions, rounds)
    whole = times[WHOLE[1]]
    for passed, parts in zip(WHOLE, (FORWARD, FORWARD + BACKWARD), strict=True):
        times[f"{passed}: beyond its stages"] = times[passed] - sum(times[part] for part in parts)
    for stage, taken in times.items():
        yield named | {"stage": stage} | median_and_minimum(taken) | {"share": _share(taken, whole)}


def _share(taken: Times, whole: Times) -> str:
    return f"{100 * float(np.median(taken / whole)):.1f} %"


def stages(given: Workload, choice: Choice) -> dict[str, Callable[[], Any]]:
    """Each stage as a compiled function whose inputs are ready, and the whole.

    Raises:
      UserError: the backend cannot render this.
    """
    ready, camera = case(given, choice), given.camera
    scene, cut, room = ready.scene, Cut.of(ready.scene, camera, choice), ready.capacity
    look, draw, blend = jax.jit(cut.survey), jax.jit(cut.project), jax.jit(cut.blend)
    arrange = jax.jit(cut.arrange, static_argnums=1)
    fill = jax.jit(cut.bin, static_argnums=3)
    found = look(scene, camera)
    put = arrange(found, room.visible)
    splats, undraw = _pulled(cut.project, scene, camera, put)
    pairs = fill(splats, camera, put, room.intersections)
    image, unblend = _pulled(cut.blend, splats, camera, put, pairs)
    slope = jnp.sign(image - target(camera)) / image.size
    g_splats = unblend(slope)
    return {
        "survey": lambda: look(scene, camera),
        "order": lambda: arrange(found, room.visible),
        "project": lambda: draw(scene, camera, put),
        "bin": lambda: fill(splats, camera, put, room.intersections),
        "composite": lambda: blend(splats, camera, put, pairs),
        "composite backward": lambda: unblend(slope),
        "project backward": lambda: undraw(g_splats),
        WHOLE[0]: ready.forward,
        WHOLE[1]: ready.both,
    }


def _pulled(function: Callable[..., Any], given: Any, *others: Any) -> tuple[Any, Callable]:
    """The function's value and its compiled backward pass to `given`, the forward pass done."""

    def forward(given: Any, others: Any) -> Any:
        return jax.vjp(lambda x: function(x, *others), given)

    value, pull = jax.jit(forward)(given, others)
    back = jax.jit(lambda pull, cotangent: pull(cotangent)[0])
    return value, lambda cotangent: back(pull, cotangent)
