"""Named parts of a file or a folder, and pictures among them; nothing is unpacked to disk."""

from __future__ import annotations

import dataclasses
import io
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from xpr.errors import DataError
from xpr.io.contents import check_growth, read_all, told

# What zipfile raises on damaged, encrypted or exotic entries.
ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(NotImplementedError, RuntimeError, EOFError, OSError, ValueError),
)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of one file.

    Attributes:
      path: the file.
      size: its bytes, by which what the parts may grow to is measured.
      read: the bytes of a part, by its name; raises DataError.
    """

    path: Path
    size: int
    read: Callable[[str], bytes]

    def picture(self, name: str) -> np.ndarray:
        """A WebP picture, uint8 [H, W, 3 or 4].

        Raises:
          DataError: missing, damaged or of absurd size.
        """
        from PIL import Image

        data = self.read(name)
        try:
            with warnings.catch_warnings():
                # pillow warns of sizes that splats legitimately have; ours is checked below.
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                with Image.open(io.BytesIO(data), formats=("WEBP",)) as picture:
                    width, height = picture.size
                    check_growth(
                        self.path, f"the picture {told(name)!r}", 4 * width * height, self.size
                    )
                    return np.asarray(picture)
        except DataError:
            raise
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
            raise DataError(
                f"{self.path}: the picture {told(name)!r} is damaged: {told(error)}."
            ) from error

    def pixels(self, name: str, count: int) -> np.ndarray:
        """The first `count` pixels of a picture as RGBA, uint8 [count, 4].

        Raises:
          DataError: missing, damaged or too small.
        """
        picture = self.picture(name)
        flat = picture.reshape(-1, picture.shape[-1])
        if len(flat) < count:
            raise DataError(
                f"{self.path}: the picture {told(name)!r} has {len(flat):,} pixels, expected {count:,}."
            )
        opaque = np.full((count, 4 - flat.shape[1]), 255, np.uint8)
        return np.concatenate([flat[:count], opaque], axis=1)


def archive(path: Path) -> Parts:
    """The parts of a zip file. Names are looked up in it, and never become paths.

    Raises:
      DataError: no zip file, or a damaged one.
      OSError: the file cannot be opened.
    """
    data = read_all(path)
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
    except ZIP_ERRORS as error:
        raise DataError(f"{path} is no zip file, or a damaged one: {told(error)}.") from error

    def read(name: str) -> bytes:
        try:
            entry = opened.getinfo(name)
        except KeyError:
            raise DataError(f"{path} lacks the part {told(name)!r}.") from None
        check_growth(path, f"the part {told(name)!r}", entry.file_size, len(data))
        try:
            with opened.open(entry) as file:
                return file.read(entry.file_size)
        except ZIP_ERRORS as error:
            raise DataError(
                f"{path}: the part {told(name)!r} is damaged: {told(error)}."
            ) from error

    return Parts(path, len(data), read)


def folder(path: Path) -> Parts:
    """The files beside `path`, as its parts; names that leave the folder are refused."""

    def read(name: str) -> bytes:
        return read_all(beside(path, name))

    size = sum(file.stat().st_size for file in path.parent.iterdir() if file.is_file())
    return Parts(path, size, read)


def beside(path: Path, name: str) -> Path:
    """The file `name` of the folder in which `path` lies, or of a folder in it.

    Raises:
      DataError: the name leads elsewhere, or there is no such file.
    """
    root = path.parent.resolve()
    try:
        found = (root / name).resolve()
        exists = found.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} names the file {told(name)!r}: {told(error)}.") from error
    if not found.is_relative_to(root):
        raise DataError(f"{path} names {told(name)!r}, which lies outside its folder: refused.")
    if not exists:
        raise DataError(f"{path} names {told(name)!r}, which does not exist.")
    return found


def encode(picture: np.ndarray) -> bytes:
    """A picture [H, W, 3 or 4] uint8 as lossless WebP; colours under alpha 0 stay as they are."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(stream, "WEBP", lossless=True, exact=True)
    return stream.getvalue()
