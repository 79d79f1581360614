"""glTF scenes with KHR_gaussian_splatting, .glb or .gltf: splats as the points of a mesh.

The current attribute names are read and written, the first ones (_ROTATION, _SCALE, COLOR_0) read.
Scale and opacity are linear, quaternions (x, y, z, w), axes left, up, forward. glTF has no place
for the antialiased flag: it goes into the primitive's `extras`.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from xpr import sh
from xpr.errors import DataError, UserError
from xpr.files import atomic_write
from xpr.io.fields import Fields
from xpr.io.frames import transformed
from xpr.io.gltf_buffers import Buffers, open_gltf
from xpr.io.gltf_nodes import placements
from xpr.io.quantize import unit_quats
from xpr.io.table import SplatTable, joined

AXES = "LUF"
EXTENSION = "KHR_gaussian_splatting"
UNDERSTOOD = {EXTENSION, "KHR_materials_unlit"}
POINTS = 0
MOST_DEGREE = 3
ROTATIONS, SCALES = (f"{EXTENSION}:ROTATION", "_ROTATION"), (f"{EXTENSION}:SCALE", "_SCALE")
OPACITIES = (f"{EXTENSION}:OPACITY", "_OPACITY")
LEAST_OPACITY = 1e-7  # opacities 0 and 1 have no finite logit: float32 resolves no less near 1


def read_gltf(path: Path) -> SplatTable:
    """The splats of all meshes of a .glb or .gltf, placed by their nodes, in the axes LUF.

    Raises:
      DataError: no glTF, no splats in it, an extension that it requires is unknown, or damaged.
      OSError: the file cannot be opened.
    """
    root, buffers = open_gltf(path)
    required = root.values.get("extensionsRequired", [])
    unknown = [name for name in _listed(root, required) if name not in UNDERSTOOD]
    if unknown:
        raise DataError(f"{path} requires the glTF extension {unknown[0]!r}, which is unknown.")
    meshes = [_mesh(mesh, buffers) for mesh in root.objects("meshes")]
    placed = placements(root, len(meshes))
    try:
        tables = [
            table if matrix is None else transformed(table, matrix)
            for index, matrix in placed
            for table in meshes[index]
        ]
    except UserError as error:
        raise DataError(f"{path}: a node's matrix cannot place splats: {error}") from error
    if not tables:
        raise DataError(f"{path} holds no primitive with {EXTENSION}, expected splats.")
    return joined(tables).finite()


def write_glb(table: SplatTable, path: Path) -> None:
    """Write one .glb with the current attribute names. `table` has the axes LUF.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    root, binary = _document(table)
    root["buffers"] = [{"byteLength": len(binary)}]
    text = json.dumps(root, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    chunks = [struct.pack("<I4s", len(text), b"JSON"), text]
    chunks += [struct.pack("<I4s", len(binary), b"BIN\0"), binary]
    size = 12 + sum(map(len, chunks))
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"".join([struct.pack("<4sII", b"glTF", 2, size), *chunks]))


