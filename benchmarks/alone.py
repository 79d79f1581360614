"""Functions in processes of their own: fresh memory, nothing compiled yet."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar
from unittest import mock

from xpr.train.metrics import peak_memory

T = TypeVar("T")


def alone(
    function: Callable[..., T], *arguments: Any, environment: Mapping[str, str] | None = None
) -> T:
    """What a module's function returns, called in a new process with these variables set."""
    spawning = multiprocessing.get_context("spawn")
    with (
        mock.patch.dict(os.environ, environment or {}),
        ProcessPoolExecutor(1, mp_context=spawning) as pool,
    ):
        return pool.submit(function, *arguments).result()


def peak_gb() -> float:
    """The most memory that this process has held, in GB."""
    return peak_memory() / 1e9
