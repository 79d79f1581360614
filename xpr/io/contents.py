"""Bytes of files that cannot be trusted: bounded, checked before anything is allocated."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from xpr.errors import DataError

LARGEST_GROWTH = 256  # decompressed over compressed; splats shrink by 2 to 20
LONGEST_QUOTE = 120  # characters
SMALL = 1 << 20  # bytes that any file may grow to: tiny files compress well


def read_all(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
      DataError: it is empty, or a folder.
      OSError: it cannot be opened.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder, expected a file.")
    data = path.read_bytes()
    if not data:
        raise DataError(f"{path} is empty.")
    return data


def told(value: object) -> str:
    """A value or an error in few enough characters for a message of one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


def check_growth(path: Path, what: str, size: int, stored: int) -> None:
    """Refuse what claims to hold far more than its bytes can, before it is decompressed.

    Args:
      path: for the message.
      what: the part of the file.
      size: bytes it says it holds.
      stored: bytes it takes in the file.

    Raises:
      DataError: naming both numbers.
    """
    allowed = max(SMALL, LARGEST_GROWTH * stored)
    if size > allowed:
        raise DataError(
            f"{path}: {what} declares {size:,} bytes in {stored:,} stored ones, expected at most "
            f"{allowed:,}: it is damaged or made to fill the memory."
        )


def inflate(path: Path, data: bytes) -> bytes:
    """The content of gzip data, in which the file's splats lie.

    Raises:
      DataError: damaged, truncated, or of absurd size.
    """
    allowed = max(SMALL, LARGEST_GROWTH * len(data))
    engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = engine.decompress(data, allowed)
    except zlib.error as error:
        raise DataError(f"{path} is damaged gzip data: {told(error)}.") from error
    if engine.unconsumed_tail:
        check_growth(path, "gzip data", allowed + 1, len(data))
    if not engine.eof:
        raise DataError(f"{path} is truncated: its gzip data ends too early.")
    return content


class Cursor:
    """Walks through bytes, and tells where they end too early."""

    def __init__(self, path: Path, data: bytes, start: int = 0) -> None:
        self.path, self.data, self.at = path, data, start

    def take(self, dtype: str, count: int, what: str) -> np.ndarray:
        """The next `count` values.

        Raises:
          DataError: there are fewer.
        """
        size = np.dtype(dtype).itemsize * count
        left = len(self.data) - self.at
        if count < 0 or size > left:
            raise DataError(
                f"{self.path} is truncated or damaged: {what} take {size:,} bytes from byte "
                f"{self.at:,} on, {max(left, 0):,} are left."
            )
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += size
        return values

    def rows(self, dtype: str, count: int, width: int, what: str) -> np.ndarray:
        """The next values as [count, width]."""
        return self.take(dtype, count * width, what).reshape(count, width)
