"""Ways in which files go bad, for property-based tests of readers, and disks for writers."""

import contextlib
import io
import re
import resource
import struct
import zipfile

from hypothesis import strategies as st

COUNTS = (0, 1, 2, 255, 256, 65535, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 10**12, 2**64 - 1)
WORDS = [str(n).encode() for n in COUNTS] + [
    *(b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"true", b'"x"', b"[]", b"{}", b"0.5", b""),
    *(b"[" * 5000, b"9" * 5000, b'"../../../etc/passwd"', b'"/etc/passwd"', b'"\\u0000"'),
]
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


@contextlib.contextmanager
def full_disk(room=64):
    """No file grows beyond `room` bytes: a write fails half way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def damaged(draw, content):
    """`content` after one to four mishaps."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        content = bytearray(draw(st.sampled_from(MISHAPS))(draw, content))
    return bytes(content)


def in_archive(draw, content):
    """A zip file with one part damaged, missing or repeated; or damaged as a whole."""
    if draw(st.booleans()):
        return damaged(draw, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(parts)))
    parts[name] = damaged(draw, parts[name])
    if draw(st.integers(0, 9)) == 0:
        del parts[name]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", draw(st.sampled_from([0, 8]))) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return stream.getvalue()


def _position(draw, content):
    """Anywhere, or where headers lie, or at one of the bytes that are not zero."""
    last = max(len(content) - 1, 0)
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return draw(st.integers(0, last))
    if kind == 1:
        return draw(st.integers(0, min(last, 63)))
    used = [i for i, byte in enumerate(content) if byte] or [0]
    return draw(st.sampled_from(used))


def _flip(draw, content):
    if content:
        content[_position(draw, content)] ^= 1 << draw(st.integers(0, 7))
    return content


def _overwrite(draw, content):
    kind = draw(st.sampled_from(["<B", "<H", "<I", "<Q"]))
    value = draw(st.sampled_from(COUNTS)) % (1 << 8 * struct.calcsize(kind))
    at = _position(draw, content)
    content[at : at + struct.calcsize(kind)] = struct.pack(kind, value)
    return content


def _truncate(draw, content):
    return content[: draw(st.integers(0, len(content)))]


def _extend(draw, content):
    return content + draw(st.binary(max_size=40))


def _reword(draw, content):
    """Another number or word where the text has a number."""
    found = list(NUMBER.finditer(content))
    if found:
        chosen = draw(st.sampled_from(found))
        content[chosen.start() : chosen.end()] = draw(st.sampled_from(WORDS))
    return content


MISHAPS = (_flip, _overwrite, _reword, _truncate, _extend)
