"""Refined cameras of a dataset: in a run, in its folder, and back again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from xpr.camera import Camera
from xpr.errors import DataError
from xpr.files import atomic_write
from xpr.train import refine
from xpr.train.config import TrainConfig
from xpr.train.strides import strides

if TYPE_CHECKING:
    from xpr.data import Dataset

LEAVES = ("viewmat", "viewmat_end", "K", "distortion")


class Refined:
    """Which cameras of a dataset a run refines, and how far."""

    def __init__(self, dataset: Dataset, config: TrainConfig):
        """Look which views share a body."""
        self._parts = refine.parts_of(config.optimize)
        self._extent = dataset.extent
        self._reach, self._photos = config.camera_reach, config.steps * config.batch
        self._cameras = [dataset.views[i].camera for i in dataset.train]
        held = [dataset.views[i].camera for i in dataset.test]
        self._bodies = refine.bodies([*self._cameras, *held])

    def start(self) -> refine.Refinement | None:
        """No correction yet; None where cameras stay as they are."""
        return refine.start(self._parts, self._cameras)

    def strides(self) -> refine.Correction | None:
        """Of the first step; None where cameras stay as they are."""
        if not self._parts:
            return None
        return strides(self._parts, self._cameras, self._extent, self._reach, self._photos)

    def place(self, index: int) -> refine.Place | None:
        """The rows of a training view; None where cameras stay as they are."""
        return refine.Place(np.array(index, np.int32), self._bodies[index]) if self._parts else None

    def applied(self, dataset: Dataset, state: refine.Refinement | None) -> Dataset:
        """The dataset with corrected cameras.

        A held-out view keeps its pose and gets the intrinsics and the distortion of its body.
        """
        if state is None:
            return dataset
        views, held = list(dataset.views), state.correction.replace(poses=None)
        bodies = int(self._bodies[: len(self._cameras)].max()) + 1
        for row, index in enumerate((*dataset.train, *dataset.test)):
            trained = row < len(self._cameras)
            if not trained and self._bodies[row] >= bodies:
                continue
            place = refine.Place(np.array(row, np.int32), self._bodies[row])
            camera = jax.tree.map(jnp.asarray, views[index].camera)
            correction = state.correction if trained else held
            camera = refine.corrected(camera, correction, place, jnp.float32(self._extent))
            camera = jax.tree.map(np.asarray, camera)
            views[index] = dataclasses.replace(views[index], camera=camera)
        return dataclasses.replace(dataset, views=tuple(views))


def save(dataset: Dataset, path: Path) -> None:
    """Write the arrays of all cameras of a dataset, by the names of their views, as JSON."""
    table = {view.name: _arrays(view.camera) for view in dataset.views}
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(table, indent=1) + "\n")


def load(dataset: Dataset, path: Path) -> Dataset:
    """The dataset with the cameras that a run has saved; as it is, if there is no such file.

    Raises:
      DataError: not the file's format, or cameras of another dataset.
    """
    if not path.exists():
        return dataset
    try:
        table = json.loads(path.read_text())
        views = [
            dataclasses.replace(view, camera=_with(view.camera, table[view.name]))
            for view in dataset.views
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} does not hold the cameras of {dataset.path} ({type(error).__name__}: {error}), "
            "expected those that the run has refined. Remove it to use the dataset's own."
        ) from error
    return dataclasses.replace(dataset, views=tuple(views))


def _arrays(camera: Camera) -> dict[str, Any]:
    leaves = {name: getattr(camera, name) for name in LEAVES}
    return {name: np.asarray(x).tolist() for name, x in leaves.items() if x is not None}


def _with(camera: Camera, arrays: dict[str, Any]) -> Camera:
    """The camera with other numbers of the same shapes."""
    leaves = {}
    for name, mine in _arrays(camera).items():
        leaves[name] = np.array(arrays[name], np.float32)
        if leaves[name].shape != np.shape(mine):
            raise ValueError(f"{name} has shape {leaves[name].shape}")
    return camera.replace(**leaves)
