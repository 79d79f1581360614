"""`xpr render`: a trained scene as a video or a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np
import tyro

import xpr
from xpr import paths
from xpr.cli.sources import CONFIG, existing, is_run, scene_in
from xpr.errors import UserError
from xpr.files import check_target
from xpr.media import save_png, write_video
from xpr.types import count

CORE = (5, 95)  # per cent of the splats along each axis that a view without cameras centres on
FIELD_OF_VIEW = 50.0  # degrees, of such a view
UPS = {"x": 0, "y": 1, "z": 2}


@dataclasses.dataclass
class Render:
    """Render a trained scene along a camera path."""

    source: tyro.conf.Positional[Path]
    """A run folder, or a splat file."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("render.mp4")
    """An .mp4 with every view, or a .png of the first one."""
    camera_path: Literal["orbit", "spiral", "interpolate"] = "orbit"
    """How the camera moves."""
    data: Path | None = None
    """The dataset whose cameras guide the path. A run knows its own."""
    frames: int = 120
    """How many views."""
    fps: int = 30
    """Views a second."""
    size: tuple[int, int] | None = None
    """Width and height in pixels; by default the dataset's, or 480 360."""
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Red, green and blue, 0 to 1."""
    up: Literal["x", "y", "z", "-x", "-y", "-z"] = "-y"
    """Which way is up where no dataset tells."""

    def run(self) -> None:
        """Write the file."""
        if self.output.suffix.lower() not in (".mp4", ".png"):
            raise UserError(f"{self.output} has another suffix, expected .mp4 or .png.")
        check_target(self.output)
        if self.frames < 1 or self.fps < 1:
            raise UserError(f"{self.frames} frames at {self.fps} fps: both must be at least 1.")
        scene = scene_in(self.source)
        if not count(scene):
            raise UserError(f"{self.source} holds no splats: there is nothing to render.")
        cameras = self.cameras(np.asarray(getattr(scene, scene.position_field)))
        if not all(0 <= value <= 1 for value in self.background):
            raise UserError(f"--background is {self.background}, expected three values in 0 to 1.")
        background = jnp.asarray(self.background, jnp.float32)
        if self.output.suffix.lower() == ".png":
            save_png(self.output, next(film(scene, cameras[:1], background)))
        else:
            write_video(self.output, film(scene, cameras, background), fps=self.fps)
        print(self.output)

    def cameras(self, means: np.ndarray) -> list[xpr.Camera]:
        """The views of the path, at the wanted size."""
        known = self._dataset_cameras()
        if known:
            cameras = paths.PATHS[self.camera_path](known, self.frames)
        elif self.camera_path != "orbit":
            raise UserError(
                f"the path {self.camera_path!r} follows a dataset's cameras: give --data DATASET."
            )
        else:
            cameras = around(means, self.frames, up=self.up)
        return [c.resized(*self.size) for c in cameras] if self.size else cameras

    def _dataset_cameras(self) -> list[xpr.Camera]:
        if self.data is not None:
            folder, downscale = self.data, 1
        elif is_run(self.source):
            from xpr.train.config import TrainConfig

            config = TrainConfig.load(self.source / CONFIG)
            folder, downscale = Path(config.data), config.downscale
        else:
            return []
        from xpr import data

        dataset = data.load(existing(folder), downscale=downscale)
        if self.data is None:
            from xpr.train import refined
            from xpr.train.folder import RunFolder

            dataset = refined.load(dataset, RunFolder(self.source).cameras)
        return [view.camera for view in dataset.views]


def film(
    scene: xpr.Primitive, cameras: Sequence[xpr.Camera], background: jnp.ndarray
) -> Iterator[np.ndarray]:
    """The views [H, W, 3] of cameras of one size, one at a time, with a progress bar."""
    from rich.console import Console
    from rich.progress import track

    capacity = xpr.plan(scene, cameras)
    console = Console(stderr=True)
    hidden = not console.is_terminal
    for camera in track(cameras, "rendering", console=console, transient=True, disable=hidden):
        output = xpr.render(scene, camera, capacity=capacity, background=background)
        output.overflow.check(capacity)
        yield np.asarray(output.color)


def around(means: np.ndarray, n: int, *, up: str = "-y") -> list[xpr.Camera]:
    """`n` views on a circle around splats with no cameras to go by.

    It centres on the middle nine tenths of `means` [N, 3] and keeps them in view. `up` is an axis
    of the world, with its sign.
    """
    low, high = np.percentile(means, CORE, axis=0)
    center, radius = (low + high) / 2, max(0.5 * float(np.linalg.norm(high - low)), 1e-3)
    axis = UPS[up[-1]]
    top, start = np.zeros(3), np.zeros(3)
    top[axis] = -1.0 if up.startswith("-") else 1.0
    start[(axis + 1) % 3] = 1.0
    distance = radius / np.sin(np.radians(FIELD_OF_VIEW) / 2)
    focal = 0.5 * 360 / np.tan(np.radians(FIELD_OF_VIEW) / 2)
    K = jnp.array([[focal, 0, 240], [0, focal, 180], [0, 0, 1]])
    like = xpr.Camera(jnp.eye(4), K, width=480, height=360)
    slope = np.radians(20.0)
    level, lift = distance * np.cos(slope), distance * np.sin(slope)
    return paths.circle(like, center, level * start, level * np.cross(top, start), lift * top, n=n)
