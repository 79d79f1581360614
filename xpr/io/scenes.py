"""Scenes of any method as .ply files: in the layout of its field, else in a generic one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

import jax
import jax.numpy as jnp

from xpr import io
from xpr.io.generic import is_generic, read_generic, write_generic
from xpr.io.linprim import read_linprim, write_linprim
from xpr.io.table import FIELDS
from xpr.methods.gaussian3d import Gaussian3D
from xpr.methods.linprim import LinPrim
from xpr.types import Primitive

P = TypeVar("P", bound=Primitive)


def save_scene(scene: Primitive, path: str | Path) -> None:
    """Write a scene: 3D Gaussians as `io.save` does, solids in LinPrim's layout, others generic.

    3DGUT's Gaussians have settings of their own that a 3DGS file cannot hold: generic as well.

    Raises:
      UserError: as `io.save` and `write_generic`.
      OSError: the folder does not exist or cannot be written.
    """
    if isinstance(scene, Gaussian3D):
        io.save(scene, path)
    elif isinstance(scene, LinPrim):
        write_linprim(scene, Path(path))
    else:
        write_generic(scene, Path(path))


def load_scene(path: str | Path, method: type[P]) -> P:
    """The scene of a method in a file, that `save_scene` or the method's own tools wrote.

    A 3DGS file serves any method with the same fields, such as 3DGUT.

    Raises:
      DataError: a file of another method, or a damaged one.
      OSError: the file cannot be opened.
    """
    path = Path(path)
    if issubclass(method, LinPrim):
        scene = read_linprim(path, method)
    elif not issubclass(method, Gaussian3D) and (not _like_3dgs(method) or is_generic(path)):
        scene = read_generic(path, method)
    else:
        table = io.read(path)
        scene = method(**{name: getattr(table, name) for name in FIELDS})
        if isinstance(scene, Gaussian3D):
            scene = scene.replace(antialiased=table.antialiased)
    return jax.tree.map(jnp.asarray, scene)


def _like_3dgs(method: type[Primitive]) -> bool:
    return {field.name for field in dataclasses.fields(method)} >= set(FIELDS)
