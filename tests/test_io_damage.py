"""No file breaks a reader: it loads, or is refused in one line that names it.

XPR_DAMAGE sets how many inputs each reader gets; the suite tries a few.
"""

import gzip
import io as bytes_io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from damage import damaged, in_archive
from hypothesis import HealthCheck, given, settings, strategies as st
from splat_tables import mild_table

from xpr import io
from xpr.errors import DataError

EXAMPLES = int(os.environ.get("XPR_DAMAGE", "40"))
ROOM = 64 << 20  # bytes that reading a tiny file may take
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def ksplat(level=0, count=3):
    """A small file: a header, one section with one bucket, splats of SH degree 1."""
    head = bytearray(4096)
    struct.pack_into("<BBHIIIIH", head, 0, 0, 1, 0, 1, 1, count, count, level)
    section = bytearray(1024)
    bucket = (256, 1, 5.0, 12) if level else (0, 0, 0.0, 0)
    full, partial = (0, 1) if level else (0, 0)
    struct.pack_into("<IIIIfH", section, 0, count, count, *bucket)
    struct.pack_into("<IIIIH", section, 24, 32767 if level else 0, 0, full, partial, 1)
    place, shape, rest = ("<f4", "<f4", "<f4") if not level else ("<u2", "<f2", "<f2")
    kinds = [("m", place, 3), ("s", shape, 3), ("q", shape, 4), ("c", "u1", 4), ("r", rest, 9)]
    rows = np.ones(count, kinds)
    centers = np.zeros(3, "<f4").tobytes() if level else b""
    sizes = struct.pack("<I", count) if level else b""
    return bytes(head + section) + sizes + centers + rows.tobytes()


def written(end, tmp_path, **more):
    io.write(mild_table(5, 1, **more).truncated(io.FORMATS[end].sh_degree), tmp_path / f"a{end}")
    return (tmp_path / f"a{end}").read_bytes()


def zipped(parts, method=zipfile.ZIP_DEFLATED):
    stream = bytes_io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


KINDS = {
    ".ply": (written, damaged),
    ".compressed.ply": (written, damaged),
    ".splat": (written, damaged),
    ".v3.spz": (written, lambda draw, data: gzip.compress(damaged(draw, gzip.decompress(data)))),
    ".spz": (written, damaged),
    ".sog": (written, in_archive),
    ".glb": (written, damaged),
    ".gltf": (written, damaged),
    ".ksplat": (lambda end, tmp_path: ksplat(1), damaged),
}


def refused(path, words):
    with pytest.raises(DataError, match=words) as told:
        io.read(path)
    assert "\n" not in str(told.value) and path.name in str(told.value)


def reads_or_refuses(path):
    """Whether the file was read; nothing but a one-line refusal may come instead."""
    try:
        table = io.read(path)
    except DataError as error:
        assert "\n" not in str(error) and str(path) in str(error)
        assert len(str(error)) < 1000
        return False
    for name in ("mean", "quat", "log_scale", "logit_opacity", "sh0", "shN"):
        assert np.isfinite(getattr(table, name)).all()
    return True


@pytest.mark.parametrize("end", KINDS)
def test_a_damaged_file_is_read_or_refused(tmp_path, end):
    make, break_ = KINDS[end]
    whole = make(end, tmp_path)
    path = tmp_path / f"b{end}"
    path.write_bytes(whole)
    assert reads_or_refuses(path), "the file itself is sound"
    outcomes = []

    @many
    @given(st.data())
    def check(data):
        path.write_bytes(break_(data.draw, whole))
        tracemalloc.start()
        try:
            outcomes.append(reads_or_refuses(path))
            assert tracemalloc.get_traced_memory()[1] < ROOM
        finally:
            tracemalloc.stop()

    check()
    assert not all(outcomes), "some damage must show"


@pytest.mark.parametrize("end", [end for end in io.FORMATS if end != "meta.json"])
@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(40), b"hello\n" * 9 + b"!"])
def test_files_of_another_kind_are_refused(tmp_path, end, content):
    (tmp_path / f"a{end}").write_bytes(content)
    refused(tmp_path / f"a{end}", r"empty|no \.|no zip|no readable|says version|multiple|truncated")


def test_a_gzip_bomb_is_refused(tmp_path):
    head = struct.pack("<4sIIBBBB", b"NGSP", 3, 5_000_000, 3, 12, 0, 0)
    (tmp_path / "a.spz").write_bytes(gzip.compress(head + bytes(64 << 20)))
    tracemalloc.start()
    refused(tmp_path / "a.spz", "made to fill the memory")
    assert tracemalloc.get_traced_memory()[1] < ROOM
    tracemalloc.stop()


