"""Compiled functions that own up to how often they were compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import jax

A = ParamSpec("A")
R = TypeVar("R")


class Compiled(Generic[A, R]):
    """A function under `jax.jit`, with a count of its compilations.

    Attributes:
      compilations: one for every combination of shapes and static arguments seen so far.
    """

    def __init__(self, function: Callable[A, R], **options: Any):
        """Take `function` and the options of `jax.jit`."""
        self.compilations = 0

        @functools.wraps(function)
        def traced(*args: A.args, **kwargs: A.kwargs) -> R:
            self.compilations += 1  # Python runs the body once a compilation, to trace it.
            return function(*args, **kwargs)

        self._call = jax.jit(traced, **options)

    def __call__(self, *args: A.args, **kwargs: A.kwargs) -> R:
        """Call it, compiling where these shapes are new."""
        return self._call(*args, **kwargs)
