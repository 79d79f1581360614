"""Fixtures that every test may use."""

import itertools
import os
import pathlib

import jax
import pytest

os.environ["XPR_CACHE"] = "off"  # also of the processes that tests start

SHARED = pathlib.Path(__file__).parents[2] / "shared"


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
