"""Errors with a cause and a remedy, raised at the public boundary."""

from __future__ import annotations

from typing import Any


class UserError(ValueError):
    """A mistake of the caller or of a file, told in one line: what, found, expected, remedy.

    The command line prints it without a traceback and exits with code 2.
    """


class CapacityError(RuntimeError):
    """A static buffer was too small for this scene and camera."""


class DataError(UserError):
    """A file or a folder that cannot be read as what it should be."""


def expect_shape(name: str, array: Any, shape: tuple[int | str, ...], hint: str = "") -> None:
    """Check a shape at trace time. A string in `shape` stands for any length.

    Raises:
      UserError: with the argument's name, its shape, the expected one and `hint`.
    """
    fits = len(array.shape) == len(shape) and all(
        isinstance(want, str) or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        want = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise UserError(f"{name} has shape {array.shape}, expected ({want}). {hint}".rstrip())
