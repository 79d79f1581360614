"""Photos on disk: found, measured by their headers, decoded."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from xpr.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")
LARGEST_PLAIN = 1 << 25  # pixels that any file may hold: one colour compresses well
LARGEST_GROWTH = 256  # pixels a byte, beyond that
UNREADABLE = (
    *(OSError, ValueError, SyntaxError),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning),
)
SPELLINGS = (*SUFFIXES, *(suffix.upper() for suffix in SUFFIXES))


@dataclasses.dataclass(frozen=True)
class Photo:
    """A photo's file, and the sizes (width, height) that follow from its header.

    Attributes:
      path: the file.
      size: on disk.
      delivered: after resizing.
      full: before any downscaling, as far as the file can tell.
      source: its folder, and whether it is resized, in words.
    """

    path: Path
    size: tuple[int, int]
    delivered: tuple[int, int]
    full: tuple[int, int]
    source: str


@dataclasses.dataclass(frozen=True)
class PhotoFolder:
    """The photos below `root`, delivered at 1 / `downscale` of their size.

    With a downscale K, `images/x.jpg` is looked for as `images_K/x.jpg` first.
    """

    root: Path
    downscale: int = 1

    def find(self, listed: str) -> Photo | None:
        """The photo that a dataset lists, with another extension or none if need be.

        Raises:
          DataError: the name leads out of the folder, or the file is no image.
        """
        inside = self.inside(listed)
        shrunk = self._shrunk(inside)
        if shrunk is not None and (path := _spelled(self.root / shrunk)):
            size = image_size(path)
            full = (size[0] * self.downscale, size[1] * self.downscale)
            return Photo(path, size, size, full, shrunk.parts[0])
        if path := _spelled(self.root / inside):
            size = image_size(path)
            folder = inside.parts[0] if len(inside.parts) > 1 else "photos"
            source = folder if self.downscale == 1 else f"{folder} resized by {self.downscale}"
            return Photo(path, size, shrink(size, self.downscale), size, source)
        return None

    def find_file(self, listed: str) -> Path | None:
        """Any other file that a dataset lists, such as a mask.

        Raises:
          DataError: the name leads out of the folder.
        """
        return _spelled(self.root / self.inside(listed))

    def inside(self, listed: str) -> Path:
        """The path relative to `root`.

        Raises:
          DataError: the name leads out of the folder.
        """
        root = Path(os.path.abspath(self.root))
        target = Path(os.path.normpath(root / listed.replace("\\", "/")))
        if not target.is_relative_to(root) or target == root:
            raise DataError(
                f"{listed!r} leads out of the dataset's folder {self.root}; expected a path "
                "inside it. Move the photos there, or link to them."
            )
        return target.relative_to(root)

    def _shrunk(self, inside: Path) -> Path | None:
        if self.downscale == 1 or len(inside.parts) == 1:
            return None
        return Path(f"{inside.parts[0]}_{self.downscale}", *inside.parts[1:])


def shrink(size: tuple[int, int], by: int) -> tuple[int, int]:
    """A size divided, rounded half up, at least one pixel."""
    return max(1, int(size[0] / by + 0.5)), max(1, int(size[1] / by + 0.5))


def image_size(path: Path) -> tuple[int, int]:
    """(width, height) from the file's header, in px.

    Raises:
      DataError: no image.
    """
    with _opened(path) as image:
        return image.size


def read_image(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Decode, and resize with a box filter where the file has another size.

    Args:
      path: the file.
      size: (width, height) to deliver, px.

    Returns:
      uint8 [H, W, 3], or [H, W, 4] with straight alpha where the file has transparency.

    Raises:
      DataError: the file cannot be decoded.
    """
    with _opened(path) as image:
        photo = _eight_bit(image)
        # Pillow premultiplies RGBA before it averages, and divides afterwards.
        return np.asarray(_resized(photo, size))


def read_mask(path: Path, size: tuple[int, int]) -> np.ndarray:
    """bool [H, W] at `size` (width, height): False where the mask is black.

    White may be 255 or 1. A pixel made of several counts if at least half of them do.

    Raises:
      DataError: the file cannot be decoded.
    """
    with _opened(path) as image:
        values = np.asarray(_eight_bit(image).convert("L"))
    half = values.max() / 2
    kept = Image.fromarray(np.where(values > half, np.uint8(255), np.uint8(0)))
    return np.asarray(_resized(kept, size)) >= 128


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """An image of which the header is read, and whose file can hold that many pixels.

    Raises:
      DataError: it cannot, is no image, or is damaged wherever the block looks at it.
    """
    try:
        with Image.open(path) as image:
            _check_pixels(image.width * image.height, path.stat().st_size)
            yield image
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path} cannot be read as an image: {reason}. Replace it, or take it out of the "
            "dataset."
        ) from error


def _check_pixels(pixels: int, stored: int) -> None:
    allowed = max(LARGEST_PLAIN, LARGEST_GROWTH * stored)
    if pixels > allowed:
        raise ValueError(
            f"it declares {pixels:,} pixels in {stored:,} bytes, expected at most {allowed:,}: it "
            "is damaged or made to fill the memory"
        )


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image if image.size == size else image.resize(size, Image.Resampling.BOX)


def _eight_bit(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bit grey, which Pillow would clip rather than scale
        grey = np.asarray(image).astype(np.float64) / 257
        return Image.fromarray(np.clip(grey + 0.5, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels; save it with 8 bits a channel")
    transparent = image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")


def _spelled(path: Path) -> Path | None:
    return next((found for found in _spellings(path) if _is_file(found)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no file has a name that the system cannot hold
        return False


def _spellings(path: Path) -> Iterator[Path]:
    yield path
    yield from (path.with_name(path.name + suffix) for suffix in SPELLINGS)
    if path.suffix.lower() in SUFFIXES:
        yield from (path.with_suffix(suffix) for suffix in SPELLINGS)
        yield path.with_suffix("")
