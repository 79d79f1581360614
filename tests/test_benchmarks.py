"""The benchmarks start and produce rows. Nothing is timed here."""

import importlib
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
COMMANDS = (
    "render",
    "stages",
    "scaling",
    "compile",
    "train",
    "methods",
    "fisheye",
    "atomics",
    "table",
)


@pytest.fixture
def command(monkeypatch):
    """A benchmark's `main`, by its name."""
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"benchmarks.{name}").main


@pytest.mark.parametrize("name", COMMANDS)
def test_every_benchmark_says_how_it_is_used(command, name, capsys):
    with pytest.raises(SystemExit) as ended:
        command(name)(["--help"])
    assert ended.value.code == 0
    assert f"python -m benchmarks {name}" in capsys.readouterr().out


def test_a_render_ends_up_as_rows_in_a_table(command, tmp_path, capsys):
    kept = tmp_path / "rows.json"
    case = ["200@32", "--backends", "cpu", "--tile-size", "8", "--rounds", "1", "--out", str(kept)]
    command("render")(case)
    rows = json.loads(kept.read_text())["results"]
    assert [row["pass"] for row in rows] == ["forward", "forward + backward"]
    assert all(row["median_ms"] > 0 for row in rows)
    capsys.readouterr()
    command("table")([str(kept), "--columns", "workload", "pass"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[-3:-1] == ["| 200@32 | forward |", "| 200@32 | forward + backward |"]
