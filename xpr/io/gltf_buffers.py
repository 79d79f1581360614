"""The numbers of a glTF file: its container, buffers and accessors, checked before they are read."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import urllib.parse
from pathlib import Path

import numpy as np

from xpr.errors import DataError
from xpr.io.contents import Cursor, read_all
from xpr.io.fields import Fields
from xpr.io.parts import beside

JSON, BIN = 0x4E4F534A, 0x004E4942  # kinds of a .glb's chunks
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
LARGEST = 1 << 40  # bytes, of offsets and lengths


def open_gltf(path: Path) -> tuple[Fields, Buffers]:
    """The JSON of a .glb or .gltf file, and its buffers.

    Raises:
      DataError: no glTF 2, damaged or truncated, or a buffer is missing or lies elsewhere.
      OSError: the file cannot be opened.
    """
    data = read_all(path)
    text, binary = _chunks(path, data) if data.startswith(b"glTF") else (data, b"")
    root = Fields.parse(path, "the JSON", text)
    version = root.object("asset").text("version")
    if version.partition(".")[0] != "2":
        raise DataError(f"{path} is glTF version {version[:20]!r}, expected 2.0.")
    buffers = [_buffer(buffer, binary) for buffer in root.objects("buffers")]
    return root, Buffers(buffers, root.objects("bufferViews"), root.objects("accessors"))


@dataclasses.dataclass(frozen=True)
class Buffers:
    """The bytes of a glTF file, and how they are cut up."""

    buffers: list[bytes]
    views: list[Fields]
    accessors: list[Fields]

    def attribute(
        self, attributes: Fields, names: tuple[str, ...], width: int, count: int | None = None
    ) -> np.ndarray:
        """The values [N, width] of the first attribute among `names`, float32.

        Raises:
          DataError: there is none, or it has another shape.
        """
        found = self.optional(attributes, names, (width,), count)
        if found is None:
            raise DataError(f"{attributes.path}: {attributes.place} lacks {names[0]}.")
        return found

    def optional(
        self, attributes: Fields, names: tuple[str, ...], widths: tuple[int, ...], count: int | None
    ) -> np.ndarray | None:
        """As `attribute`, or None where there is none."""
        name = next((name for name in names if name in attributes), None)
        if name is None:
            return None
        index = attributes.integer(name, least=0, most=len(self.accessors) - 1)
        values = self._values(self.accessors[index])
        if values.shape[1] not in widths or count not in (None, len(values)):
            raise DataError(
                f"{attributes.path}: {name} has {len(values):,} x {values.shape[1]} numbers, "
                f"expected {'any' if count is None else f'{count:,}'} x {widths[-1]}."
            )
        return values

    def _values(self, accessor: Fields) -> np.ndarray:
        """The accessor's numbers [N, width], float32; whole ones are normalised if it says so."""
        if "sparse" in accessor:
            raise accessor.wrong("sparse", "none: sparse accessors are not supported")
        kind = accessor.text("type")
        component = accessor.integer("componentType", least=5120, most=5126)
        if kind not in WIDTHS or component not in COMPONENTS:
            raise accessor.wrong("type", f"one of {', '.join(WIDTHS)} of a known componentType")
        dtype, width = np.dtype(COMPONENTS[component]), WIDTHS[kind]
        raw = self._rows(accessor, dtype.itemsize * width)
        values = np.ascontiguousarray(raw).view(dtype).astype(np.float32)
        if accessor.flag("normalized") and dtype.kind in "iu":
            values = np.maximum(values / np.iinfo(dtype).max, -1)
        return values

    def _rows(self, accessor: Fields, size: int) -> np.ndarray:
        """The accessor's bytes [N, size], however far its rows lie apart."""
        count = accessor.integer("count", least=0, most=LARGEST)
        index = accessor.integer("bufferView", least=0, most=len(self.views) - 1)
        view = self.views[index]
        buffer = self.buffers[view.integer("buffer", least=0, most=len(self.buffers) - 1)]
        start = view.integer("byteOffset", least=0, most=LARGEST, default=0)
        length = view.integer("byteLength", least=0, most=LARGEST)
        stride = view.integer("byteStride", least=size, most=252, default=size)
        inner = accessor.integer("byteOffset", least=0, most=LARGEST, default=0)
        whole = inner + stride * (count - 1) + size if count else 0
        if whole > length:
            raise DataError(
                f"{accessor.path}: {accessor.place} needs {whole:,} bytes of {view.place}, which "
                f"has {length:,}."
            )
        rows = Cursor(accessor.path, buffer, start).take("u1", length, view.place)[inner:whole]
        return np.lib.stride_tricks.as_strided(rows, (count, size), (stride, 1), writeable=False)


def _chunks(path: Path, data: bytes) -> tuple[bytes, bytes]:
    """The JSON and the binary chunk of a .glb; the latter may be empty."""
    cursor = Cursor(path, data)
    _, version, size = cursor.take("<u4", 3, "the header").tolist()
    if version != 2 or size > len(data):
        raise DataError(
            f"{path} is .glb version {version} of {size:,} bytes, expected version 2 of at most "
            f"{len(data):,}: it is truncated or damaged."
        )
    found: dict[int, bytes] = {}
    while cursor.at + 8 <= size:
        length, kind = cursor.take("<u4", 2, "a chunk's head").tolist()
        found.setdefault(kind, cursor.take("u1", length, "a chunk's bytes").tobytes())
    if JSON not in found:
        raise DataError(f"{path} has no JSON chunk: it is no .glb file, or damaged.")
    return found[JSON], found.get(BIN, b"")


def _buffer(buffer: Fields, binary: bytes) -> bytes:
    """A buffer's bytes: the .glb's own, base64 in the JSON, or a file beside it."""
    length = buffer.integer("byteLength", least=0, most=LARGEST)
    if "uri" not in buffer:
        content = binary
    elif buffer.text("uri").startswith("data:"):
        try:
            content = base64.b64decode(buffer.text("uri").partition(",")[2], validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError(f"{buffer.path}: {buffer.place} is no base64: {error}.") from error
    else:
        name = urllib.parse.unquote(buffer.text("uri"))
        content = read_all(beside(buffer.path, name))
    if len(content) < length:
        raise DataError(
            f"{buffer.path}: {buffer.place} has {len(content):,} bytes, expected {length:,}: it is "
            "truncated."
        )
    return content
