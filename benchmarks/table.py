"""Stored results as tables in Markdown, each under the machine that it was measured on.

python -m benchmarks table RESULTS.json ... [--columns workload backend ratio]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import markdown
from xpr.errors import DataError


def main(arguments: Sequence[str]) -> None:
    """Print the table of each file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks table")
    parser.add_argument("files", type=Path, nargs="+", metavar="RESULTS.json")
    parser.add_argument("--columns", nargs="+", help="only these, in this order; by default all")
    options = parser.parse_args(arguments)
    for path in options.files:
        print(table(path, options.columns))


def table(path: Path, columns: list[str] | None = None) -> str:
    """A line about the machine, and a table for each kind of rows.

    Raises:
      DataError: it is no file of results.
    """
    try:
        kept = json.loads(path.read_text())
        machine, kinds = dict(kept["machine"]), [rows for rows in kept.values() if is_rows(rows)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}), expected a file that "
            "python -m benchmarks COMMAND --out wrote."
        ) from error
    told = "; ".join(f"{name} {value}" for name, value in machine.items() if value is not None)
    if columns is not None:
        kinds = [[{name: row.get(name) for name in columns} for row in rows] for rows in kinds]
    return "\n".join([told, "", *map(markdown, kinds)])


def is_rows(value: Any) -> bool:
    """Whether it is a list of rows."""
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
