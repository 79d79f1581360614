"""The shape of the package: imports point one way, files stay short, only the command line prints."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "xpr"
LONGEST = 400  # lines a file

BASE = {"math", "errors", "files", "types", "camera", "lens", "sh"}
ENGINE = BASE | {"pipeline"}
PLUGIN = BASE | {"methods"}
FEEDS = ENGINE | PLUGIN | {"data", "io", "train", "arrays"}
# What each part of the package may import, itself aside.
MAY_IMPORT = {
    "errors": set(),
    "files": {"errors"},
    "math": {"errors"},
    "sh": {"errors", "math"},
    "lens": {"errors", "math"},
    "types": {"errors", "math", "camera"},  # the camera for annotations only
    "camera": BASE - {"files"},
    "methods": BASE,
    "pipeline": BASE,
    "arrays": ENGINE | PLUGIN,
    "io": FEEDS,
    "data": FEEDS,
    "train": FEEDS,
    "export": FEEDS,
    "check": FEEDS,
    "distributed": FEEDS,
}
FREE = {"__init__", "__main__", "cli", "viewer"}  # the top: they may import anything


def sources():
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path):
    """The parts of xpr that a file names in its imports, and the lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            whole = node.module == "xpr"
            names = [f"xpr.{a.name}" for a in node.names] if whole else [node.module]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "xpr":
                yield (name.split(".") + ["__init__"])[1], node.lineno


def test_every_part_of_the_package_has_its_place():
    unknown = {part_of(path) for path in sources()} - set(MAY_IMPORT) - FREE
    assert not unknown, f"say in MAY_IMPORT what {unknown} may import"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    part = part_of(path)
    if part in FREE:
        return
    for other, line in imported(path):
        assert other == part or other in MAY_IMPORT[part], f"line {line} imports xpr.{other}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short_and_silent(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST
    if part_of(path) != "cli":
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        assert not [c.lineno for c in calls if ast.unparse(c.func) == "print"]
