"""Pictures and videos: written whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from xpr.errors import UserError
from xpr.files import atomic_write

ERROR_SCALE = 0.25  # absolute error shown at the bright end of the map; larger ones saturate
GAP = 4  # px of white between the pictures of a contact sheet


def to_uint8(image: np.ndarray) -> np.ndarray:
    """An image in 0..1 as bytes: clipped, then rounded to the nearest; uint8 passes through.

    Raises:
      UserError: non-finite values, which no picture can show.
    """
    image = np.asarray(image)
    if image.dtype == np.uint8:
        return image
    broken = np.sum(~np.isfinite(image))
    if broken:
        raise UserError(f"the image holds {broken:,} non-finite values, expected 0 to 1.")
    return np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)


def save_png(path: str | Path, image: np.ndarray) -> None:
    """Write an image [H, W, 3], float in 0..1 or uint8.

    Raises:
      UserError: non-finite values.
      OSError: the folder does not exist or cannot be written.
    """
    from PIL import Image

    with atomic_write(Path(path)) as temporary:
        Image.fromarray(to_uint8(image)).save(temporary, format="PNG")


def write_video(path: str | Path, frames: Iterable[np.ndarray], *, fps: int = 30) -> int:
    """Encode frames [H, W, 3], float in 0..1 or uint8, as H.264 (yuv420p) in an .mp4.

    Odd sizes grow by one pixel of repeated edge, so that nothing is rescaled. Frames are drawn
    one at a time: a generator needs no memory for the whole film.

    Returns:
      The number of frames.

    Raises:
      UserError: no .mp4, no frames, or frames of different sizes.
      OSError: the folder does not exist or cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".mp4":
        raise UserError(f"{path}: videos are written as .mp4, found the suffix {path.suffix!r}.")
    stream = (to_uint8(frame) for frame in frames)
    first = next(stream, None)
    if first is None:
        raise UserError(f"{path}: a video needs at least one frame, found none.")
    written = 0
    with atomic_write(path) as temporary, _encoder(temporary, _even(first), fps) as feed:
        for frame in itertools.chain([first], stream):
            if frame.shape != first.shape:
                raise UserError(
                    f"{path}: frame {written} has shape {frame.shape}, expected {first.shape} as "
                    "the first one."
                )
            feed.write(_even(frame).tobytes())
            written += 1
    return written


def error_map(truth: np.ndarray, render: np.ndarray) -> np.ndarray:
    """The mean absolute error over the channels as a picture, uint8 [H, W, 3].

    matplotlib's perceptually uniform "inferno", black at 0 and brightest from `ERROR_SCALE` on:
    the same colour means the same error in every picture.
    """
    import matplotlib

    difference = to_uint8(truth).astype(float) - to_uint8(render)
    error = np.mean(np.abs(difference), axis=-1) / 255
    colors = matplotlib.colormaps["inferno"](np.clip(error / ERROR_SCALE, 0, 1))
    return to_uint8(colors[..., :3])


def side_by_side(truth: np.ndarray, render: np.ndarray) -> np.ndarray:
    """Truth | render | error map.

    Args:
      truth: [H, W, 3] float in 0..1 or uint8.
      render: likewise, of the same size.

    Returns:
      uint8 [H, 3 W, 3].

    Raises:
      UserError: sizes differ.
    """
    if truth.shape != render.shape:
        raise UserError(f"the render has shape {render.shape}, expected {truth.shape}.")
    images = to_uint8(truth), to_uint8(render), error_map(truth, render)
    return np.concatenate(images, axis=1)


def contact_sheet(rows: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Pictures of any sizes in rows and columns on white, uint8 [H, W, 3].

    Raises:
      UserError: no pictures.
    """
    pictures = [[to_uint8(image) for image in row] for row in rows if len(row)]
    if not pictures:
        raise UserError("a contact sheet needs at least one picture, found none.")
    strips = [_joined(row, axis=1) for row in pictures]
    return _joined(strips, axis=0)


def _joined(images: list[np.ndarray], axis: int) -> np.ndarray:
    """Images side by side (axis 1) or stacked (axis 0), with a gap, filled up with white."""
    across = 1 - axis
    longest = max(image.shape[across] for image in images)
    pieces = []
    for image in images:
        pad = [(0, 0)] * 3
        pad[across] = (0, longest - image.shape[across])
        pad[axis] = (GAP if pieces else 0, 0)
        pieces.append(np.pad(image, pad, constant_values=255))
    return np.concatenate(pieces, axis=axis)


@contextlib.contextmanager
def _encoder(path: Path, like: np.ndarray, fps: int) -> Iterator[IO[bytes]]:
    """A pipe into ffmpeg that takes raw frames shaped as `like`; after the block the file is whole.

    imageio's own writer forks with Python code to run in the child, which jax's threads forbid.
    """
    from imageio_ffmpeg import get_ffmpeg_exe

    height, width = like.shape[:2]
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps)]
    wanted = ["-an", "-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p"]
    command = [get_ffmpeg_exe(), "-y", "-v", "error", *given, "-i", "-", *wanted, str(path)]
    # A session of its own: Ctrl-C stops us, and we end the encoder in order.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    with process:
        with contextlib.suppress(BrokenPipeError):
            yield process.stdin
        _, said = process.communicate()
    if process.returncode:
        raise OSError(f"ffmpeg could not write {path}: {said.decode(errors='replace').strip()}")


def _even(frame: np.ndarray) -> np.ndarray:
    """yuv420p halves the colours' resolution: both sizes must be even."""
    height, width = frame.shape[:2]
    return np.pad(frame, [(0, height % 2), (0, width % 2), (0, 0)], mode="edge")
