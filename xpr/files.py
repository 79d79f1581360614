"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place once the block ends without an error.

    The temporary name keeps the suffix, so that encoders can guess the format. A block that
    raises leaves nothing behind, and an older file at `path` stays as it was.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
