"""Measurements by hand: `python -m benchmarks COMMAND ...`, one file a command."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "render": "forward, and forward with the gradients of all parameters, against a yardstick",
    "stages": "where the time goes, stage by stage",
    "scaling": "time and memory against splats and pixels, with fitted exponents and a plot",
    "compile": "time to the first image and the first training step, cold and cached",
    "train": "steps per second of the whole trainer",
    "atomics": "how many atomic additions each way to accumulate gradients issues on a GPU",
    "methods": "the methods against each other on photos of yours, with one held-out view of each",
    "fisheye": "3DGS against 3DGUT through a wide fisheye with a rolling shutter",
    "gpu": "every backend and every way to accumulate, on a GPU, in one short script",
    "table": "stored results as tables in Markdown",
}


def main() -> None:
    """Run one command."""
    name, *rest = sys.argv[1:] or [""]
    if name not in COMMANDS:
        lines = [f"  {name:<8} {words}" for name, words in COMMANDS.items()]
        sys.exit("\n".join(["usage: python -m benchmarks COMMAND ...", "", *lines]))
    from xpr.errors import UserError

    try:
        importlib.import_module(f"benchmarks.{name}").main(rest)
    except (OSError, UserError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
