"""How much the renderer reserves over a run: planned, grown when full, fitted once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xpr.camera import Camera
from xpr.pipeline.capacity import Capacity, Overflow
from xpr.pipeline.render import plan
from xpr.types import Primitive, count

PLANNED_VIEWS = 8  # training views that the first capacity is planned from
GROWTH = 2.0  # by how much the splats' boxes may grow, in pairs, until the renderer is re-planned
WATCHED = 100  # steps at the final number of splats that the fitted capacity goes by
HEADROOM = 1.5  # over what was needed


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
        headroom=HEADROOM,
    )


@dataclasses.dataclass
class Watch:
    """Fits the capacity, once, to what steps need when the scene has all its splats.

    The first capacity allows for splats that are still large, many times what they need when they
    have shrunk to the photos' detail; what is reserved in vain is sorted all the same.

    Attributes:
      steps: watched so far.
      pairs: (tile, splat) pairs, the most that one of them needed.
    """

    steps: int = 0
    pairs: int = 0

    def fitted(self, capacity: Capacity, overflow: Sequence[Overflow]) -> Capacity:
        """The capacity after one more step; smaller after the last that is watched."""
        if self.steps == WATCHED:
            return capacity
        self.steps += 1
        self.pairs = max(self.pairs, *(each.needed().intersections for each in overflow))
        if self.steps < WATCHED:
            return capacity
        enough = Capacity.covering(1, self.pairs, headroom=HEADROOM).intersections
        return Capacity(capacity.visible, min(capacity.intersections, enough))
