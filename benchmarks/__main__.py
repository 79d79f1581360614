"""Measurements by hand: `python -m benchmarks COMMAND ...`, one file a command."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "render": "forward, and forward with the gradients of all parameters, on seeded scenes",
    "atomics": "how many atomic additions each way to accumulate gradients issues on a GPU",
    "methods": "the methods against each other on photos of yours, with one held-out view of each",
    "gpu": "every backend and every way to accumulate, on a GPU, in one short script",
}


def main() -> None:
    """Run one command."""
    name, *rest = sys.argv[1:] or [""]
    if name not in COMMANDS:
        lines = [f"  {name:<8} {words}" for name, words in COMMANDS.items()]
        sys.exit("\n".join(["usage: python -m benchmarks COMMAND ...", "", *lines]))
    importlib.import_module(f"benchmarks.{name}").main(rest)


if __name__ == "__main__":
    main()
