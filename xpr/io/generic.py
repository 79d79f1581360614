"""A scene of any primitive as a .ply that says what its columns are.

One column a number: `name` for a scalar field, `name_0 name_1 ...` else (row after row). The
comments name the primitive, each field's shape and each static setting:

    comment xpr primitive Sphere
    comment xpr field center 3
    comment xpr setting spread 1.0
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from xpr.errors import DataError, UserError
from xpr.io.ply_header import Layout, read_layout, read_vertices, write_vertices
from xpr.types import Primitive, count

P = TypeVar("P", bound=Primitive)
MARK = "xpr"


def write_generic(scene: Primitive, path: Path) -> None:
    """Write every field as float32, and the static settings.

    Raises:
      UserError: a field is a tree of its own, or a setting has no JSON.
      OSError: the folder does not exist or cannot be written.
    """
    arrays, settings = _parts(scene)
    columns = {name: leaf.reshape(count(scene), -1) for name, leaf in arrays.items()}
    names = {name: _columns(name, leaf.shape[1:]) for name, leaf in arrays.items()}
    rows = np.empty(count(scene), [(column, "<f4") for some in names.values() for column in some])
    for name, some in names.items():
        for column, values in zip(some, columns[name].T, strict=True):
            rows[column] = values
    comments = [f"{MARK} primitive {type(scene).__name__}"]
    comments += [f"{MARK} field {k} {' '.join(map(str, v.shape[1:]))}" for k, v in arrays.items()]
    comments += [f"{MARK} setting {k} {json.dumps(v)}" for k, v in settings.items()]
    write_vertices(path, rows, comments)


def read_generic(path: Path, method: type[P]) -> P:
    """The scene that `write_generic` wrote; `method` is its class.

    Raises:
      DataError: another primitive's file, or not its fields.
      OSError: the file cannot be opened.
    """
    told = _told(read_layout(path))
    have = next(iter(told.get("primitive", {})), "no xpr primitive")
    if have != method.__name__:
        raise DataError(f"{path} holds {have}, expected {method.__name__}. Name its --method.")
    known = {field.name for field in dataclasses.fields(method)}
    kept = told.get("field", {}).keys() | told.get("setting", {}).keys()
    if known != kept:
        raise DataError(
            f"{path} was written by another version of {method.__name__} "
            f"({', '.join(sorted(known ^ kept))} differ). Train anew, or use the version that wrote it."
        )
    rows = read_vertices(path)
    try:
        settings = {name: json.loads(words) for name, words in told.get("setting", {}).items()}
        fields = {
            name: _field(rows, name, tuple(map(int, words.split())))
            for name, words in told.get("field", {}).items()
        }
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    return method(**fields, **settings)


def primitive_in(layout: Layout) -> str | None:
    """The class whose scene a file says it holds; None where `write_generic` did not write it."""
    return next(iter(_told(layout).get("primitive", {})), None)


def _told(layout: Layout) -> dict[str, dict[str, str]]:
    """The marked comments: kind -> name -> what it says."""
    told: dict[str, dict[str, str]] = {}
    for comment in layout.comments:
        mark, _, rest = comment.partition(" ")
        if mark == MARK:
            kind, _, rest = rest.partition(" ")
            name, _, words = rest.partition(" ")
            told.setdefault(kind, {})[name] = words
    return told


def _parts(scene: Primitive) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The array fields and the static ones."""
    arrays, settings = {}, {}
    for field in dataclasses.fields(scene):
        value = getattr(scene, field.name)
        if not field.metadata.get("pytree_node", True):
            settings[field.name] = value
        elif isinstance(value, jax.Array | np.ndarray):
            arrays[field.name] = np.asarray(value, np.float32)
        else:
            raise UserError(
                f"{type(scene).__name__}.{field.name} is a {type(value).__name__}, expected an "
                "array: a .ply has one column a number."
            )
    return arrays, settings


def _columns(name: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{name}_{i}" for i in range(math.prod(shape))] if shape else [name]


def _field(rows: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    empty = np.empty((len(rows), 0), np.float32)
    columns = [rows[column].astype(np.float32)[:, None] for column in _columns(name, shape)]
    return np.concatenate([empty, *columns], axis=1).reshape(len(rows), *shape)
