"""A run in memory: the state, the photos that feed it and the compiled step."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING, Any, Generic

import jax
import numpy as np

from xpr.data.prefetch import Feed
from xpr.io.fields import Fields
from xpr.pipeline.capacity import LARGEST, Capacity
from xpr.train.config import TrainConfig
from xpr.train.init import initial_scene
from xpr.train.photo import Photo
from xpr.train.refined import Refined
from xpr.train.refresh import refreshed, stacked
from xpr.train.reserve import Watch, first_capacity, grown
from xpr.train.slots import compact
from xpr.train.state import P, TrainState
from xpr.train.step import Recipe, Report, compiled_step

if TYPE_CHECKING:
    from xpr.data import Dataset

logger = logging.getLogger("xpr.train")

SETTLING = 1 / 8  # of the run


class Trainer(Generic[P]):
    """Steps a scene towards the photos of a dataset.

    Attributes:
      state: after the last step.
      capacity: of the renderer; grows when a step overflows, and is fitted once.
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
        cameras = [view.camera for view in views]
        self._cameras = stacked(cameras)
        self._refined = Refined(dataset, config)
        scene = initial_scene(dataset, method, config, first, self.say)
        scene = refreshed(scene, self._cameras)
        self.state: TrainState[P] = TrainState.start(scene, config.cap, key, self._refined.start())
        self.recipe = Recipe.of(config, scene, dataset.extent)._replace(
            camera_strides=self._refined.strides()
        )
        self.capacity = first_capacity(scene, cameras, config.cap)
        self._watch = Watch()
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
        if self._has_settled(report):
            self.capacity = self._watch.fitted(self.capacity, report.overflow)
        if self.recipe.refinements.due(self.state.step):
            self.state = self.state.replace(scene=refreshed(self.state.scene, self._cameras))
        self.seconds += time.perf_counter() - start
        return report

    def _has_settled(self, report: Report) -> bool:
        """Whether all splats are there, and the first ones had time to shrink."""
        config = self._config
        return int(report.splats) == config.cap and self.done > SETTLING * config.steps

    def scene(self) -> P:
        """The living splats, as numpy arrays."""
        return compact(self.state.scene, self.state.alive)

    def beside(self) -> dict[str, Any]:
        """What a checkpoint holds beside the state."""
        return {
            "feed": self._feed.state(),
            "capacity": dataclasses.asdict(self.capacity),
            "watch": dataclasses.asdict(self._watch),
            "seconds": self.seconds,
            "notes": self.notes,
        }

    def restore(self, state: TrainState[P], beside: Fields) -> None:
        """Go on from a checkpoint.

        Raises:
          DataError: what stands beside the state is damaged.
          UserError: it belongs to other photos.
        """
        self._feed.restore(beside.object("feed").values)
        room, watch = beside.object("capacity"), beside.object("watch")
        self.capacity = Capacity(*_sizes(room, Capacity, least=1))
        self._watch = Watch(*_sizes(watch, Watch, least=0))
        self.seconds, self.notes = beside.number("seconds", least=0), beside.texts("notes")
        self.state = state

    def close(self) -> None:
        """Stop reading photos."""
        self._feed.close()

    def next_photo(self) -> Photo:
        """The next training view."""
        item = next(self._feed)
        mask = item.mask
        if self._masked and mask is None:
            mask = np.ones(item.image.shape[:2], bool)  # one signature, hence one compilation
        return Photo(item.camera, item.image, mask, self._refined.place(item.index))

    def refined(self, dataset: Dataset) -> Dataset:
        """The dataset with the cameras as the run has refined them so far."""
        return self._refined.applied(dataset, self.state.refinement)


def _sizes(saved: Fields, kind: type[Capacity | Watch], *, least: int) -> list[int]:
    """The whole numbers that a record of this kind consists of."""
    names = [field.name for field in dataclasses.fields(kind)]
    return [saved.integer(name, least=least, most=LARGEST) for name in names]