def test_a_zstd_bomb_is_refused(tmp_path):
    import zstandard

    count = 3_000_000
    sizes = [9 * count, count, 3 * count, 3 * count, 4 * count]
    packed = [zstandard.compress(bytes(size)) for size in sizes]
    head = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, count, 0, 12, 0, 5, 32)
    table = b"".join(struct.pack("<QQ", len(p), s) for p, s in zip(packed, sizes, strict=True))
    (tmp_path / "a.spz").write_bytes(head + table + b"".join(packed))
    refused(tmp_path / "a.spz", "made to fill the memory")


def test_a_zstd_stream_that_holds_more_than_declared_is_cut(tmp_path):
    import zstandard

    good = written(".spz", tmp_path)
    stored = struct.unpack_from("<Q", good, 32)[0]
    start = 32 + 16 * good[15]
    bomb = zstandard.compress(bytes(64 << 20))
    data = good[:32] + struct.pack("<Q", len(bomb)) + good[40:start] + bomb + good[start + stored :]
    (tmp_path / "b.spz").write_bytes(data)
    tracemalloc.start()
    assert len(io.read(tmp_path / "b.spz")) == 5
    assert tracemalloc.get_traced_memory()[1] < ROOM
    tracemalloc.stop()


def test_a_zip_bomb_is_refused(tmp_path):
    (tmp_path / "a.sog").write_bytes(zipped({"meta.json": b" " * (64 << 20)}))
    refused(tmp_path / "a.sog", "made to fill the memory")


def test_a_picture_bomb_is_refused(tmp_path):
    from PIL import Image

    stream = bytes_io.BytesIO()
    Image.new("RGB", (8000, 8000)).save(stream, "WEBP", lossless=True, method=0)
    io.write(mild_table(5, 0), tmp_path / "a.sog")
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    (tmp_path / "b.sog").write_bytes(zipped(parts | {"quats.webp": stream.getvalue()}))
    refused(tmp_path / "b.sog", "made to fill the memory")


@pytest.mark.parametrize(
    "name", ["../secret.bin", "/etc/passwd", "http://localhost/a", "a\0b", "x" * 5000, "."]
)
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    io.write(mild_table(3, 0), folder / "a.gltf")
    document = json.loads((folder / "a.gltf").read_text())
    document["buffers"][0]["uri"] = name
    (folder / "b.gltf").write_text(json.dumps(document))
    refused(folder / "b.gltf", "outside its folder|does not exist|names the file|is a folder")


def test_a_link_that_leaves_the_folder_is_refused(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    io.write(mild_table(3, 0), tmp_path / "a.sog")
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        archive.extractall(folder)
    (folder / "quats.webp").rename(tmp_path / "quats.webp")
    (folder / "quats.webp").symlink_to(tmp_path / "quats.webp")
    refused(folder / "meta.json", "outside its folder")


def header(*lines):
    return "\n".join(["ply", "format binary_little_endian 1.0", *lines, "end_header", ""]).encode()


XYZ = [f"property float {c}" for c in "xyz"]
ABSURD = {
    "a.ply": header("element vertex 1000000000000", *XYZ),
    "b.ply": header("element vertex -4", *XYZ),
    "c.ply": header("element chunk 1000000000000", "property float min_x"),
    "a.spz": struct.pack("<4sIIBBBB", b"NGSP", 3, 2**32 - 1, 3, 12, 0, 0),
    "b.spz": struct.pack("<4sIIBBBB", b"NGSP", 3, 1, 255, 12, 0, 0),
    "a.glb": struct.pack("<4sII", b"glTF", 2, 2**32 - 1) + bytes(40),
    "b.gltf": b"[" * 100_000,
    "c.gltf": b'{"asset":' * 50_000,
    "a.ksplat": struct.pack("<BBHIIII", 0, 1, 0, 2**32 - 1, 0, 0, 0) + bytes(5000),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_counts_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(ABSURD[name])
    tracemalloc.start()
    refused(tmp_path / name, "expected|damaged|truncated|memory|no readable")
    assert tracemalloc.get_traced_memory()[1] < ROOM
    tracemalloc.stop()


@pytest.mark.parametrize("end", [".splat", ".glb"])
def test_splats_that_are_not_finite_are_dropped_and_counted(tmp_path, end):
    table = mild_table(6, 0)
    table.log_scale[2] = 200  # exp of it is beyond float32
    with np.errstate(over="ignore"):
        io.write(table, tmp_path / f"a{end}")
    read = io.read(tmp_path / f"a{end}")
    assert len(read) == 5 and read.notes == ("dropped 1 of 6 splats with non-finite values",)


@pytest.mark.parametrize("end", io.writable())
def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch, end):
    table = mild_table(5, 0)
    io.write(table, tmp_path / f"a{end}")
    old = (tmp_path / f"a{end}").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        io.write(mild_table(9, 0), tmp_path / f"a{end}")
    assert (tmp_path / f"a{end}").read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == [f"a{end}"]
