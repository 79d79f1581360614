"""The command line: exit codes, one line for a mistake, and what info and render tell."""

import re
import types

import numpy as np
import pytest
from PIL import Image

from xpr import Camera, io
from xpr.cli import COMMANDS, info, main, render
from xpr.cli.arguments import one_line
from xpr.cli.sources import CONFIG, SPLATS
from xpr.io.table import SplatTable
from xpr.paths import focus_point
from xpr.train.config import TrainConfig


def cloud(size=50, spread=1.0):
    rng = np.random.default_rng(0)

    def block(*shape):
        return rng.standard_normal((size, *shape)).astype(np.float32)

    return SplatTable(
        spread * block(3), block(4), 0.1 * block(3) - 3, 2 + block(), block(1, 3), block(3, 3)
    )


@pytest.fixture
def splats(tmp_path):
    io.FORMATS[".ply"].write(cloud(), tmp_path / "a.ply")
    return tmp_path / "a.ply"


def mistake(capsys, *argv):
    """The one line that a wrong command prints to stderr; it exits with 2."""
    assert main([str(a) for a in argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("xpr: error: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(capsys, argv):
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for name in COMMANDS)


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("xpr ")


@pytest.mark.parametrize("name", ["info", "render"])
def test_every_command_explains_itself(capsys, name):
    assert main([name, "--help"]) == 0
    assert "PATH" in capsys.readouterr().out


def test_an_unknown_command_gets_the_nearest_one(capsys):
    assert "Did you mean 'render'?" in mistake(capsys, "rendr")


@pytest.mark.parametrize("name", ["info", "render"])
def test_a_missing_path_is_named(capsys, tmp_path, name):
    told = mistake(capsys, name, tmp_path / "nowhere")
    assert "nowhere does not exist, expected a file or folder. Check its spelling" in told


def test_a_file_of_the_wrong_kind_is_refused(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "another kind" in mistake(capsys, "info", tmp_path / "notes.txt")
    assert "another kind" in mistake(capsys, "render", tmp_path / "notes.txt")


def test_a_damaged_file_is_refused(capsys, tmp_path):
    (tmp_path / "a.ply").write_text("hello")
    assert "no .ply file" in mistake(capsys, "info", tmp_path / "a.ply")


@pytest.mark.parametrize(
    ("argv", "found", "expected"),
    [
        (["info"], "Missing from xpr info: PATH", "A dataset, a run folder or a splat file"),
        (["render", "a.ply", "--frames", "many"], "'many'", "--frames INT How many views"),
        (["render", "a.ply", "--frmes", "3"], "--frmes", "Perhaps you meant: --frames"),
        (["render", "a.ply", "--up", "w"], "'w'", "Expected one of ('x', 'y'"),
        (["render", "a.ply", "--size", "3"], "['3']", "Width and height in pixels"),
    ],
)
def test_arguments_that_do_not_parse_are_told_in_one_line(capsys, argv, found, expected):
    told = mistake(capsys, *argv)
    assert found in told and expected in told and told.endswith(f"xpr {argv[0]} --help.\n")
    assert not re.search(r"--(?!\w)|[─│]", told)


def test_a_terminals_box_is_told_in_one_line_too():
    rows = ["╭─ Value error ─╮", "│ \x1b[1mError:\x1b[0m too │", "│ many. │", "│ │", "│ - tried │"]
    rows += ["│ ───────────── │", "│ See --help │", "╰───────────────╯", ""]
    assert one_line("\n".join(rows)) == "Error: too many. See --help."


@pytest.mark.parametrize("settings", [["--steps", "0"], ["--seed", "-1"], ["--out", "used"]])
def test_a_demo_that_cannot_run_writes_nothing(capsys, monkeypatch, tmp_path, settings):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used/run/checkpoints").mkdir(parents=True)
    assert "expected" in mistake(capsys, "demo", *settings)
    assert [path.name for path in tmp_path.rglob("*")] == ["used", "run", "checkpoints"]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "xpr: error: interrupted."),
        (PermissionError(13, "Permission denied", "/a"), 2, "xpr: error: /a: Permission denied."),
        (OSError("disk full"), 2, "xpr: error: disk full"),
    ],
)
def test_what_happens_to_a_running_command_has_an_exit_code(
    capsys, monkeypatch, tmp_path, error, code, line
):
    def run(self):
        raise error

    monkeypatch.setattr(info.Info, "run", run)
    assert main(["info", str(tmp_path)]) == code
    assert capsys.readouterr().err.strip() == line


