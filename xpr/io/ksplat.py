"""mkkellogg's .ksplat (GaussianSplats3D): sections of splats, each packed in one of three levels.

Level 0 stores floats; levels 1 and 2 store half floats, and positions as 16 bits around the centre
of a bucket of neighbours; level 2 stores the harmonics as bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from xpr import sh
from xpr.errors import DataError
from xpr.io.contents import Cursor, read_all
from xpr.io.quantize import logit_of_byte
from xpr.io.table import SplatTable, joined

FILE_HEADER, SECTION_HEADER = 4096, 1024  # bytes
LEVELS = (("<f4", "<f4", "<f4"), ("<u2", "<f2", "<f2"), ("<u2", "<f2", "u1"))
DEGREES = (0, 1, 2)
DEFAULT_SH_RANGE = (-1.5, 1.5)  # of level 2, where the header has zeros


class Section(NamedTuple):
    """A section's header.

    Attributes:
      splats: how many it holds.
      room: splats that it has bytes for.
      bucket_size: splats of a full bucket.
      buckets: how many there are.
      block: edge of a bucket's cube, world units.
      steps: positions within it count from -steps to steps.
      full: buckets with `bucket_size` splats; they come first.
      partial: buckets whose sizes are listed.
      degree: of the spherical harmonics.
    """

    splats: int
    room: int
    bucket_size: int
    buckets: int
    block: float
    steps: int
    full: int
    partial: int
    degree: int


def read_ksplat(path: Path) -> SplatTable:
    """The splats of a .ksplat file, level 0 to 2.

    Raises:
      DataError: no .ksplat, another version, damaged or truncated.
      OSError: the file cannot be opened.
    """
    cursor = Cursor(path, read_all(path))
    head = cursor.take("u1", FILE_HEADER, "the header").tobytes()
    major, minor = head[:2]
    sections = int(np.frombuffer(head, "<u4", 1, 4)[0])
    level = int(np.frombuffer(head, "<u2", 1, 20)[0])
    low, high = (float(value) for value in np.frombuffer(head, "<f4", 2, 36))
    if (major, minor) != (0, 1) or level >= len(LEVELS):
        raise DataError(
            f"{path} says version {major}.{minor}, level {level}; expected version 0.1, level 0 to "
            "2: it is another file, or damaged."
        )
    if not low < high:
        low, high = DEFAULT_SH_RANGE
    headers = cursor.rows("u1", sections, SECTION_HEADER, "the sections' headers")
    tables = [
        _section(cursor, _section_header(path, header.tobytes()), level, (low, high))
        for header in headers
    ]
    return joined(tables).finite()


def _section_header(path: Path, data: bytes) -> Section:
    count, room, bucket_size, buckets = np.frombuffer(data, "<u4", 4).tolist()
    block = float(np.frombuffer(data, "<f4", 1, 16)[0])
    steps, _, full, partial = np.frombuffer(data, "<u4", 4, 24).tolist()
    degree = int(np.frombuffer(data, "<u2", 1, 40)[0])
    if degree not in DEGREES or count > room or full + partial > buckets:
        raise DataError(
            f"{path}: a section says {count:,} of {room:,} splats, {full:,} + {partial:,} of "
            f"{buckets:,} buckets, SH degree {degree}: it is damaged."
        )
    return Section(count, room, bucket_size, buckets, block, steps or 32767, full, partial, degree)


def _section(
    cursor: Cursor, section: Section, level: int, sh_range: tuple[float, float]
) -> SplatTable:
    partial = cursor.take("<u4", section.partial, "the buckets' sizes")
    centers = cursor.rows("<f4", section.buckets, 3, "the buckets' centres")
    place, shape, rest = LEVELS[level]
    kinds = [("mean", place, 3), ("scale", shape, 3), ("quat", shape, 4), ("rgba", "u1", 4)]
    width = 3 * (sh.coefficients(section.degree) - 1)
    row = np.dtype([*kinds, ("rest", rest, width)])
    size = row.itemsize
    data = cursor.take("u1", section.room * size, "splats")[: section.splats * size]
    rows = np.frombuffer(data.tobytes(), row)
    mean = rows["mean"].astype(np.float32)
    if level:
        bucket = _buckets(cursor.path, section, partial)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = (mean - section.steps) * (0.5 * section.block / section.steps) + centers[bucket]
    with np.errstate(divide="ignore", invalid="ignore"):  # such splats are dropped with a count
        log_scale = np.log(rows["scale"].astype(np.float32))
    harmonics = rows["rest"].astype(np.float32)
    if level == 2:
        harmonics = sh_range[0] + harmonics / 255 * (sh_range[1] - sh_range[0])
    return SplatTable(
        mean=mean.astype(np.float32),
        quat=rows["quat"].astype(np.float32),
        log_scale=log_scale,
        logit_opacity=logit_of_byte(rows["rgba"][:, 3]),
        sh0=((rows["rgba"][:, None, :3] / 255 - 0.5) / sh.C0).astype(np.float32),
        shN=_by_band(harmonics.astype(np.float32), section.degree),
    )


def _buckets(path: Path, section: Section, partial: np.ndarray) -> np.ndarray:
    """The bucket of each splat [N]: full buckets first, then those of listed sizes."""
    in_full = section.full * section.bucket_size
    if in_full > section.splats or int(partial.sum(dtype=np.uint64)) != section.splats - in_full:
        raise DataError(
            f"{path}: the buckets hold {in_full + int(partial.sum(dtype=np.uint64)):,} splats, "
            f"expected {section.splats:,}."
        )
    sizes = [*[section.bucket_size] * section.full, *partial.tolist()]
    return np.repeat(np.arange(len(sizes)), sizes)


def _by_band(flat: np.ndarray, degree: int) -> np.ndarray:
    """[N, K - 1, 3] from rows that list, band by band, all of red, then green, then blue."""
    bands, start = [np.empty((len(flat), 0, 3), np.float32)], 0
    for band in range(1, degree + 1):
        width = 2 * band + 1
        part = flat[:, start : start + 3 * width].reshape(-1, 3, width)
        bands.append(part.transpose(0, 2, 1))
        start += 3 * width
    return np.concatenate(bands, axis=1)
