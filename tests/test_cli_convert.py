"""`xpr convert`: formats, frames and what is cut off."""

import json

import numpy as np
import pytest
from splat_tables import mild_table

from xpr import io
from xpr.cli import main


@pytest.fixture
def source(tmp_path):
    io.write(mild_table(100, antialiased=True), tmp_path / "in.ply")
    return tmp_path / "in.ply"


def convert(source, target, *options):
    assert main(["convert", str(source), str(target), *options]) == 0
    return io.read(target)


def mistake(capsys, *argv):
    assert main(["convert", *map(str, argv)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


@pytest.mark.parametrize("end", [end for end in io.writable() if io.FORMATS[end].tagged])
def test_the_flag_and_the_harmonics_travel_to_every_format_that_holds_them(source, tmp_path, end):
    table = convert(source, tmp_path / f"out{end}")
    assert table.antialiased and table.sh_degree == 3 and len(table) == 100


def test_splats_are_cut_off_by_place_opacity_and_degree(capsys, source, tmp_path):
    before = io.read(source)
    inside = np.all(np.abs(before.mean) < 1, axis=1)
    clear = before.opacity >= 0.4
    options = ["--crop=-1,-1,-1,1,1,1", "--prune-opacity", "0.4", "--sh-degree", "1"]
    table = convert(source, tmp_path / "out.ply", *options)
    np.testing.assert_array_equal(table.mean, before.mean[inside & clear])
    np.testing.assert_array_equal(table.shN, before.shN[inside & clear][:, :3])
    told = capsys.readouterr().out
    assert f"dropped {np.sum(~inside)} of 100 splats outside the box" in told
    assert f"dropped {np.sum(inside & ~clear)} of {np.sum(inside)} splats of opacity below" in told


@pytest.mark.parametrize(
    ("frame", "turned"), [("opengl", [1, -1, -1]), ("colmap", [1, 1, 1]), ("z-up", None)]
)
def test_a_frame_turns_the_numbers(source, tmp_path, frame, turned):
    mean, new = io.read(source).mean, convert(source, tmp_path / "o.ply", "--to-frame", frame).mean
    expected = mean * turned if turned else np.stack([mean[:, 0], mean[:, 2], -mean[:, 1]], axis=1)
    np.testing.assert_array_equal(new, expected)


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_matrix_moves_the_scene(source, tmp_path, kind):
    matrix = [[2, 0, 0, 5], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]
    rows = "\n".join(" ".join(map(str, row)) for row in matrix)
    (tmp_path / "m").write_text(json.dumps(matrix) if kind == "json" else rows)
    table = convert(source, tmp_path / "out.ply", "--transform", str(tmp_path / "m"))
    np.testing.assert_allclose(table.mean, 2 * io.read(source).mean + [5, 0, 0], atol=1e-6)


def test_mistakes_are_one_line_and_write_nothing(capsys, source, tmp_path):
    out = tmp_path / "out.ply"
    assert "prescribes its axes (RUB)" in mistake(
        capsys, source, tmp_path / "o.spz", "--to-frame", "z-up"
    )
    assert "--drop-antialiased" in mistake(capsys, source, tmp_path / "o.splat", "--sh-degree", "0")
    assert "x0,y0,z0" in mistake(capsys, source, out, "--crop", "1,2")
    assert "is empty" in mistake(capsys, source, out, "--crop", "1,1,1,0,0,0")
    assert "expected 0 to 4" in mistake(capsys, source, out, "--sh-degree", "7")
    assert "expected 0 to 1" in mistake(capsys, source, out, "--prune-opacity", "nan")
    assert "is a folder" in mistake(capsys, source, tmp_path)
    assert "suffix '.obj'" in mistake(capsys, source, tmp_path / "o.obj")
    (tmp_path / "m").write_text("1 2 3")
    assert "no 4x4 matrix" in mistake(capsys, source, out, "--transform", tmp_path / "m")
    assert {p.name for p in tmp_path.iterdir()} == {"in.ply", "m"}
