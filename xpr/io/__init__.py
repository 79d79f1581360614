"""Splat files in and out. A new format is one module and one line of `FORMATS`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xpr import sh
from xpr.errors import UserError
from xpr.io.compressed_ply import write_compressed
from xpr.io.frames import WORLD, to_axes
from xpr.io.gltf import AXES as GLTF_AXES, read_gltf, write_glb, write_gltf
from xpr.io.ksplat import read_ksplat
from xpr.io.ply import read_ply, write_ply
from xpr.io.sog import read_sog, write_sog
from xpr.io.splat import read_splat, write_splat
from xpr.io.spz import AXES as SPZ_AXES, read_spz, write_spz, write_spz_3
from xpr.io.table import FIELDS, SplatTable as SplatTable

if TYPE_CHECKING:
    from xpr.methods.gaussian3d import Gaussian3D
    from xpr.types import Primitive

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Format:
    """How a kind of file becomes a table of splats, and back.

    Attributes:
      read: from a path; the table may have any axes, and says which.
      write: a table with the format's axes, to a path. None where xpr only reads.
      axes: those that the format prescribes; None where it leaves them open (xpr's own then).
      sh_degree: the highest that a written file holds.
      tagged: whether a written file says that splats are antialiased.
    """

    read: Callable[[Path], SplatTable]
    write: Callable[[SplatTable, Path], None] | None = None
    axes: str | None = None
    sh_degree: int = sh.MAX_DEGREE
    tagged: bool = True


# The first ending that fits a file's name counts.
FORMATS = {
    ".compressed.ply": Format(read_ply, write_compressed),
    ".ply": Format(read_ply, write_ply),
    ".splat": Format(read_splat, write_splat, sh_degree=0, tagged=False),
    ".v3.spz": Format(read_spz, write_spz_3, SPZ_AXES, sh_degree=3),
    ".spz": Format(read_spz, write_spz, SPZ_AXES),
    ".sog": Format(read_sog, write_sog, sh_degree=3),
    "meta.json": Format(read_sog),
    ".glb": Format(read_gltf, write_glb, GLTF_AXES, sh_degree=3),
    ".gltf": Format(read_gltf, write_gltf, GLTF_AXES, sh_degree=3),
    ".ksplat": Format(read_ksplat),
}


def format_of(path: str | Path) -> Format | None:
    """The format that the end of a file's name stands for, or None."""
    name = Path(path).name.lower()
    return next((known for end, known in FORMATS.items() if name.endswith(end)), None)


def read(path: str | Path) -> SplatTable:
    """The splats of a file as arrays, in xpr's axes, with notes on what was odd.

    The name's ending tells the format. Formats that prescribe their axes are turned: what is up in
    the file is up in the table.

    Raises:
      UserError: an unknown suffix.
      DataError: the file is not what its suffix says, or damaged.
      OSError: the file cannot be opened.
    """
    return to_axes(_format(Path(path)).read(Path(path)), WORLD)


def write(table: SplatTable, path: str | Path) -> None:
    """Write splats; the name's ending tells the format. What it cannot hold is refused.

    Raises:
      UserError: an unknown suffix, a format that is only read, or one that cannot hold the
        spherical harmonics or the antialiased flag of these splats.
      OSError: the folder does not exist or cannot be written.
    """
    path, found = Path(path), _format(Path(path))
    if found.write is None:
        raise UserError(f"{path}: this format is only read. Written are {', '.join(writable())}.")
    lost = losses(table, found)
    if lost:
        raise UserError(
            f"{path} cannot hold {' and '.join(lost)}. xpr convert can drop that: --sh-degree, --drop-antialiased."
        )
    found.write(to_axes(table, found.axes or WORLD), path)


def losses(table: SplatTable, target: Format) -> list[str]:
    """What a format cannot hold of these splats, in words."""
    lost = []
    if table.sh_degree > target.sh_degree:
        lost.append(f"SH degree {table.sh_degree} (at most {target.sh_degree})")
    if table.antialiased and not target.tagged:
        lost.append("the antialiased flag")
    return lost


def writable() -> list[str]:
    """The endings of the formats that are written."""
    return [end for end, known in FORMATS.items() if known.write is not None]


def load(path: str | Path, method: type[Primitive] | None = None) -> Primitive:
    """The scene in a file. What was odd about the file is logged as a warning.

    Args:
      path: a splat file, or a .ply of any method.
      method: the class of its primitives; by default what the file says, else 3D Gaussians. A 3DGS
        file serves every method with the same fields, such as 3DGUT.

    Raises:
      UserError: an unknown suffix.
      DataError: the file is not what its suffix says, damaged, or of another method.
      OSError: the file cannot be opened.
    """
    from xpr.io.scenes import read_own

    own = read_own(Path(path), method)
    if own is not None:
        return own
    table = read(path)
    for note in table.notes:
        logger.warning("%s: %s", path, note)
    scene = to_scene(table)
    if method is None or isinstance(scene, method):
        return scene
    return method(**{name: getattr(scene, name) for name in FIELDS})


def save(scene: Primitive, path: str | Path) -> None:
    """Write a scene; the suffix names the format. A .ply holds any method, others 3D Gaussians.

    Raises:
      UserError: a scene of another method, or as `write`.
      OSError: the folder does not exist or cannot be written.
    """
    from xpr.io.scenes import write_own

    if not write_own(scene, Path(path)):
        write(from_scene(scene), path)


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
            f"{', '.join(sorted(missing))}. Save it as .ply."
        )
    fields = [np.asarray(getattr(scene, name), np.float32) for name in FIELDS]
    return SplatTable(*fields, antialiased=bool(getattr(scene, "antialiased", False)))


def _format(path: Path) -> Format:
    found = format_of(path)
    if found is None:
        raise UserError(
            f"{path} has the suffix {path.suffix!r}, expected one of {', '.join(FORMATS)}."
        )
    return found
