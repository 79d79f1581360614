"""`xpr convert`: splats from one file format, frame or size to another."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from xpr import io
from xpr.cli.sources import existing, splats_of
from xpr.errors import DataError, UserError
from xpr.files import check_target
from xpr.io.frames import axes_matrix, transformed

FRAMES = {"colmap": "RDF", "opengl": "RUB", "z-up": "RFU"}


@dataclasses.dataclass
class Convert:
    """Convert splats between file formats and frames, and cut off what is not wanted.

    In order: transform, crop, prune, SH degree, frame. The output's ending names its format;
    a.v3.spz is an .spz of version 3, a.compressed.ply a packed .ply.
    """

    source: tyro.conf.Positional[Path]
    """A splat file, or a run folder."""
    output: tyro.conf.Positional[Path]
    """The file to write."""
    to_frame: Literal["colmap", "opengl", "z-up"] = "colmap"
    """The axes of the numbers: x right, y down, z forward; y up, z back; or y forward, z up. For
    formats that leave them open."""
    sh_degree: int | None = None
    """Drop the spherical harmonics above this degree, 0 to 4."""
    prune_opacity: float | None = None
    """Drop the splats whose opacity lies below."""
    crop: str | None = None
    """x0,y0,z0,x1,y1,z1: keep the splats whose centre lies inside. Write --crop=-1,... where the
    first number is negative."""
    transform: Path | None = None
    """A file with a 4x4 matrix new-world-from-old (numbers in rows, or JSON lists)."""
    drop_antialiased: bool = False
    """Write to a format that cannot say that splats are antialiased."""

    def run(self) -> None:
        """Write the file and tell what was dropped."""
        file = splats_of(self.source)
        check_target(self.output)
        target = io.format_of(self.output)
        if self.to_frame != "colmap" and target is not None and target.axes:
            raise UserError(
                f"{self.output}: this format prescribes its axes ({target.axes}): leave out "
                f"--to-frame {self.to_frame}."
            )
        if self.prune_opacity is not None and not 0 <= self.prune_opacity <= 1:
            raise UserError(f"--prune-opacity is {self.prune_opacity}, expected 0 to 1.")
        box = None if self.crop is None else _box(self.crop)
        matrix = None if self.transform is None else read_matrix(existing(self.transform))
        table = self._changed(io.read(file), matrix, box)
        io.write(table, self.output)
        for note in table.notes:
            print(f"{file}: {note}")
        print(f"{self.output}: {len(table):,} splats, SH degree {table.sh_degree}")

    def _changed(
        self, table: io.SplatTable, matrix: np.ndarray | None, box: np.ndarray | None
    ) -> io.SplatTable:
        if matrix is not None:
            table = transformed(table, matrix).finite()
        if box is not None:
            inside = np.all((table.mean >= box[0]) & (table.mean <= box[1]), axis=1)
            table = _kept(table, inside, "outside the box")
        if self.prune_opacity is not None:
            clear = table.opacity >= self.prune_opacity
            table = _kept(table, clear, f"of opacity below {self.prune_opacity:g}")
        if self.sh_degree is not None:
            if not 0 <= self.sh_degree <= 4:
                raise UserError(f"--sh-degree is {self.sh_degree}, expected 0 to 4.")
            table = table.truncated(self.sh_degree)
        if self.drop_antialiased:
            table = dataclasses.replace(table, antialiased=False)
        turn = np.eye(4)
        turn[:3, :3] = axes_matrix(FRAMES["colmap"], FRAMES[self.to_frame])
        return table if self.to_frame == "colmap" else transformed(table, turn)


def read_matrix(path: Path) -> np.ndarray:
    """A 4x4 matrix of a text file: sixteen numbers in rows, or nested JSON lists.

    Raises:
      DataError: anything else.
      OSError: the file cannot be opened.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        values = json.loads(text) if text.lstrip().startswith("[") else text.split()
        return np.array(values, np.float64).reshape(4, 4)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path} holds no 4x4 matrix of numbers: {error}.") from error


def _box(text: str) -> np.ndarray:
    """[2, 3] from six numbers with commas."""
    try:
        box = np.array(text.split(","), np.float64).reshape(2, 3)
    except ValueError as error:
        raise UserError(f"--crop {text!r}: expected x0,y0,z0,x1,y1,z1.") from error
    if not np.all(box[0] <= box[1]):
        raise UserError(f"--crop {text!r} is empty: expected x0 <= x1, y0 <= y1, z0 <= z1.")
    return box


def _kept(table: io.SplatTable, keep: np.ndarray, words: str) -> io.SplatTable:
    """The splats to keep, with a note on how many went."""
    return table.select(keep).noted(f"dropped {np.sum(~keep):,} of {len(table):,} splats {words}")
