"""The command line: `xpr COMMAND ...`. Each command is a dataclass with `run`, in its own file."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from xpr.errors import UserError

COMMANDS = {
    "demo": ("xpr.cli.demo:Demo", "make a small world, train on it and show the result"),
    "train": ("xpr.cli.train:Train", "train a scene on photographs"),
    "eval": ("xpr.cli.eval:Eval", "measure a trained scene on its held-out views"),
    "render": ("xpr.cli.render:Render", "render a trained scene as a video or a picture"),
    "methods": ("xpr.cli.methods:Methods", "list the rendering methods that are known"),
    "check": ("xpr.cli.check:Check", "try the contract of a primitive, your own or a known one"),
    "convert": ("xpr.cli.convert:Convert", "convert splats between file formats and frames"),
    "export": ("xpr.cli.export:Export", "write a compiled function that renders without xpr"),
    "info": ("xpr.cli.info:Info", "tell what a dataset or a splat file holds, and what is odd"),
}
WRONG_USE, INTERRUPTED = 2, 130  # exit codes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, 2 for a user's mistake, 130 for Ctrl-C.

    Args:
      argv: the arguments after `xpr`; those of the process if None.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        return _fail(str(error))
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        return _fail(f"{error.filename}: {error.strerror}." if named else str(error))
    except KeyboardInterrupt:
        return _fail("interrupted.", INTERRUPTED)


def _run(arguments: list[str]) -> int:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"xpr {_version()}")
        return 0
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UserError(f"unknown command {name!r}; known: {', '.join(COMMANDS)}.{hint}")
    return _command(name, rest)


def _command(name: str, arguments: list[str]) -> int:
    from xpr import cache
    from xpr.cli.arguments import parse

    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(importlib.import_module(module), attribute)
    try:
        parsed = parse(command, arguments, f"xpr {name}")
    except SystemExit:  # --help
        return 0
    cache.turn_on()
    parsed.run()
    return 0


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("xpr")
    except PackageNotFoundError:
        return "(run from its source, not installed)"


def _help() -> str:
    lines = [f"  {name:<8} {words}" for name, (_, words) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: xpr COMMAND ... | --version | --help",
            "",
            "A point-based differentiable renderer: photographs in, splats and pictures out.",
            "",
            *lines,
            "",
            "`xpr COMMAND --help` lists what a command takes.",
        ]
    )


def _fail(message: str, code: int = WRONG_USE) -> int:
    print(f"xpr: error: {' '.join(message.split())}", file=sys.stderr)
    return code