def write_gltf(table: SplatTable, path: Path) -> None:
    """Write one .gltf, its numbers in it as base64. `table` has the axes LUF.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    import base64

    root, binary = _document(table)
    uri = f"data:application/octet-stream;base64,{base64.b64encode(binary).decode()}"
    root["buffers"] = [{"byteLength": len(binary), "uri": uri}]
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(root), encoding="utf-8")


def _listed(root: Fields, names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise root.wrong("extensionsRequired", "a list of strings")
    return names


def _mesh(mesh: Fields, buffers: Buffers) -> list[SplatTable]:
    """The splats of each primitive that has any."""
    found = []
    for primitive in mesh.objects("primitives"):
        if EXTENSION not in primitive.object("extensions"):
            continue
        if primitive.integer("mode", least=0, most=6, default=4) != POINTS:
            raise DataError(f"{mesh.path}: {primitive.place} has splats but does not draw points.")
        found.append(_primitive(primitive, buffers))
    return found


def _primitive(primitive: Fields, buffers: Buffers) -> SplatTable:
    attributes = primitive.object("attributes")
    mean = buffers.attribute(attributes, ("POSITION",), 3)
    count = len(mean)
    sh0, opacity = _color(attributes, buffers, count)
    p = np.clip(opacity.astype(np.float64), LEAST_OPACITY, 1 - LEAST_OPACITY)
    with np.errstate(divide="ignore", invalid="ignore"):  # such splats are dropped with a count
        log_scale = np.log(buffers.attribute(attributes, SCALES, 3, count))
    return SplatTable(
        mean=mean,
        quat=np.roll(buffers.attribute(attributes, ROTATIONS, 4, count), 1, axis=1),
        log_scale=log_scale,
        logit_opacity=np.log(p / (1 - p)).astype(np.float32),
        sh0=sh0.astype(np.float32)[:, None],
        shN=_harmonics(attributes, buffers, count),
        antialiased=primitive.object("extras").flag("antialiased"),
        axes=AXES,
        notes=_odd(primitive.object("extensions").object(EXTENSION)),
    ).finite()


def _color(attributes: Fields, buffers: Buffers, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The constant harmonic [N, 3] and the opacity [N], by the current names or by COLOR_0."""
    color = buffers.optional(attributes, ("COLOR_0",), (3, 4), count)
    rgba = np.ones((count, 4), np.float32)
    if color is not None:
        rgba[:, : color.shape[1]] = color
    opacity = buffers.optional(attributes, OPACITIES, (1,), count)
    sh0 = buffers.optional(attributes, (f"{EXTENSION}:SH_DEGREE_0_COEF_0",), (3,), count)
    return (
        (rgba[:, :3] - 0.5) / sh.C0 if sh0 is None else sh0,
        rgba[:, 3] if opacity is None else opacity[:, 0],
    )


def _odd(extension: Fields) -> tuple[str, ...]:
    """What the file asks for that is rendered otherwise."""
    wanted = {"kernel": "ellipse", "projection": "perspective"}
    return tuple(
        f"{name} {extension.text(name)!r} is read as {value!r}"
        for name, value in wanted.items()
        if extension.text(name, value) != value
    )


def _harmonics(attributes: Fields, buffers: Buffers, count: int) -> np.ndarray:
    """[N, K - 1, 3]; a band counts only as a whole."""
    columns = []
    for degree in range(1, MOST_DEGREE + 1):
        names = [f"{EXTENSION}:SH_DEGREE_{degree}_COEF_{i}" for i in range(2 * degree + 1)]
        if not any(name in attributes for name in names):
            break
        columns += [buffers.attribute(attributes, (name,), 3, count) for name in names]
    return np.stack(columns, axis=1) if columns else np.empty((count, 0, 3), np.float32)


def _document(table: SplatTable) -> tuple[dict[str, Any], bytes]:
    """The JSON without its buffer, and the buffer."""
    coefficients = np.concatenate([table.sh0, table.shN], axis=1)
    values = {
        "POSITION": table.mean,
        ROTATIONS[0]: np.roll(unit_quats(table.quat), -1, axis=1),
        SCALES[0]: np.exp(table.log_scale),
        OPACITIES[0]: table.opacity[:, None],
    }
    for index, coefficient in enumerate(np.moveaxis(coefficients, 1, 0)):
        band = sh.band_of(index)
        values[f"{EXTENSION}:SH_DEGREE_{band}_COEF_{index - band * band}"] = coefficient
    parts = [np.ascontiguousarray(column, "<f4").tobytes() for column in values.values()]
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    kinds = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
    accessors: list[dict[str, Any]] = [
        {"bufferView": i, "componentType": 5126, "count": len(v), "type": kinds[v.shape[1]]}
        for i, v in enumerate(values.values())
    ]
    if len(table):
        accessors[0] |= {
            name: getattr(table.mean, name)(axis=0).tolist() for name in ("min", "max")
        }
    primitive = {
        "mode": POINTS,
        "attributes": {name: i for i, name in enumerate(values)},
        "extensions": {
            EXTENSION: {
                "kernel": "ellipse",
                "colorSpace": "srgb_rec709_display",
                "sortingMethod": "cameraDistance",
                "projection": "perspective",
            }
        },
        "extras": {"antialiased": table.antialiased},
    }
    document = {
        "asset": {"version": "2.0", "generator": "xpr"},
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "accessors": accessors,
        "bufferViews": [
            {"buffer": 0, "byteOffset": start, "byteLength": len(part)}
            for start, part in zip(starts, parts, strict=False)
        ],
    }
    return document, b"".join(parts)
