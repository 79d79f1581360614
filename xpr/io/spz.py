"""Niantic's .spz: fixed-point positions and bytes, compressed. https://github.com/nianticlabs/spz

Versions 2 and 3 are one gzip stream, version 4 a header and a zstd stream for each kind of value.
Axes are right, up, back, unless an extension of version 4 says otherwise.
"""

from __future__ import annotations

import gzip
import struct
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xpr import sh
from xpr.errors import DataError, UserError
from xpr.files import atomic_write
from xpr.io.contents import Cursor, check_growth, inflate, read_all, told
from xpr.io.quantize import drop_largest, logit_of_byte, restore_largest, to_bytes, unit_quats
from xpr.io.table import SplatTable

MAGIC, GZIP = b"NGSP", b"\x1f\x8b"
VERSIONS = (2, 3, 4)
HEADER_BYTES = {2: 16, 3: 16, 4: 32}
AXES = "RUB"
ANTIALIASED, EXTENDED = 0x1, 0x2  # flags
COORDINATE_SYSTEM = 0xADBE0003  # the extension that names other axes, as a number from 1 on
NAMED_AXES = (
    *("LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF"),
    *("LFD", "RFD", "LFU", "RFU", "LBD", "RBD", "LBU", "RBU"),
)
COLOR_SCALE = 0.15  # of f_dc in 0..1
QUAT_STEPS = 511 * np.sqrt(2)  # version 3: nine bits for up to sqrt(1/2)
LARGEST_FIXED = (1 << 23) - 1


class Header(NamedTuple):
    """What the first bytes of every version say.

    Attributes:
      version: 2, 3 or 4.
      splats: how many.
      degree: of the spherical harmonics.
      fraction: bits behind the point of a coordinate.
      flags: ANTIALIASED, EXTENDED.
      streams: version 4: how many zstd streams.
      contents: version 4: where their table starts.
    """

    version: int
    splats: int
    degree: int
    fraction: int
    flags: int
    streams: int = 0
    contents: int = 0

    def sizes(self) -> tuple[int, ...]:
        """Bytes of positions, alphas, colours, scales, rotations and harmonics."""
        rest = 3 * (sh.coefficients(self.degree) - 1)
        widths = (9, 1, 3, 3, 3 if self.version == 2 else 4, rest)
        return tuple(self.splats * width for width in widths)


def read_spz(path: Path) -> SplatTable:
    """The splats of an .spz file, version 2 to 4, in the file's axes.

    Raises:
      DataError: no .spz, another version, damaged or truncated.
      OSError: the file cannot be opened.
    """
    data = read_all(path)
    if data.startswith(GZIP):
        data = inflate(path, data)
    header = _header(path, data)
    if header.version == 4:
        body, axes, notes = _streams(path, data, header), *_extensions(path, data, header)
    else:
        body, axes, notes = data[HEADER_BYTES[3] :], AXES, ()
        if header.flags & EXTENDED:
            notes = ("ignored the extensions behind the splats",)
    return _unpack(Cursor(path, body), header, axes, notes).finite()


def write_spz(table: SplatTable, path: Path, *, version: int = 4) -> None:
    """Write version 3 (which every viewer reads) or 4. `table` has the axes RUB.

    Raises:
      UserError: a coordinate too large for 24 bits.
      OSError: the folder does not exist or cannot be written.
    """
    header, parts = _pack(table, version)
    start = struct.pack("<4sIIBBBB", MAGIC, *header[:5], header.streams)
    if version == 4:
        import zstandard

        packed = [zstandard.compress(part) for part in parts]
        pairs = zip(packed, parts, strict=True)
        contents = b"".join(struct.pack("<QQ", len(small), len(part)) for small, part in pairs)
        content = b"".join([start, struct.pack("<I12x", header.contents), contents, *packed])
    else:
        content = gzip.compress(start + b"".join(parts), mtime=0)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


write_spz_3 = partial(write_spz, version=3)


def _header(path: Path, data: bytes) -> Header:
    if not data.startswith(MAGIC) or len(data) < 16:
        raise DataError(f"{path} is no .spz file: it does not start with {MAGIC.decode()}.")
    header = Header(*struct.unpack_from("<IIBBBB", data, 4))
    if header.version not in VERSIONS:
        listed = ", ".join(map(str, VERSIONS))
        raise DataError(f"{path} is .spz version {header.version}, expected one of {listed}.")
    if header.degree > sh.MAX_DEGREE:
        raise DataError(
            f"{path} declares SH degree {header.degree}, expected 0 to {sh.MAX_DEGREE}."
        )
    if header.version == 4:
        header = header._replace(contents=int(Cursor(path, data, 16).take("<u4", 1, "headers")[0]))
    return header


def _streams(path: Path, data: bytes, header: Header) -> bytes:
    """The zstd streams of version 4, one behind the other."""
    import zstandard

    if header.contents < HEADER_BYTES[4]:
        raise DataError(
            f"{path}: the streams' table starts at byte {header.contents}, in the header."
        )
    cursor = Cursor(path, data, header.contents)
    table = cursor.rows("<u8", header.streams, 2, "the streams' table")
    expected = [size for size in header.sizes() if size]
    if [int(size) for size in table[:, 1]] != expected:
        raise DataError(
            f"{path}: its streams hold {told(table[:, 1].tolist())} bytes, expected {expected} for "
            f"{header.splats:,} splats of SH degree {header.degree}."
        )
    check_growth(path, "the streams' table", sum(expected), len(data))
    parts = []
    for stored, size in table.tolist():
        packed = cursor.take("u1", stored, "a zstd stream's bytes").tobytes()
        try:
            # The frame may lie about its size: reading stops at what the table says.
            with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                parts.append(reader.read(size))
        except (zstandard.ZstdError, MemoryError) as error:
            raise DataError(f"{path}: a zstd stream is damaged: {told(error)}.") from error
    return b"".join(parts)


