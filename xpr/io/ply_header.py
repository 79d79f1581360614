"""What a .ply file says it holds, read and checked before anything is allocated."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement, PlyListProperty, PlyParseError

from xpr.errors import DataError
from xpr.files import atomic_write

LONGEST_HEADER = 1 << 20  # bytes; a splat file's is about 2 KB

COUNT = re.compile(rb"(?<=[\r\n])element[ \t]+(\S+)[ \t]+(\S+)")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The header of a .ply file.

    Attributes:
      counts: rows of each element, by its name.
      properties: names of the element `vertex`, in order.
      comments: the header's comments.
    """

    counts: dict[str, int]
    properties: tuple[str, ...]
    comments: tuple[str, ...]


def read_layout(path: Path) -> Layout:
    """The header of a .ply file whose size is large enough for what it declares.

    Raises:
      DataError: no .ply, a broken header, or more rows declared than the file has bytes for.
      OSError: the file cannot be opened.
    """
    header = _header(path)
    try:
        # plyfile allocates what the header declares, so it first sees counts of zero.
        parsed = PlyData.read(io.BytesIO(COUNT.sub(rb"element \1 0", header)))
        counts = {name.decode("ascii"): int(count) for name, count in COUNT.findall(header)}
    except (PlyParseError, ValueError) as error:
        raise DataError(f"{path} has a broken .ply header: {error}.") from error
    size = path.stat().st_size
    for element in parsed:
        _check_size(path, element, counts[element.name], size, parsed.text)
    properties = parsed["vertex"].properties if "vertex" in parsed else ()
    return Layout(counts, tuple(p.name for p in properties), tuple(parsed.comments))


def read_vertices(path: Path) -> np.ndarray:
    """The rows of the element `vertex`, a structured array; check the layout first.

    Raises:
      DataError: damaged or truncated.
      OSError: the file cannot be opened.
    """
    try:
        return PlyData.read(str(path))["vertex"].data
    except (PlyParseError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged or truncated: {error}.") from error


def write_vertices(path: Path, rows: np.ndarray, comments: list[str]) -> None:
    """Write one element `vertex`, little endian; the same values give the same bytes.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    with atomic_write(path) as temporary:
        vertex = PlyElement.describe(rows, "vertex")
        PlyData([vertex], byte_order="<", comments=comments).write(str(temporary))


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(LONGEST_HEADER)
    if not start:
        raise DataError(f"{path} is empty, expected a .ply file.")
    if not re.match(rb"ply[\r\n]", start):
        raise DataError(f"{path} is no .ply file: it does not start with the line 'ply'.")
    end = re.search(rb"[\r\n]end_header(\r\n|\n|\r)", start)
    if end is None:
        raise DataError(f"{path} has no 'end_header' line: it is truncated or no .ply file.")
    return start[: end.end()]


def _check_size(path: Path, element: PlyElement, count: int, size: int, text: bool) -> None:
    """Refuse what plyfile could only allocate in vain: lists, and rows beyond the file's end."""
    lists = [p.name for p in element.properties if isinstance(p, PlyListProperty)]
    if lists and element.name != "face":
        raise DataError(f"{path}: {element.name!r} has the list {lists[0]!r}: it holds no splats.")
    # A row of text has at least one digit and one separator a value.
    row = 2 * len(element.properties) if text else np.dtype(element.dtype("<")).itemsize
    if count < 0 or count * max(row, 1) > size + 1:
        raise DataError(
            f"{path} declares {count:,} rows of {element.name!r} ({row} bytes each or more) but has "
            f"{size:,} bytes: it is truncated or damaged."
        )
