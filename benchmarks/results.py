"""Rows of measurements: kept as JSON, shown as a table in Markdown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from xpr.files import atomic_write, check_target

Row = dict[str, Any]


def add_out(parser: argparse.ArgumentParser) -> None:
    """The option of all commands that measure."""
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="keep the rows and machine")


class Results:
    """The rows of one command. The file is whole at any time, however a run ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Refuse an `--out` that cannot be written, before anything is measured.

        Raises:
          OSError: as `check_target`.
        """
        self._out: Path | None = options.out
        if self._out is not None:
            check_target(self._out)
        asked = {name: value for name, value in vars(options).items() if name != "out"}
        self._kept: dict[str, Any] = {"machine": describe(), "options": asked}

    def add(self, rows: Iterable[Row], kind: str = "results") -> None:
        """Print some rows as a table and keep them with the others of their kind."""
        rows = list(rows)
        self._kept.setdefault(kind, []).extend(rows)
        print(markdown(rows), flush=True)
        if self._out is not None:
            with atomic_write(self._out) as partial:
                partial.write_text(json.dumps(self._kept, indent=1, default=str) + "\n")


def markdown(rows: Iterable[Row]) -> str:
    """A table with a column for each key, in the order in which keys first appear."""
    rows = list(rows)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    numeric = [all(not isinstance(row.get(key), str) for row in rows) for key in keys]
    lines = [
        [key.replace("_", " ") for key in keys],
        ["--:" if is_number else "---" for is_number in numeric],
        *([cell(row.get(key)) for key in keys] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cell(value: Any) -> str:
    """A value as few figures: three that count, or whole numbers."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        size = abs(value)
        if size >= 100:
            return f"{value:,.0f}"
        if size >= 0.01:
            return f"{value:.{1 if size >= 10 else 2}f}"
        return f"{value:.1e}" if size else "0"
    return str(value)
