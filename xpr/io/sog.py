"""PlayCanvas's .sog: splats as lossless WebP pictures beside a meta.json, zipped. Version 2.

One pixel is one splat. Positions are 16 bits in the logarithm of the distance from zero, split
over two pictures; scales, colours and harmonics index codebooks of 256 values; harmonics of the
higher degrees are one of up to 65,536 sets.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from xpr import sh
from xpr.errors import DataError
from xpr.files import atomic_write
from xpr.io.codebook import codebook, nearest, palette
from xpr.io.fields import Fields
from xpr.io.parts import Parts, archive, encode, folder
from xpr.io.quantize import (
    drop_largest,
    logit_of_byte,
    morton_order,
    restore_largest,
    to_bytes,
    to_levels,
    unit_quats,
)
from xpr.io.table import SplatTable

META = "meta.json"
SETS_PER_ROW = 64  # of the picture of harmonics
QUAT_BASE = 252  # alpha of a quaternion's pixel: this plus the index of its largest component
LONGEST = 1 << 31  # splats


def read_sog(path: Path) -> SplatTable:
    """The splats of a .sog file, or of the folder of a `meta.json`.

    Raises:
      DataError: no such file, another version, damaged, or a part is missing.
      OSError: the file cannot be opened.
    """
    parts = folder(path) if path.name == META else archive(path)
    meta = Fields.parse(path, META, parts.read(META))
    if "version" not in meta:
        raise DataError(f"{path}: {META} names no version: it is a .sog of version 1, expected 2.")
    meta.integer("version", least=2, most=2)
    n = meta.integer("count", least=0, most=LONGEST)
    mean = _means(parts, meta.object("means"), n)
    (quat_file,) = meta.object("quats").texts("files", 1)
    quat, colors = parts.pixels(quat_file, n), meta.object("sh0")
    (color_file,) = colors.texts("files", 1)
    rgba = parts.pixels(color_file, n)
    scales = meta.object("scales")
    (scale_file,) = scales.texts("files", 1)
    return SplatTable(
        mean=mean,
        quat=restore_largest(
            np.clip(quat[:, 3].astype(np.intp) - QUAT_BASE, 0, 3),
            (quat[:, :3] / 255 - 0.5) * np.sqrt(2),
        ),
        log_scale=_looked_up(scales, parts.pixels(scale_file, n)[:, :3]),
        logit_opacity=logit_of_byte(rgba[:, 3]),
        sh0=_looked_up(colors, rgba[:, None, :3]),
        shN=_harmonics(parts, meta, n),
        antialiased=meta.flag("antialias"),
    ).finite()


def write_sog(table: SplatTable, path: Path) -> None:
    """Write a .sog, ordered along a curve through space, which packs better.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    table = table.select(morton_order(table.mean))
    log_mean = np.sign(table.mean) * np.log1p(np.abs(table.mean))
    low, high = log_mean.min(axis=0, initial=0), log_mean.max(axis=0, initial=0)
    steps = to_levels((log_mean - low) / np.where(high > low, high - low, 1), 65535)
    scale_book, colors = codebook(table.log_scale), codebook(table.sh0)
    largest, others = drop_largest(unit_quats(table.quat))
    quat = np.column_stack([to_bytes(others / np.sqrt(2) + 0.5), QUAT_BASE + largest])
    color = np.column_stack([nearest(colors, table.sh0[:, 0]), to_bytes(table.opacity)])
    planes = {
        "means_l.webp": _square(steps & 255),
        "means_u.webp": _square(steps >> 8),
        "scales.webp": _square(nearest(scale_book, table.log_scale)),
        "quats.webp": _square(quat),
        "sh0.webp": _square(color),
    }
    meta = {
        "version": 2,
        "asset": {"generator": "xpr"},
        "count": len(table),
        "antialias": table.antialiased,
        "means": {"mins": low.tolist(), "maxs": high.tolist(), "files": list(planes)[:2]},
        "scales": {"codebook": scale_book.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colors.tolist(), "files": ["sh0.webp"]},
    }
    if table.sh_degree:
        meta["shN"], more = _packed_harmonics(table)
        planes |= more
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in {META: json.dumps(meta).encode(), **planes}.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def _means(parts: Parts, meta: Fields, count: int) -> np.ndarray:
    low, high = (np.array(meta.numbers(name, least=3, most=3)) for name in ("mins", "maxs"))
    lower, upper = (parts.pixels(name, count)[:, :3] for name in meta.texts("files", 2))
    unit = (lower.astype(np.float64) + 256.0 * upper) / 65535
    log_mean = low + (high - low) * unit
    with np.errstate(over="ignore"):  # such splats are dropped with a count
        return (np.sign(log_mean) * np.expm1(np.abs(log_mean))).astype(np.float32)


