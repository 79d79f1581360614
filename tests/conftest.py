"""Fixtures that every test may use."""

import gc
import itertools
import os
import pathlib

import jax
import pytest

os.environ["XPR_CACHE"] = "off"  # also of the processes that tests start

SHARED = pathlib.Path(__file__).parents[2] / "shared"
MAPPINGS, MOST_MAPPINGS = pathlib.Path("/proc/self/maps"), 30_000


@pytest.fixture(scope="session")
def shared():
    """The folder of golden values and real data, which lies beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("../shared is missing: golden values and real data are not at hand")
    return SHARED


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def getkey():
    """A fresh PRNG key on each call, the same ones in every run."""
    counter = itertools.count()
    return lambda: jax.random.key(next(counter))


@pytest.fixture(autouse=True, scope="module")
def room():
    """Forget compiled programs between two files before Linux runs out of mappings for them.

    Each function that XLA compiles takes three of the 65,530 that a process may have; with none left
    a compilation waits for ever.
    """
    yield
    if MAPPINGS.exists() and len(MAPPINGS.read_bytes().splitlines()) > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()
