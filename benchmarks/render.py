"""Forward, and forward with the gradients of all parameters, against a yardstick.

    python -m benchmarks render WORKLOAD ... [--methods 3dgs 3dgut] [--backends cpu xla]
        [--tile-size 16 8] [--rounds 7] [--yardstick FOLDER] [--memory] [--out FILE.json]

All of one workload's contenders and the yardstick run in turn in every round. A ratio is the median
of the ratios within the rounds. Peak memory is that of a process that does nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xpr
from benchmarks.alone import alone, peak_gb
from benchmarks.case import Case, Choice, add_choices, case, choices
from benchmarks.results import Results, Row, add_out
from benchmarks.timing import interleaved, median_and_minimum, ratios
from benchmarks.workloads import Workload, workload
from benchmarks.yardstick import Yardstick
from xpr.errors import UserError

PASSES = ("forward", "forward + backward")
SAME = 0.02  # a layer of alpha 1/255 may fall on either side of the threshold
YARDSTICK = Choice("3dgs", "yardstick", 16)


def main(arguments: Sequence[str]) -> None:
    """Measure every combination that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks render")
    add_choices(parser)
    parser.add_argument("--yardstick", type=Path, metavar="FOLDER", help="holds splatref.py")
    parser.add_argument("--memory", action="store_true", help="a process each for peak memory")
    add_out(parser)
    options = parser.parse_args(arguments)
    results = Results(options)
    threads = xpr.Settings.for_this_machine().loops
    yardstick = options.yardstick and Yardstick(options.yardstick, threads)
    for name in options.workloads:
        results.add(rows(name, options, yardstick))


def rows(name: str, options: argparse.Namespace, yardstick: Yardstick | None) -> Iterator[Row]:
    """Two rows, one a pass, for each contender on one workload."""
    given = workload(name)
    able, unable = contenders(given, choices(options))
    functions: dict[tuple[Choice, str], Any] = {}
    images = {}
    if yardstick is not None:
        both = yardstick.functions(given)
        functions = {(YARDSTICK, word): run for word, run in zip(PASSES, both, strict=True)}
        images = differences(both[0](), able)
    for choice, ready in able.items():
        functions |= {(choice, PASSES[0]): ready.forward, (choice, PASSES[1]): ready.both}
    times = interleaved(functions, options.rounds)
    for (choice, word), taken in times.items():
        row = {"workload": given.name, **choice._asdict(), "pass": word}
        row |= median_and_minimum(taken)
        row |= ratios(taken, times[YARDSTICK, word]) if yardstick else {}
        row |= {"difference": images[choice]} if choice in images else {}
        if options.memory and choice is not YARDSTICK:
            row["peak_memory_gb"] = alone(peak, name, choice, word)
        yield row
    yield from (
        {"workload": given.name, **c._asdict(), "problem": why} for c, why in unable.items()
    )


def contenders(
    given: Workload, choices: list[Choice]
) -> tuple[dict[Choice, Case], dict[Choice, str]]:
    """Those that can render the workload, their image compiled, and why the others cannot."""
    able, unable = {}, {}
    for choice in choices:
        try:
            ready = case(given, choice)
            ready.forward()
            able[choice] = ready
        except UserError as error:
            unable[choice] = str(error)
    return able, unable


def differences(truth: np.ndarray, able: dict[Choice, Case]) -> dict[Choice, float]:
    """Each 3DGS image's largest difference from the yardstick's, which must be small."""
    found = {}
    for choice, ready in able.items():
        if choice.method == YARDSTICK.method:
            found[choice] = float(np.max(np.abs(np.asarray(ready.forward()) - truth)))
            assert found[choice] < SAME, f"{choice} shows another image, by {found[choice]:.3g}"
    return found


def peak(name: str, choice: Choice, word: str) -> float:
    """GB that a process holds at most in which one pass runs twice."""
    ready = case(workload(name), choice)
    run = ready.forward if word == PASSES[0] else ready.both
    interleaved({word: run}, 1)
    return round(peak_gb(), 3)
