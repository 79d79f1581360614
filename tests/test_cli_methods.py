"""The commands take scenes of any method."""

from pathlib import Path

import pytest

from xpr import io, methods
from xpr.check import bench
from xpr.cli import main
from xpr.errors import DataError, UserError

SPHERE = "examples/sphere.py"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution with two entry points, one of which leads nowhere."""
    info = tmp_path / "balls-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: balls\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[xpr.methods]\nball = balls_of_a_test:Sphere\nlost = not_there:Sphere\n"
    )
    (tmp_path / "balls_of_a_test.py").write_text(Path(SPHERE).read_text())
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_methods_by_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # no cell of the table is broken into lines
    assert methods.load("ball").__name__ == "Sphere"
    assert main(["methods"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "balls_of_a_test:Sphere" in told and "log_scale" in told
    assert "named 'not_there'" in told


@pytest.mark.usefixtures("installed")
def test_a_misspelt_name_is_told_the_nearest_installed_one():
    with pytest.raises(UserError, match=r"unknown method 'bal'.*Did you mean 'ball'"):
        methods.load("bal")


@pytest.mark.parametrize("name", ["linprim", "3dgut"])
def test_a_file_says_itself_which_built_in_method_it_holds(name, tmp_path):
    scene = bench(methods.load(name)).scene
    io.save(scene, tmp_path / "a.ply")
    assert type(io.load(tmp_path / "a.ply")) is type(scene)


def test_info_tells_of_a_scene_of_another_method(tmp_path, capsys):
    io.save(bench(methods.load("linprim")).scene, tmp_path / "a.ply")
    assert main(["info", str(tmp_path / "a.ply")]) == 0
    told = capsys.readouterr().out
    assert "Octahedron" in told and "12" in told


def test_a_scene_of_a_method_without_a_name_asks_for_its_class(tmp_path):
    io.save(bench(methods.load(SPHERE)).scene, tmp_path / "a.ply")
    with pytest.raises(DataError, match="holds Sphere, which is no method that xpr knows"):
        io.load(tmp_path / "a.ply")


@pytest.mark.parametrize("code", ["def (", "import there_is_no_such_module", "1 / 0"])
def test_a_method_file_that_fails_is_told_in_one_line(code, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(code)
    assert main(["check", str(tmp_path / "mine.py")]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and "mine.py' cannot be imported: " in err


def test_the_list_of_methods_names_each_class_in_full(capsys):
    assert main(["methods"]) == 0
    cells = [line.split("│")[2] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert methods.BUILTIN["3dgs"] in "".join(cells).replace(" ", "")
