"""A run in memory: the state, the photos that feed it and the compiled step."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

import jax
import numpy as np

from xpr.camera import Camera
from xpr.data.prefetch import Feed
from xpr.pipeline.capacity import Capacity
from xpr.pipeline.render import plan
from xpr.train.config import TrainConfig
from xpr.train.init import initial_scene
from xpr.train.photo import Photo
from xpr.train.refresh import refreshed, stacked
from xpr.train.slots import compact
from xpr.train.state import P, TrainState
from xpr.train.step import Recipe, Report, compiled_step
from xpr.types import Primitive, count

if TYPE_CHECKING:
    from xpr.data import Dataset
    from xpr.pipeline.capacity import Overflow

logger = logging.getLogger("xpr.train")

PLANNED_VIEWS = 8  # training views that the first capacity is planned from
GROWTH = 2.0  # by how much the splats' boxes may grow, in pairs, until the renderer is re-planned


class Trainer(Generic[P]):
    """Steps a scene towards the photos of a dataset.

    Attributes:
      state: after the last step.
      capacity: of the renderer; grows when a step overflows.
      recipe: the numbers that every step follows.
      notes: what was odd, in words.
      seconds: spent in steps, over all the parts of a resumed run.
    """

    def __init__(self, dataset: Dataset, method: type[P], config: TrainConfig):
        """Build the first scene, plan the renderer and start reading photos."""
        self.notes: list[str] = []
        self.seconds = 0.0
        self._config = config
        self._compiled_before = compiled_step.compilations
        first, key = jax.random.split(jax.random.key(config.seed))
        views = [dataset.views[i] for i in dataset.train]
        self._cameras = stacked(view.camera for view in views)
        scene = initial_scene(dataset, method, config, first, self.say)
        scene = refreshed(scene, self._cameras)
        self.state: TrainState[P] = TrainState.start(scene, config.cap, key)
        self.recipe = Recipe.of(config, scene, dataset.extent)
        self.capacity = first_capacity(scene, [view.camera for view in views], config.cap)
        self._masked = any(view.mask_path is not None for view in views)
        self._feed = Feed(views, seed=config.seed)

    @property
    def done(self) -> int:
        """Steps done."""
        return int(self.state.step)

    @property
    def waited(self) -> float:
        """Seconds that steps waited for photos, in this process."""
        return self._feed.waited

    @property
    def compilations(self) -> int:
        """How often the step was compiled for this run."""
        return compiled_step.compilations - self._compiled_before

    def say(self, note: str) -> None:
        """Log what is odd, and keep it for the summary."""
        logger.warning(note)
        self.notes.append(note)

    def advance(self) -> Report:
        """One step. If it overflows, the same photos again with a larger capacity."""
        start = time.perf_counter()
        photos = tuple(self.next_photo() for _ in range(self._config.batch))
        while True:
            self.state, report = compiled_step(
                self.state, photos, self.recipe, capacity=self.capacity
            )
            # Read at every step: the next one must not start from a state that stood still.
            if not any(bool(overflow.any) for overflow in report.overflow):
                break
            self.capacity = grown(self.capacity, report.overflow)
            self.say(f"step {self.done + 1}: the renderer was full; repeated with {self.capacity}.")
        if self.recipe.refinements.due(self.state.step):
            self.state = self.state.replace(scene=refreshed(self.state.scene, self._cameras))
        self.seconds += time.perf_counter() - start
        return report

    def scene(self) -> P:
        """The living splats, as numpy arrays."""
        return compact(self.state.scene, self.state.alive)

    def beside(self) -> dict[str, Any]:
        """What a checkpoint holds beside the state."""
        return {
            "feed": self._feed.state(),
            "capacity": dataclasses.asdict(self.capacity),
            "seconds": self.seconds,
            "notes": self.notes,
        }

    def restore(self, state: TrainState[P], beside: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.state = state
        self.capacity = Capacity(**beside["capacity"])
        self.seconds, self.notes = beside["seconds"], list(beside["notes"])
        self._feed.restore(beside["feed"])

    def close(self) -> None:
        """Stop reading photos."""
        self._feed.close()

    def next_photo(self) -> Photo:
        """The next training view."""
        item = next(self._feed)
        mask = item.mask
        if self._masked and mask is None:
            mask = np.ones(item.image.shape[:2], bool)  # one signature, hence one compilation
        return Photo(item.camera, item.image, mask)


def first_capacity(scene: Primitive, cameras: Sequence[Camera], cap: int) -> Capacity:
    """A capacity for the whole run, from the first scene: all slots visible, and room to grow."""
    chosen = cameras[:: max(len(cameras) // PLANNED_VIEWS, 1)]
    pairs = plan(scene, chosen).intersections
    return Capacity.covering(cap, round(pairs * GROWTH * cap / count(scene)), headroom=1.0)


def grown(capacity: Capacity, overflow: Sequence[Overflow]) -> Capacity:
    """A capacity with head-room for what did not fit."""
    needed = [each.needed() for each in overflow]
    return Capacity.covering(
        max(capacity.visible, *(need.visible for need in needed)),
        max(capacity.intersections, *(need.intersections for need in needed)),
        headroom=1.5,
    )