def _looked_up(meta: Fields, pixels: np.ndarray) -> np.ndarray:
    """The codebook's values at the indices; a short codebook's last value stands for the rest."""
    book = np.array(meta.numbers("codebook", least=1, most=256), np.float32)
    return book[np.minimum(pixels, len(book) - 1)]


def _harmonics(parts: Parts, meta: Fields, count: int) -> np.ndarray:
    """[N, K - 1, 3]; none where the file has none."""
    if "shN" not in meta:
        return np.empty((count, 0, 3), np.float32)
    harmonics = meta.object("shN")
    sets = harmonics.integer("count", least=1, most=1 << 16)
    size = sh.coefficients(harmonics.integer("bands", least=1, most=3)) - 1
    set_file, label_file = harmonics.texts("files", 2)
    picture = parts.picture(set_file)[..., :3]
    if picture.shape[1] != SETS_PER_ROW * size or picture.shape[0] * SETS_PER_ROW < sets:
        raise DataError(
            f"{parts.path}: {set_file!r} is {picture.shape[1]} x {picture.shape[0]} px, expected "
            f"{SETS_PER_ROW * size} x {-(-sets // SETS_PER_ROW)} or more for {sets:,} sets."
        )
    label = parts.pixels(label_file, count)[:, :2].astype(np.intp) @ [1, 256]
    if len(label) and label.max() >= sets:
        raise DataError(f"{parts.path}: {label_file!r} names set {label.max()} of {sets:,}.")
    return _looked_up(harmonics, picture.reshape(-1, size, 3)[label])


def _packed_harmonics(table: SplatTable) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The entry of the meta.json, and the two pictures."""
    sets, label = palette(table.shN.reshape(len(table), 3 * table.shN.shape[1]))
    book, size = codebook(sets), table.shN.shape[1]
    rows = max(1, -(-len(sets) // SETS_PER_ROW))
    picture = np.zeros((rows * SETS_PER_ROW, size, 3), np.uint8)
    picture[: len(sets)] = nearest(book, sets).reshape(-1, size, 3)
    names = ["shN_centroids.webp", "shN_labels.webp"]
    pair = np.column_stack([label & 255, label >> 8, np.zeros_like(label)])
    entry = {
        "count": max(1, len(sets)),
        "bands": table.sh_degree,
        "codebook": book.tolist(),
        "files": names,
    }
    wide = encode(picture.reshape(rows, SETS_PER_ROW * size, 3))
    return entry, dict(zip(names, [wide, _square(pair)], strict=True))


def _square(pixels: np.ndarray) -> bytes:
    """Pixels [N, 3 or 4] as a picture that is about square, filled up with zeros."""
    width = max(1, math.isqrt(max(0, len(pixels) - 1)) + 1)
    height = max(1, -(-len(pixels) // width))
    picture = np.zeros((height * width, pixels.shape[1]), np.uint8)
    picture[: len(pixels)] = pixels
    return encode(picture.reshape(height, width, -1))
