"""xpr train and xpr eval, on files."""

import json

import numpy as np
import pytest
from PIL import Image
from training_scenes import SIZE, dataset

from xpr.cli import main
from xpr.cli.eval import Eval
from xpr.cli.train import Train
from xpr.errors import DataError, UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The blobs as an ordinary transforms.json dataset, without a point cloud."""
    root = tmp_path_factory.mktemp("photos")
    frames = []
    for view in dataset().views:
        Image.fromarray(view.pixels).save(root / view.name)
        world_from_camera = np.linalg.inv(view.camera.viewmat) @ np.diag([1, -1, -1, 1])
        frames.append({"file_path": view.name, "transform_matrix": world_from_camera.tolist()})
    lens = {"fl_x": SIZE, "fl_y": SIZE, "cx": SIZE / 2, "cy": SIZE / 2, "w": SIZE, "h": SIZE}
    (root / "transforms.json").write_text(json.dumps({**lens, "frames": frames}))
    return root


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The folder of a whole run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    Train(data=folder, steps=2, cap=64, out=out).run()
    return out


def test_train_stop_resume_and_eval(folder, tmp_path, capsys):
    """Stopped, it says what it has; resumed and evaluated, both print the same scores.

    The scores at fitted poses stand beside them, where they are asked for.
    """
    out = tmp_path / "run"
    Train(data=folder, steps=6, cap=64, out=out, stop_after=3).run()
    first = capsys.readouterr().out
    assert "random points" in first and "3 steps" in first
    Train(resume=out).run()
    trained = capsys.readouterr().out
    assert "6 steps" in trained and "compilations" in trained and "every 8th of 8" in trained
    Eval(out, fit_poses=2).run()
    evaluated = capsys.readouterr().out
    quality = json.loads((out / "summary.json").read_text())["evaluation"]["psnr"]
    assert f"{quality:.2f}" in trained and f"{quality:.2f}" in evaluated
    told = json.loads((out / "eval.json").read_text())
    assert told["psnr"] == pytest.approx(quality, abs=1e-4) and told["pose_fit_steps"] == 2
    assert f"{told['psnr_pose_fitted']:.2f}" in evaluated and "pose fitted" in evaluated
    assert "fitted" not in trained


def test_mistakes_are_told_in_one_line(folder, tmp_path):
    """No data, nothing to resume, nothing to evaluate."""
    with pytest.raises(UserError, match="no DATA given"):
        Train().run()
    with pytest.raises(DataError, match="expected the settings of a run"):
        Train(resume=tmp_path).run()
    with pytest.raises(DataError, match="expected the settings of a run"):
        Eval(tmp_path / "none").run()
    with pytest.raises(DataError, match="expected the settings of a run"):
        Eval(folder / "transforms.json").run()
    with pytest.raises(UserError, match="--fit-poses is -1, expected a number of steps"):
        Eval(tmp_path, fit_poses=-1).run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--steps", "9"], "--steps 9 was given with --resume, expected none"),
        (["--stop-after", "1"], "stop_after is 1, but the run is at step"),
    ],
)
def test_a_resumed_run_refuses_what_it_would_ignore(options, message, finished, capsys):
    assert main(["train", "--resume", str(finished), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_run_that_cannot_start_leaves_no_folder(folder, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", str(folder), "--method", "nope.py:Foo", "--out", str(out)]) == 2
    told, err = capsys.readouterr()
    assert "nope.py" in err and "compiling" not in told and not out.exists()


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999"])
def test_a_seed_out_of_range_is_refused_before_anything_is_written(seed, folder, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", str(folder), "--seed", seed, "--out", str(out)]) == 2
    assert "seed is" in capsys.readouterr().err and not out.exists()


def test_a_folder_with_other_files_is_no_run_folder(folder, capsys):
    assert main(["train", str(folder), "--steps", "2", "--out", str(folder)]) == 2
    assert "holds other files" in capsys.readouterr().err
