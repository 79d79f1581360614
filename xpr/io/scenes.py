"""Scenes whose .ply has a layout of its own: LinPrim's official one, or a generic one."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from xpr import methods
from xpr.errors import DataError
from xpr.io.generic import primitive_in, read_generic, write_generic
from xpr.io.linprim import distances_in, read_linprim, write_linprim
from xpr.io.ply_header import read_layout
from xpr.io.table import FIELDS
from xpr.methods.gaussian3d import Gaussian3D
from xpr.methods.linprim import LinPrim
from xpr.types import Primitive

logger = logging.getLogger(__name__)

SOLIDS = {3: "linprim", 4: "linprim-tetrahedron"}  # by the distances a solid


def write_own(scene: Primitive, path: Path) -> bool:
    """Write what is no 3DGS scene as .ply; False, and nothing written, if that is not the case.

    3DGUT's Gaussians have settings that a 3DGS file cannot hold: generic as well.

    Raises:
      UserError: a scene that has no such layout.
      OSError: the folder does not exist or cannot be written.
    """
    if not _plain(path) or isinstance(scene, Gaussian3D):
        return False
    write_linprim(scene, path) if isinstance(scene, LinPrim) else write_generic(scene, path)
    return True


def read_own(path: Path, method: type[Primitive] | None) -> Primitive | None:
    """The scene of a .ply that is no 3DGS file; None for 3DGS files and other formats.

    Args:
      path: of the file.
      method: the primitive's class; None if the file says it.

    Raises:
      DataError: a file of another method, a damaged one, or a primitive that xpr does not know.
      OSError: the file cannot be opened.
    """
    if not _plain(path):
        return None
    layout = read_layout(path)
    primitive, distances = primitive_in(layout), distances_in(layout)
    if method is None and primitive is not None:
        method = _known(path, primitive)
    if method is None and distances:
        method = methods.load(SOLIDS.get(distances, "linprim"))
    if method is None or (primitive is None and not distances and _like_3dgs(method)):
        return None
    solid = issubclass(method, LinPrim)
    return _finite(read_linprim(path, method) if solid else read_generic(path, method), path)


def _plain(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith(".ply") and not name.endswith(".compressed.ply")


def _known(path: Path, primitive: str) -> type[Primitive]:
    for name, target in methods.names().items():
        if target.endswith(f":{primitive}"):
            return methods.load(name)
    raise DataError(
        f"{path} holds {primitive}, which is no method that xpr knows by name. Name its class: "
        "io.load(path, method)."
    )


def _like_3dgs(method: type[Primitive]) -> bool:
    return {field.name for field in dataclasses.fields(method)} >= set(FIELDS)


def _finite(scene: Primitive, path: Path) -> Primitive:
    """Without the primitives that hold a NaN or an infinity, which are counted."""
    rows = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(scene)]
    keep = np.asarray(np.isfinite(np.concatenate(rows, axis=1)).all(axis=1))
    if not keep.all():
        lost = f"{np.sum(~keep):,} of {keep.size:,}"
        logger.warning("%s: dropped %s primitives with non-finite values", path, lost)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[keep]), scene)
