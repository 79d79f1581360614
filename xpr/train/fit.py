"""Training, from a dataset to a scene and its scores."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from xpr import cache, io, media, methods
from xpr.errors import UserError
from xpr.train import heldout, refined
from xpr.train.config import TrainConfig
from xpr.train.curve import save_curve
from xpr.train.evaluate import Evaluation, compilations, evaluate
from xpr.train.folder import RunFolder
from xpr.train.interrupt import interruptible
from xpr.train.metrics import peak_memory
from xpr.train.refine import parts_of
from xpr.train.step import Report
from xpr.train.trainer import Trainer
from xpr.types import Primitive

if TYPE_CHECKING:
    from xpr.data import Dataset
    from xpr.train.checkpoint import Checkpoints


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run is, at a logged step.

    Attributes:
      step: steps done.
      steps: of the whole run.
      loss: with its penalties.
      psnr: of this step's training views, dB.
      splats: alive.
      steps_per_second: since the last report.
      seconds: in steps, since the run began.
    """

    step: int
    steps: int
    loss: float
    psnr: float
    splats: int
    steps_per_second: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to.

    Attributes:
      scene: the living splats, numpy arrays.
      evaluation: on the held-out views.
      step: steps done, over all parts of the run.
      seconds: in steps, over all parts.
      waiting: share of this part's time that steps waited for photos, in [0, 1].
      compilations: of the step and of the evaluation, in this process.
      peak_memory: bytes of main memory.
      notes: what was odd.
      out: the run's folder, if any.
    """

    scene: Primitive
    evaluation: Evaluation
    step: int
    seconds: float
    waiting: float
    compilations: int
    peak_memory: int
    notes: tuple[str, ...]
    out: Path | None


def fit(
    dataset: Dataset,
    config: TrainConfig,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    stop_after: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Train a scene.

    Same seed and same machine give the same bits, be the run one piece or stopped and resumed.

    Args:
      dataset: photos and points, from `xpr.data.load`.
      config: the settings; schedules follow its `steps`, wherever the run stops.
      out: folder for the files of a new run; none are written if None.
      resume: folder of a run to go on with, from its last checkpoint.
      stop_after: end after this step, with a checkpoint.
      progress: called at every logged step.

    Raises:
      UserError: settings that cannot be, a folder that holds another run, no photos.
      KeyboardInterrupt: Ctrl-C; a checkpoint was saved and the message says how to go on.
    """
    config.check()
    if stop_after is not None and not 1 <= stop_after <= config.steps:
        raise UserError(f"stop_after is {stop_after}, expected a step from 1 to {config.steps}.")
    if not dataset.train:
        raise UserError("the dataset has no training views, expected at least one.")
    method = methods.load(config.method)
    folder = _open(out, resume, config)
    cache.turn_on()
    trainer = Trainer(dataset, method, config)
    try:
        run = Run(trainer, config, folder, progress)
        if resume is not None:
            run.restore()
        if stop_after is not None and trainer.done >= stop_after:
            raise UserError(
                f"stop_after is {stop_after}, but the run is at step {trainer.done} already, "
                "expected a later one."
            )
        run.go(stop_after or config.steps)
        return run.finish(dataset)
    finally:
        trainer.close()


