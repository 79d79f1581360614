"""xpr train: from photos to splats."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console, Group
from rich.progress import (
    BarColumn,
    Progress as Bar,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from xpr.errors import UserError

if TYPE_CHECKING:
    from xpr.train.evaluate import Evaluation
    from xpr.train.fit import Progress, Result


@dataclasses.dataclass
class Train:
    """Train splats on photos. Writes a folder with the .ply, pictures, metrics and checkpoints."""

    data: Annotated[Path | None, tyro.conf.Positional] = None
    """Photos with poses: a COLMAP, nerfstudio or Blender folder, or a transforms.json."""
    method: str = "3dgs"
    """A name, "module:Class" or "file.py:Class"."""
    steps: int = 7_000
    """Length of the run; all schedules follow it."""
    cap: int = 20_000
    """Number of splats that the run grows to."""
    downscale: int = 1
    """Train on photos this many times smaller."""
    seed: int = 0
    """Same seed, same result."""
    optimize: str = ""
    """What of the cameras to refine: poses,intrinsics,distortion or some of them."""
    out: Path = Path("xpr-run")
    """Folder of the run."""
    stop_after: int | None = None
    """End early, with a checkpoint to resume from."""
    resume: Path | None = None
    """Folder of a run to continue, with its own settings. DATA then says where the photos are now."""

    def run(self) -> None:
        """Train with progress on the screen, and print what came of it."""
        from xpr.data import load
        from xpr.train.config import TrainConfig
        from xpr.train.fit import fit

        console = Console()
        if self.resume is not None:
            config = TrainConfig.load(self.resume / "config.json")
            self._refuse_settings()
        elif self.data is None:
            raise UserError("no DATA given, expected a folder of photos with poses, or --resume.")
        else:
            config = TrainConfig(
                method=self.method,
                steps=self.steps,
                cap=self.cap,
                downscale=self.downscale,
                seed=self.seed,
                optimize=self.optimize,
                data=str(self.data.resolve()),
            )
        config.check()
        photos = self.data or config.data
        if not photos:
            raise UserError(f"{self.resume} does not say where its photos are. Give DATA as well.")
        dataset = load(Path(photos), downscale=config.downscale)
        for note in dataset.notes:
            console.print(f"note: {note}", markup=False)
        out = None if self.resume is not None else self.out
        with _Screen(console, config.steps) as screen:
            try:
                result = fit(
                    dataset,
                    config,
                    out=out,
                    resume=self.resume,
                    stop_after=self.stop_after,
                    progress=screen.show,
                )
            except KeyboardInterrupt as stop:
                console.print(str(stop), markup=False, soft_wrap=True)
                raise
        report(console, result)

    def _refuse_settings(self) -> None:
        """A resumed run keeps its settings: refuse others rather than ignore them."""
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if field.name not in ("data", "resume", "stop_after") and given != field.default:
                raise UserError(
                    f"--{field.name} {given} was given with --resume, expected none: a run goes on "
                    f"with its own settings. Leave it out, or start a new run with --out."
                )


def report(console: Console, result: Result) -> None:
    """Print the held-out metrics and what the run cost."""
    console.print(scores(result.evaluation))
    rate = result.step / max(result.seconds, 1e-9)
    console.print(
        f"{result.step:,} steps in {result.seconds:.1f} s ({rate:.1f}/s), "
        f"{result.waiting:.1%} of the time waiting for photos, "
        f"{result.compilations} compilations, peak memory {result.peak_memory / 1e9:.2f} GB"
    )
    if result.out is not None:
        console.print(f"written to {result.out}", markup=False)


def scores(evaluation: Evaluation) -> Group:
    """A table of the scores by view, below all that belongs to them."""
    over = {None: "", 0.0: ", over black", 1.0: ", over white"}[evaluation.background]
    heading = Text(
        f"held-out views: {evaluation.split}; {evaluation.resolution}, "
        f"{evaluation.image_source}, compared as {evaluation.rounding}{over}; "
        f"{evaluation.splats:,} splats; {evaluation.seconds:.1f} s, "
        f"peak memory {evaluation.peak_memory / 1e9:.2f} GB"
    )
    table = Table(show_footer=True)
    table.add_column("view", "mean")
    for name, mean in zip(
        ("PSNR, dB", "SSIM"), _cells(evaluation.psnr, evaluation.ssim), strict=True
    ):
        table.add_column(name, mean, justify="right")
    rows = [[score.name, *_cells(score.psnr, score.ssim)] for score in evaluation.scores]
    if evaluation.pose_fit_steps:
        heading.append(f"; poses fitted to these photos in {evaluation.pose_fit_steps} steps")
        means = _cells(evaluation.psnr_pose_fitted, evaluation.ssim_pose_fitted)
        for name, mean in zip(("PSNR, pose fitted", "SSIM, pose fitted"), means, strict=True):
            table.add_column(name, mean, justify="right")
        for row, score in zip(rows, evaluation.pose_fitted, strict=True):
            row += _cells(score.psnr, score.ssim)
    for name, *cells in rows:
        table.add_row(Text(name), *cells)
    return Group(heading, table)


def _cells(psnr: float, ssim: float) -> tuple[str, str]:
    return f"{psnr:.2f}", f"{ssim:.4f}"


class _Screen:
    """A progress bar with the notes of the run above it."""

    def __init__(self, console: Console, steps: int):
        self._console = console
        self._bar = Bar(
            TextColumn("{task.completed:,}/{task.total:,}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID = self._bar.add_task("", total=steps, told="compiling")
        self._handler = _Notes(console)

    def __enter__(self) -> _Screen:
        logger = logging.getLogger("xpr")
        logger.addHandler(self._handler)
        logger.propagate = False
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None and issubclass(kind, UserError):  # one line says it, with no bar
            self._bar.remove_task(self._task)
        self._bar.stop()
        logger = logging.getLogger("xpr")
        logger.removeHandler(self._handler)
        logger.propagate = True

    def show(self, progress: Progress) -> None:
        """Move the bar to a logged step."""
        told = (
            f"{progress.steps_per_second:.1f} steps/s  loss {progress.loss:.4f}  "
            f"PSNR {progress.psnr:.2f}  {progress.splats:,} splats"
        )
        self._bar.update(self._task, completed=progress.step, told=told)


class _Notes(logging.Handler):
    """Prints what the trainer logs, above the bar."""

    def __init__(self, console: Console):
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """One line a note."""
        self._console.print(f"note: {record.getMessage()}", markup=False)