def test_a_command_comes_from_its_own_file(monkeypatch, tmp_path, capsys):
    """A command is a dataclass with `run`, found by the table's module and name."""
    lines = ["import dataclasses", "@dataclasses.dataclass", "class Hop:", "    far: int = 1"]
    lines += ["    def run(self):", "        print('hop' * self.far)"]
    (tmp_path / "xpr_test_hop.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "hop", ("xpr_test_hop:Hop", "hop"))
    assert main(["hop", "--far", "2"]) == 0
    assert capsys.readouterr().out == "hophop\n"


def test_info_tells_what_a_splat_file_holds(capsys, splats):
    assert main(["info", str(splats)]) == 0
    out = capsys.readouterr().out
    for words in ("50", "SH degree 1", "classic", "bounding box", "opacity at 1 % | 50 % | 99 %"):
        assert words in out
    assert "!" not in out


def test_info_tells_what_is_odd_about_splats(capsys, tmp_path):
    table = cloud()
    table.mean[0] = np.nan
    table.logit_opacity[1:3] = -20
    table.log_scale[3] = 5
    table.log_scale[4] = [3, -3, -3]
    table.quat[5] = 0
    io.FORMATS[".ply"].write(table, tmp_path / "a.ply")
    assert main(["info", str(tmp_path / "a.ply")]) == 0
    out = capsys.readouterr().out
    assert "! dropped 1 of 50 splats" in out
    assert "! 2 splats (4.1%) are nearly invisible" in out
    assert "! 2 splats (4.1%) are larger than the scene" in out
    assert "! 1 splats (2.0%) are needles" in out
    assert "! 1 splats (2.0%) have a zero quaternion" in out


def test_info_of_an_empty_file_is_no_error(capsys, tmp_path):
    io.FORMATS[".ply"].write(cloud(size=0), tmp_path / "a.ply")
    assert main(["info", str(tmp_path / "a.ply")]) == 0


def test_info_of_a_run_is_that_of_its_splats(capsys, tmp_path, splats):
    TrainConfig().save(tmp_path / CONFIG)
    assert f"no {SPLATS} yet" in mistake(capsys, "info", tmp_path)
    splats.rename(tmp_path / SPLATS)
    assert main(["info", str(tmp_path)]) == 0
    assert "SH degree 1" in capsys.readouterr().out


def test_dataset_facts_name_the_cameras_and_the_split():
    cameras = [
        Camera(np.eye(4), np.diag(np.float32([f, f, 1])), width=w, height=20)
        for f, w in [(50, 30), (60, 30), (70, 40)]
    ]
    dataset = types.SimpleNamespace(
        format="colmap",
        views=[types.SimpleNamespace(camera=camera) for camera in cameras],
        train=(1, 2),
        test=(0,),
        split="every 8th",
        image_source="images_4",
        points=types.SimpleNamespace(positions=np.zeros((7, 3))),
        extent=2.5,
    )
    facts = dict(info.dataset_facts(dataset))
    assert facts["views"] == "3 from images_4"
    assert facts["split"] == "2 train, 1 test: every 8th"
    assert facts["2 cameras"] == "30 x 20 px, Pinhole"
    assert facts["focal lengths"] == "50.0 to 70.0 px"
    assert facts["points"] == "7"


def test_render_writes_a_picture_of_the_first_view(capsys, tmp_path, splats):
    target = tmp_path / "a.png"
    argv = ["render", str(splats), "-o", str(target), "--size", "40", "30"]
    assert main([*argv, "--background", "0", "0", "1"]) == 0
    with Image.open(target) as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (30, 40, 3)
    np.testing.assert_array_equal(pixels[0, 0], [0, 0, 255])
    assert np.std(pixels[..., 0]) > 10


def test_render_tells_what_was_dropped(caplog, tmp_path):
    table = cloud(size=1)
    table.mean[0] = np.nan
    io.FORMATS[".ply"].write(table, tmp_path / "a.ply")
    assert main(["render", str(tmp_path / "a.ply")]) == 2
    assert "dropped 1 of 1 splats" in caplog.text


def test_render_writes_a_video(tmp_path, splats):
    target = tmp_path / "a.mp4"
    argv = ["render", str(splats), "-o", str(target), "--size", "40", "30", "--frames", "3"]
    assert main(argv) == 0
    assert target.read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-o", "a.gif"], "expected .mp4 or .png"),
        (["-o", "folder.mp4"], "folder.mp4: is a folder, expected the name of a file"),
        (["-o", "nowhere/a.png"], "nowhere: no such folder. Make it"),
        (["--camera-path", "spiral"], "give --data"),
        (["--frames", "0"], "at least 1"),
        (["--data", "nowhere"], "nowhere does not exist"),
    ],
)
def test_render_refuses_before_it_starts(capsys, monkeypatch, tmp_path, splats, argv, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.mp4").mkdir()
    assert words in mistake(capsys, "render", splats, *argv)


def test_render_refuses_a_file_without_splats(capsys, tmp_path):
    io.FORMATS[".ply"].write(cloud(size=0), tmp_path / "a.ply")
    assert "holds no splats" in mistake(capsys, "render", tmp_path / "a.ply")


@pytest.mark.parametrize("up", ["x", "-y", "z"])
def test_a_view_without_cameras_circles_the_core_of_the_splats(up):
    means = cloud(size=2000).mean
    means[:20] = 1e3
    cameras = render.around(means, 8, up=up)
    poses = np.linalg.inv(np.stack([camera.viewmat for camera in cameras]).astype(float))
    np.testing.assert_allclose(focus_point(poses), 0, atol=0.15)
    sign = -1 if up[0] == "-" else 1
    assert np.all(sign * poses[:, "xyz".index(up[-1]), 3] > 0), "from above"
    assert np.all(sign * poses[:, "xyz".index(up[-1]), 1] < 0), "y points down in the picture"