class Run:
    """A trainer and the folder that its run is written to."""

    def __init__(
        self,
        trainer: Trainer,
        config: TrainConfig,
        folder: RunFolder | None,
        progress: Callable[[Progress], None] | None = None,
    ):
        """Put the parts together; nothing is written yet."""
        self._trainer, self._config = trainer, config
        self._folder, self._progress = folder, progress
        self._began = time.perf_counter()
        self._marked = (trainer.done, self._began)

    def restore(self) -> None:
        """Go on from the folder's last checkpoint."""
        assert self._folder is not None
        with _checkpoints().of_run(self._folder.checkpoints) as checkpoints:
            self._trainer.restore(*checkpoints.restore(self._trainer.state))
        self._folder.rewind(self._trainer.done)
        self._marked = (self._trainer.done, time.perf_counter())

    def go(self, until: int) -> None:
        """Step to step `until`, log and save on the way.

        Raises:
          KeyboardInterrupt: after a checkpoint, saying how to go on.
        """
        with interruptible() as interrupted:
            while self._trainer.done < until and not interrupted():
                report = self._trainer.advance()
                self._note_oddities(report)
                done = self._trainer.done
                if done % self._config.log_every == 0 or done == until:
                    self._log(report)
                if done % self._config.save_every == 0:
                    self.save()
            self.save()
            if interrupted():
                raise KeyboardInterrupt(self._how_to_go_on())

    def save(self) -> None:
        """Write a checkpoint."""
        if self._folder is not None:
            with _checkpoints()(self._folder.checkpoints) as checkpoints:
                checkpoints.save(self._trainer.state, self._trainer.beside())

    def finish(self, dataset: Dataset) -> Result:
        """Score the scene and write what the run came to."""
        trainer, scene = self._trainer, self._trainer.scene()
        if self._config.optimize:
            dataset = trainer.refined(dataset)
            if self._folder is not None:
                refined.save(dataset, self._folder.cameras)
        seconds = time.perf_counter() - self._began
        before = compilations()
        fit_poses = heldout.STEPS if "poses" in parts_of(self._config.optimize) else 0
        evaluation = evaluate(jax.device_put(scene), dataset, show=self._show, fit_poses=fit_poses)
        result = Result(
            scene=scene,
            evaluation=evaluation,
            step=trainer.done,
            seconds=trainer.seconds,
            waiting=trainer.waited / seconds,
            compilations=trainer.compilations + compilations() - before,
            peak_memory=peak_memory(),
            notes=(*dataset.notes, *trainer.notes),
            out=None if self._folder is None else self._folder.path,
        )
        if self._folder is not None:
            _write(self._folder, result, self._config)
        return result

    def _note_oddities(self, report: Report) -> None:
        done = self._trainer.done
        if dropped := int(report.dropped):
            self._trainer.say(f"step {done}: {dropped:,} splats had no finite gradient; left out.")
        if bool(report.stalled):
            self._trainer.say(f"step {done}: every splat has faded; none to build on, none moved.")

    def _log(self, report: Report) -> None:
        trainer, now = self._trainer, time.perf_counter()
        (step, then), self._marked = self._marked, (trainer.done, now)
        progress = Progress(
            step=trainer.done,
            steps=self._config.steps,
            loss=float(report.loss),
            psnr=float(report.psnr),
            splats=int(report.splats),
            steps_per_second=(trainer.done - step) / max(now - then, 1e-9),
            seconds=trainer.seconds,
        )
        if self._folder is not None:
            self._folder.log(dataclasses.asdict(progress))
        if self._progress is not None:
            self._progress(progress)

    def _show(self, name: str, truth: np.ndarray, picture: np.ndarray) -> None:
        if self._folder is not None:
            self._folder.pictures.mkdir(exist_ok=True)
            file = re.sub(r"[^\w.-]+", "_", Path(name).with_suffix("").as_posix()) + ".png"
            media.save_png(self._folder.pictures / file, media.side_by_side(truth, picture))

    def _how_to_go_on(self) -> str:
        where = f"stopped at step {self._trainer.done} of {self._config.steps}"
        if self._folder is None:
            return f"{where}; nothing was saved, for want of a folder (--out)."
        return f"{where}. Go on with: xpr train --resume {self._folder.path}"


def _checkpoints() -> type[Checkpoints]:
    """Imported late: orbax takes 0.2 s, which no first step should wait for."""
    from xpr.train.checkpoint import Checkpoints

    return Checkpoints


def _open(out: Path | None, resume: Path | None, config: TrainConfig) -> RunFolder | None:
    if resume is not None:
        folder = RunFolder.reopen(resume, config)
        with _checkpoints().of_run(folder.checkpoints) as checkpoints:
            checkpoints.check_cap(config.cap)
        return folder
    return None if out is None else RunFolder.start(out, config)


def _write(folder: RunFolder, result: Result, config: TrainConfig) -> None:
    try:
        io.save(result.scene, folder.splats)
    except UserError as error:
        result = dataclasses.replace(result, notes=(*result.notes, f"no .ply: {error}"))
    save_curve(folder.logged(), folder.curve)
    told = {
        field.name: getattr(result, field.name)
        for field in dataclasses.fields(result)
        if field.name not in ("scene", "evaluation", "out")
    }
    folder.summarize({**told, "steps": config.steps, "evaluation": result.evaluation.summary()})
