"""The arguments of a command; those that do not parse are told in one line."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from typing import TypeVar

import tyro

from xpr.errors import UserError

C = TypeVar("C")

COLOR = re.compile(r"\x1b\[[\d;]*m")
FRAME = " │╭╮╰╯"
RULE = re.compile(r"^[─-]{3,}$", re.MULTILINE)


def parse(command: type[C], arguments: Sequence[str], prog: str) -> C:
    """A command with its arguments.

    Raises:
      UserError: they do not parse.
      SystemExit: they ask for help, which has been printed.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(command, args=arguments, prog=prog)
    except SystemExit as leave:
        if not leave.code:
            raise
        raise UserError(one_line(said.getvalue())) from None


def one_line(box: str) -> str:
    """What tyro's box says, without its frame, its title and the list of what it has tried."""
    _title, *rows = [row.strip(FRAME) for row in COLOR.sub("", box).strip().splitlines()]
    parts = [part.strip().partition("\n\n")[0] for part in RULE.split("\n".join(rows))]
    return " ".join(" ".join(part.split()).rstrip(".") + "." for part in parts if part)
