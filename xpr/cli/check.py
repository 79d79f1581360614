"""`xpr check`: the contract of a primitive, tried out."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import tyro
from rich.console import Console

from xpr import methods
from xpr.check import check
from xpr.errors import UserError


@dataclasses.dataclass
class Check:
    """Try the contract of a primitive, and tell in words what does not hold."""

    spec: Annotated[str, tyro.conf.Positional]
    """A name, "module:Class" or "./file.py:Class"."""

    def run(self) -> None:
        """Print a line a claim.

        Raises:
          UserError: some claim does not hold.
        """
        console, failed = Console(soft_wrap=True), 0
        for finding in check(methods.load(self.spec)):
            mark = "ok    " if finding.problem is None else "FAILED"
            console.print(f"{mark} {finding.claim}", markup=False, highlight=False)
            if finding.problem is not None:
                failed += 1
                console.print(f"       {finding.problem}", markup=False, highlight=False)
        if failed:
            raise UserError(f"{self.spec}: {failed} of its promises do not hold; see above.")
