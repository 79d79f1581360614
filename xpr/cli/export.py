"""`xpr export`: the compiled rendering of a scene, in one file that runs without xpr."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from xpr.cli.render import Render
from xpr.cli.sources import scene_in
from xpr.errors import UserError
from xpr.files import check_target
from xpr.types import count

VIEWS = 24  # on the path that buffers are sized for


@dataclasses.dataclass
class Export:
    """Write a file that renders the scene wherever jax runs, without xpr (docs/export.md)."""

    source: tyro.conf.Positional[Path]
    """A run folder, or a splat file."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("render.xpr")
    """The file to write."""
    platforms: str = "cpu,cuda,rocm,tpu"
    """Where it is to run."""
    width: int | None = None
    """Of the image, in pixels; by default the dataset's, or 480."""
    height: int | None = None
    """Of the image, in pixels; by default the dataset's, or 360."""
    sizes: str | None = None
    """Several sizes instead: 640x480,320x240."""
    baked: bool = False
    """The scene is part of the function (the default)."""
    parameters: bool = False
    """The scene is an argument, which the file holds too."""
    gradient: bool = False
    """Add the value and gradient of an image loss."""
    data: Path | None = None
    """The dataset for whose cameras buffers are sized. A run knows its own."""

    def run(self) -> None:
        """Write the file."""
        from xpr import export

        if self.baked and self.parameters:
            raise UserError("--baked and --parameters exclude each other.")
        check_target(self.output)
        scene = scene_in(self.source)
        if not count(scene):
            raise UserError(f"{self.source} holds no splats: there is nothing to export.")
        means = np.asarray(getattr(scene, scene.position_field))
        export.save(
            scene,
            Render(self.source, data=self.data, frames=VIEWS).cameras(means),
            self.output,
            sizes=self._sizes(),
            platforms=tuple(self.platforms.split(",")),
            baked=not self.parameters,
            gradient=self.gradient,
        )
        print(self.output)

    def _sizes(self) -> list[tuple[int, int]]:
        if (self.width is None) != (self.height is None):
            raise UserError("--width and --height come together.")
        if self.width is not None and self.height is not None:
            found = [(self.width, self.height)]
        else:
            found = [_size(text) for text in (self.sizes or "").split(",") if text]
        if any(min(size) < 1 for size in found):
            raise UserError(f"the sizes {found} are not all positive.")
        return found


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise UserError(f"--sizes {text!r}: expected WIDTHxHEIGHT, such as 640x480.")
    return int(width), int(height)
