"""A scene against the photos that it was not trained on."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from xpr.pipeline.capacity import Capacity
from xpr.pipeline.render import plan, render
from xpr.train import heldout
from xpr.train.compiled import Compiled
from xpr.train.loss import ssim
from xpr.train.metrics import peak_memory, psnr, rounded
from xpr.train.photo import Photo, flat
from xpr.types import Array, Primitive, count

if TYPE_CHECKING:
    from xpr.data import Dataset, View

WHITE, BLACK = 1.0, 0.0
Show = Callable[[str, np.ndarray, np.ndarray], None]


@dataclasses.dataclass(frozen=True)
class Score:
    """One view: PSNR in dB, and SSIM with the zero-padded 11x11 window."""

    name: str
    psnr: float
    ssim: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The scores of a scene, and all that one must know to compare them.

    Attributes:
      scores: of each view at the pose that the dataset gives.
      split: how the views were chosen, in words.
      resolution: of the views, "135x240"; several are joined by commas.
      image_source: where the photos came from.
      splats: how many the scene has.
      rounding: "uint8": photo and picture are compared as 8-bit files would hold them.
      background: grey level behind transparent photos; None where none is transparent.
      seconds: that the evaluation took.
      peak_memory: bytes of main memory, of the whole process so far.
      pose_fitted: the scores once more, each view at the pose that was fitted to its photo; empty
        where none was.
      pose_fit_steps: of each fit; 0 where there was none.
    """

    scores: tuple[Score, ...]
    split: str
    resolution: str
    image_source: str
    splats: int
    rounding: str
    background: float | None
    seconds: float
    peak_memory: int
    pose_fitted: tuple[Score, ...] = ()
    pose_fit_steps: int = 0

    @property
    def psnr(self) -> float:
        """Mean over the views at their given poses, dB; NaN without views."""
        return _mean([score.psnr for score in self.scores])

    @property
    def ssim(self) -> float:
        """Mean over the views at their given poses; NaN without views."""
        return _mean([score.ssim for score in self.scores])

    @property
    def psnr_pose_fitted(self) -> float:
        """Mean over the views at their fitted poses, dB; NaN where none was fitted."""
        return _mean([score.psnr for score in self.pose_fitted])

    @property
    def ssim_pose_fitted(self) -> float:
        """Mean over the views at their fitted poses; NaN where none was fitted."""
        return _mean([score.ssim for score in self.pose_fitted])

    def summary(self) -> dict[str, Any]:
        """For JSON; what belongs to fitted poses only where there are any."""
        means = {"psnr": self.psnr, "ssim": self.ssim}
        table = dataclasses.asdict(self)
        if not self.pose_fit_steps:
            del table["pose_fitted"], table["pose_fit_steps"]
            return {**means, **table}
        fitted = {
            "psnr_pose_fitted": self.psnr_pose_fitted,
            "ssim_pose_fitted": self.ssim_pose_fitted,
        }
        return {**means, **fitted, **table}


class Judged(NamedTuple):
    """One view: PSNR [], SSIM [], and the truth and the picture, uint8 [H, W, 3]."""

    psnr: Array
    ssim: Array
    truth: Array
    picture: Array


def _judge(scene: Primitive, photo: Photo, background: Array, *, capacity: Capacity) -> Judged:
    output = render(scene, photo.camera, capacity=capacity, background=background)
    picture, truth = rounded(output.color), rounded(photo.over(background))
    return Judged(
        psnr=psnr(picture, truth, photo.mask),
        ssim=ssim(picture, truth, photo.mask),
        truth=jnp.round(truth * 255).astype(jnp.uint8),
        picture=jnp.round(picture * 255).astype(jnp.uint8),
    )


judge = Compiled(_judge, static_argnames="capacity")  # once for each size and lens of the photos


def compilations() -> int:
    """How often this process has compiled for evaluations."""
    return judge.compilations + heldout.turn.compilations


def evaluate(
    scene: Primitive, dataset: Dataset, *, show: Show | None = None, fit_poses: int = 0
) -> Evaluation:
    """Score the held-out views of a dataset.

    Transparent photos are seen over white if they are Blender's, as is the custom, else over
    black.

    Args:
      scene: [N] primitives.
      dataset: its test views are used.
      show: called with each view's name, truth and picture, uint8 [H, W, 3].
      fit_poses: score every view a second time, at the pose that so many steps fit to its photo.
    """
    start = time.perf_counter()
    views = [dataset.views[i] for i in dataset.test]
    grey = WHITE if dataset.format == "blender" else BLACK
    scores, transparent = _scores(scene, views, grey, show)
    refit: tuple[Score, ...] = ()
    if fit_poses:
        moved = [_moved(scene, view, grey, dataset.extent, fit_poses) for view in views]
        refit, _ = _scores(scene, moved, grey, None)
    return Evaluation(
        scores=scores,
        split=dataset.split,
        resolution=_resolution(views),
        image_source=dataset.image_source,
        splats=count(scene),
        rounding="uint8",
        background=grey if transparent else None,
        seconds=time.perf_counter() - start,
        peak_memory=peak_memory(),
        pose_fitted=refit,
        pose_fit_steps=fit_poses,
    )


def _scores(
    scene: Primitive, views: Sequence[View], grey: float, show: Show | None
) -> tuple[tuple[Score, ...], bool]:
    """The scores of some views, and whether a photo is transparent."""
    scores, transparent = [], False
    capacity = plan(scene, [view.camera for view in views])
    for view in views:
        photo = _photo(view)
        transparent |= photo.transparent
        judged = judge(scene, photo, flat(grey), capacity=capacity)
        scores.append(Score(view.name, float(judged.psnr), float(judged.ssim)))
        if show is not None:
            show(view.name, np.asarray(judged.truth), np.asarray(judged.picture))
    return tuple(scores), transparent


def _moved(scene: Primitive, view: View, grey: float, extent: float, steps: int) -> View:
    """The view at the pose that is fitted to its photo."""
    camera = heldout.fitted(
        scene,
        _photo(view),
        flat(grey),
        extent=extent,
        steps=steps,
        capacity=plan(scene, [view.camera]),
    )
    return dataclasses.replace(view, camera=camera)


def _photo(view: View) -> Photo:
    return Photo(view.camera, jnp.asarray(view.image()), view.mask())


def _resolution(views: Sequence[View]) -> str:
    sizes = sorted({(view.camera.width, view.camera.height) for view in views})
    return ", ".join(f"{width}x{height}" for width, height in sizes)


def _mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else float("nan")
