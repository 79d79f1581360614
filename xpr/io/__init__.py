"""Splat files in and out. A new format is one module and one line of `FORMATS`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xpr.errors import UserError
from xpr.io.ply import read_ply, write_ply
from xpr.io.table import FIELDS, SplatTable as SplatTable

if TYPE_CHECKING:
    from xpr.methods.gaussian3d import Gaussian3D
    from xpr.types import Primitive

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Format:
    """How a kind of file becomes a table of splats, and back."""

    read: Callable[[Path], SplatTable]
    write: Callable[[SplatTable, Path], None]


FORMATS = {
    ".ply": Format(read_ply, write_ply),
}


def read(path: str | Path) -> SplatTable:
    """The splats of a file as arrays, with notes on what was odd. The suffix names the format.

    Raises:
      UserError: an unknown suffix.
      DataError: the file is not what its suffix says, or damaged.
      OSError: the file cannot be opened.
    """
    return _format(Path(path)).read(Path(path))


def load(path: str | Path) -> Gaussian3D:
    """The scene in a splat file. What was odd about the file is logged as a warning.

    Raises:
      UserError: an unknown suffix.
      DataError: the file is not what its suffix says, or damaged.
      OSError: the file cannot be opened.
    """
    table = read(path)
    for note in table.notes:
        logger.warning("%s: %s", path, note)
    return to_scene(table)


def save(scene: Primitive, path: str | Path) -> None:
    """Write a scene of 3D Gaussians; the suffix names the format.

    Raises:
      UserError: an unknown suffix, or a scene of another method.
      OSError: the folder does not exist or cannot be written.
    """
    _format(Path(path)).write(from_scene(scene), Path(path))


def to_scene(table: SplatTable) -> Gaussian3D:
    """The table as a scene that renders and trains."""
    import jax.numpy as jnp

    from xpr.methods.gaussian3d import Gaussian3D

    fields = [jnp.asarray(getattr(table, name)) for name in FIELDS]
    return Gaussian3D(*fields, antialiased=table.antialiased)


def from_scene(scene: Primitive) -> SplatTable:
    """A scene of 3D Gaussians as a table.

    Raises:
      UserError: a scene of another method, which splat files cannot hold.
    """
    missing = set(FIELDS) - {field.name for field in dataclasses.fields(scene)}
    if missing:
        raise UserError(
            f"a scene of {type(scene).__name__} cannot be saved as a splat file: it has no "
            f"{', '.join(sorted(missing))}. Splat files hold 3D Gaussians."
        )
    fields = [np.asarray(getattr(scene, name), np.float32) for name in FIELDS]
    return SplatTable(*fields, antialiased=bool(getattr(scene, "antialiased", False)))


def _format(path: Path) -> Format:
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise UserError(
            f"{path} has the suffix {path.suffix!r}, expected one of {', '.join(FORMATS)}."
        )
    return found
