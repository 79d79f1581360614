"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path


def check_target(path: Path) -> None:
    """Refuse a path that no file can be written to: early, before any work is done for it.

    Raises:
      OSError: its folder does not exist, or `path` is a folder itself.
    """
    if not path.parent.is_dir():
        words = "no such folder. Make it, or write somewhere else"
        raise FileNotFoundError(errno.ENOENT, words, str(path.parent))
    if path.is_dir():
        words = "is a folder, expected the name of a file. Give another one"
        raise IsADirectoryError(errno.EISDIR, words, str(path))


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place once the block ends without an error.

    The temporary name keeps the suffix, so that encoders can guess the format. A block that
    raises leaves nothing behind, and an older file at `path` stays as it was.

    Raises:
      OSError: as `check_target`, or the folder cannot be written.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
