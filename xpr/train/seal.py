"""A seal on a folder: the checksums of its files, so that damage shows before anything is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from xpr.errors import DataError
from xpr.files import atomic_write
from xpr.io.fields import Fields

SEAL = "checksums.json"


def seal(folder: Path) -> None:
    """Write the checksums of all files below `folder` into it.

    Raises:
      OSError: it cannot be written.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    sums = {path.relative_to(folder).as_posix(): _sum(path) for path in files}
    with atomic_write(folder / SEAL) as temporary:
        temporary.write_text(json.dumps(sums, indent=1))


def check_seal(folder: Path) -> None:
    """Refuse a folder whose files are not those that were sealed; an unsealed one passes.

    Raises:
      DataError: naming the file in the folder that is missing or differs, or a damaged seal.
      OSError: a file cannot be opened.
    """
    path = folder / SEAL
    if not path.is_file():
        return
    sums = Fields.parse(path, SEAL, path.read_bytes())
    for name in sums.values:
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            raise sums.wrong(name, "a file of this folder")
        if not file.is_file():
            raise DataError(f"the file {name} is missing")
        if sums.text(name) != _sum(file):
            raise DataError(f"the checksum of {name} differs")


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