def _extensions(path: Path, data: bytes, header: Header) -> tuple[str, tuple[str, ...]]:
    """The axes that the extensions of version 4 name, and notes on the others."""
    axes, ignored = AXES, 0
    if not header.flags & EXTENDED:
        return axes, ()
    cursor = Cursor(path, data[: header.contents], HEADER_BYTES[4])
    while cursor.at < header.contents:
        kind, size = map(int, cursor.take("<u4", 2, "an extension's head"))
        payload = cursor.take("u1", size, "an extension's bytes").tobytes()
        if kind != COORDINATE_SYSTEM:
            ignored += 1
            continue
        number = int.from_bytes(payload[:4], "little")
        if size != 4 or number > len(NAMED_AXES):
            raise DataError(f"{path} names the coordinate system {number}, expected 0 to 16.")
        axes = NAMED_AXES[number - 1] if number else AXES
    return axes, (f"ignored {ignored} extensions",) if ignored else ()


def _unpack(cursor: Cursor, header: Header, axes: str, notes: tuple[str, ...]) -> SplatTable:
    n = header.splats
    fixed = cursor.rows("u1", 3 * n, 3, "positions").astype(np.int32)
    alphas = cursor.take("u1", n, "opacities")
    colors = cursor.rows("u1", n, 3, "colours")
    scales = cursor.rows("u1", n, 3, "scales")
    quats = _rough_quats(cursor, n) if header.version == 2 else _quats(cursor, n)
    rest = cursor.rows("u1", n, 3 * (sh.coefficients(header.degree) - 1), "harmonics")
    # The sign bit is that of the top byte: shift it to the top of 32 bits and back.
    whole = (fixed[:, 0] << 8 | fixed[:, 1] << 16 | fixed[:, 2] << 24) >> 8
    return SplatTable(
        mean=np.ldexp(whole.astype(np.float32), -header.fraction).reshape(n, 3),
        quat=quats,
        log_scale=scales.astype(np.float32) / 16 - 10,
        logit_opacity=logit_of_byte(alphas),
        sh0=((colors[:, None] / 255 - 0.5) / COLOR_SCALE).astype(np.float32),
        shN=((rest.astype(np.float32) - 128) / 128).reshape(n, -1, 3) if n else _no_rest(header),
        antialiased=bool(header.flags & ANTIALIASED),
        axes=axes,
        notes=notes,
    )


def _no_rest(header: Header) -> np.ndarray:
    return np.empty((0, sh.coefficients(header.degree) - 1, 3), np.float32)


def _rough_quats(cursor: Cursor, count: int) -> np.ndarray:
    """[N, 4] wxyz of version 2: x, y and z as bytes, w positive."""
    others = cursor.rows("u1", count, 3, "rotations") / 127.5 - 1
    return restore_largest(np.zeros(count, np.intp), others)


def _quats(cursor: Cursor, count: int) -> np.ndarray:
    """[N, 4] wxyz of version 3: which of xyzw is largest in two bits, ten for each other one."""
    packed = cursor.take("<u4", count, "rotations")
    fields = np.stack([packed >> 20, packed >> 10, packed], axis=1)
    size = (fields & 511) / QUAT_STEPS
    others = np.where(fields & 512, -size, size)
    return np.roll(restore_largest(packed >> 30, others), 1, axis=1)


def _pack(table: SplatTable, version: int) -> tuple[Header, list[bytes]]:
    reach = max(float(np.abs(table.mean).max(initial=0)), 1.0)
    fraction = int(np.floor(np.log2(LARGEST_FIXED / reach)))
    if fraction < 0:
        raise UserError(f"a splat lies at {reach:.3g}, .spz holds at most {LARGEST_FIXED:,}.")
    fixed = np.rint(np.ldexp(table.mean.astype(np.float64), fraction)).astype("<i4")
    largest, others = drop_largest(np.roll(unit_quats(table.quat), -1, axis=1))
    steps = np.rint(np.abs(others) * QUAT_STEPS).astype(np.uint32)
    fields = np.minimum(steps, 511) | np.where(others < 0, 512, 0).astype(np.uint32)
    packed = (
        largest.astype(np.uint32) << 30 | fields[:, 0] << 20 | fields[:, 1] << 10 | fields[:, 2]
    )
    parts = [
        fixed.reshape(-1, 1).view("u1")[:, :3].tobytes(),
        to_bytes(table.opacity).tobytes(),
        to_bytes(table.sh0 * COLOR_SCALE + 0.5).tobytes(),
        np.clip(np.rint((table.log_scale + 10) * 16), 0, 255).astype(np.uint8).tobytes(),
        packed.astype("<u4").tobytes(),
        np.clip(np.rint(table.shN * 128 + 128), 0, 255).astype(np.uint8).tobytes(),
    ]
    parts = [part for part in parts if part]
    flags = ANTIALIASED if table.antialiased else 0
    streams = len(parts) if version == 4 else 0
    degree = table.sh_degree
    return Header(version, len(table), degree, fraction, flags, streams, HEADER_BYTES[4]), parts
