"""Times of several functions, taken in turn, so that a machine that drifts drifts for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

K = TypeVar("K", bound=Hashable)
Times = np.ndarray  # [rounds] ms


def interleaved(functions: Mapping[K, Callable[[], Any]], rounds: int) -> dict[K, Times]:
    """Milliseconds of each function in each round, after one call that does not count.

    Args:
      functions: each runs once a round, in this order; arrays of JAX are waited for.
      rounds: how many.
    """
    for function in functions.values():
        jax.block_until_ready(function())
    times: dict[K, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: np.array(each) for name, each in times.items()}


def median_and_minimum(times: Times) -> dict[str, float]:
    """As columns of a row."""
    return {"median_ms": round(float(np.median(times)), 3), "min_ms": round(float(min(times)), 3)}


def ratios(times: Times, reference: Times) -> dict[str, float]:
    """The median of the ratios within the rounds, and the ratio of the minima."""
    median = float(np.median(times / reference))
    return {"ratio": round(median, 3), "min_ratio": round(float(min(times) / min(reference)), 3)}
