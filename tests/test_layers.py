"""The shape of the package: imports point one way, files stay short, only the command line prints."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "xpr"
LONGEST = 400  # lines a file

# From the bottom up: a part may import its own layer and those below.
LAYERS = (
    {"errors", "math"},
    {"cache", "camera", "files", "lens", "media", "paths", "sh", "shutter", "types"},
    {"methods", "pipeline"},
    {"arrays", "data", "distributed", "export", "io", "train", "world"},
    {"blame", "check"},
    {"cli", "viewer", "__init__", "__main__"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
APART = {("methods", "pipeline"), ("pipeline", "methods")}


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


def test_every_part_of_the_package_has_its_layer():
    unknown = {part_of(path) for path in sources()} - set(LEVEL)
    assert not unknown, f"say in LAYERS where {unknown} belongs"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    part = part_of(path)
    for other, line in imported(path):
        fine = LEVEL[other] <= LEVEL[part] and (part, other) not in APART
        assert fine, f"line {line} imports xpr.{other}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short_and_silent(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST
    if part_of(path) != "cli":
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        assert not [c.lineno for c in calls if ast.unparse(c.func) == "print"]
