"""`xpr methods`: a table of the rendering methods."""

from __future__ import annotations

import dataclasses
import inspect

from rich.console import Console
from rich.table import Column, Table

from xpr import methods
from xpr.errors import UserError


@dataclasses.dataclass
class Methods:
    """List the rendering methods that are known: built in, and installed ones."""

    def run(self) -> None:
        """Print the table."""
        table = Table("name", Column("where from", overflow="fold"), "fields", "lines")
        for name, target in sorted(methods.names().items()):
            table.add_row(name, target, *_facts(name))
        Console().print(table)


def _facts(name: str) -> tuple[str, str]:
    """Its fields and the length of its file; or, for a plugin that does not load, why."""
    try:
        method = methods.load(name)
    except UserError as error:
        return str(error), "-"
    lines = len(inspect.getsource(inspect.getmodule(method) or method).splitlines())
    return ", ".join(field.name for field in dataclasses.fields(method)), str(lines)
