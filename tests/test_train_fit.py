"""Whole runs, tiny: determinism, resumption, overflow, odd input."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from training_scenes import QUICK, dataset

from xpr.errors import DataError, UserError
from xpr.methods.gaussian3d import Gaussian3D
from xpr.pipeline.capacity import Capacity
from xpr.train import trainer as trainer_module
from xpr.train.checkpoint import Checkpoints
from xpr.train.config import TrainConfig
from xpr.train.fit import fit
from xpr.train.folder import RunFolder
from xpr.train.step import compiled_step

PHOTOS = dataset()


def same(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in leaves)


def lines(folder):
    """The metrics without their times."""
    return [
        {k: v for k, v in line.items() if "second" not in k} for line in RunFolder(folder).logged()
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run: its folder and its result."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, fit(PHOTOS, QUICK, out=out)


def test_a_run_leaves_what_it_promises(whole):
    """Config, metrics, three checkpoints, splats, pictures, curve and summary lie in the folder."""
    out, result = whole
    assert TrainConfig.load(out / "config.json") == QUICK
    assert [line["step"] for line in lines(out)] == [2, 4, 6, 8, 10, 12]
    assert {int(p.name) for p in (out / "checkpoints").iterdir()} == {4, 8, 12}
    assert {p.name for p in (out / "eval").iterdir()} == {"000.png", "004.png"}
    assert (out / "loss.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "point_cloud.ply").read_bytes()[:3] == b"ply"
    summary = json.loads((out / "summary.json").read_text())
    told = summary["evaluation"]
    assert told["rounding"] == "uint8" and told["split"] == PHOTOS.split
    assert told["resolution"] == "24x24" and told["image_source"] == "rendered"
    assert told["splats"] == result.evaluation.splats and told["peak_memory"] > 0
    assert not list(out.glob(".*"))


def test_at_most_three_compilations(whole):
    """Growth to the cap, refinements and evaluation included."""
    assert whole[1].compilations <= 3


def test_the_same_seed_gives_the_same_bits(whole, tmp_path):
    """Case 45: scene and loss curve are equal, and another seed's are not."""
    again = fit(PHOTOS, QUICK, out=tmp_path / "again")
    assert same(whole[1].scene, again.scene)
    assert lines(whole[0]) == lines(tmp_path / "again")
    other = fit(PHOTOS, dataclasses.replace(QUICK, seed=1))
    assert not same(whole[1].scene, other.scene)


@pytest.mark.parametrize("stop", [4, 7])
def test_a_stopped_run_resumes_exactly(whole, tmp_path, stop):
    """Case 44: stopped at a checkpoint or between two, the resumed run equals the unbroken one."""
    out = tmp_path / "parts"
    part = fit(PHOTOS, QUICK, out=out, stop_after=stop)
    assert part.step == stop
    resumed = fit(PHOTOS, QUICK, resume=out)
    assert resumed.step == QUICK.steps and same(resumed.scene, whole[1].scene)
    assert (out / "point_cloud.ply").read_bytes() == (whole[0] / "point_cloud.ply").read_bytes()
    logged = [line for line in lines(out) if line["step"] != stop or stop % 2 == 0]
    assert logged == lines(whole[0])


def test_metrics_after_the_checkpoint_are_dropped_on_resuming(whole, tmp_path):
    """A run that logged beyond its last checkpoint does not log these steps twice."""
    out = tmp_path / "cut"
    fit(PHOTOS, QUICK, out=out, stop_after=4)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss": 9, "psnr": 1}\n{"step": 8, "lo')
    fit(PHOTOS, QUICK, resume=out)
    assert lines(out) == lines(whole[0])


def test_an_overflowing_step_is_repeated_with_more_room(whole, monkeypatch):
    """Too small a capacity costs a compilation and changes nothing else."""
    monkeypatch.setattr(trainer_module, "first_capacity", lambda *_: Capacity(128, 64))
    result = fit(PHOTOS, QUICK)
    assert any("the renderer was full" in note for note in result.notes)
    for field in ("mean", "logit_opacity", "sh0"):
        one, other = (getattr(r.scene, field) for r in (result, whole[1]))
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_an_overflowing_step_changes_nothing():
    """Parameters, moments, key and step count stay, bit for bit."""
    trainer = trainer_module.Trainer(PHOTOS, Gaussian3D, QUICK)
    trainer.advance()
    before = jax.tree.map(np.array, trainer.state.replace(key=None))
    state, report = compiled_step(
        trainer.state, (trainer.next_photo(),), trainer.recipe, capacity=Capacity(128, 2)
    )
    trainer.close()
    assert report.overflow[0].any and same(before, state.replace(key=None))


def test_killed_at_any_moment_it_resumes(whole, tmp_path):
    """SIGKILL leaves complete checkpoints only, and the resumed run ends as the unbroken one."""
    out = tmp_path / "killed"
    code = (
        "import sys, pathlib; sys.path[:0] = sys.argv[2:]\n"
        "from training_scenes import QUICK, dataset\n"
        "from xpr.train.fit import fit\n"
        "fit(dataset(), QUICK, out=pathlib.Path(sys.argv[1]))\n"
    )
    here = Path(__file__).parent
    environment = {**os.environ, "JAX_PLATFORMS": jax.default_backend()}
    command = [sys.executable, "-c", code, str(out), str(here), str(here.parent)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(out.glob("checkpoints/4*")) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not [p for p in (out / "checkpoints").iterdir() if p.name.isdigit()]:
        with pytest.raises(DataError, match="no complete checkpoint"):
            fit(PHOTOS, QUICK, resume=out)
        return
    assert same(fit(PHOTOS, QUICK, resume=out).scene, whole[1].scene)


def test_ctrl_c_saves_and_says_how_to_go_on(whole, tmp_path):
    """The step under way is finished, a checkpoint written, and the message names the folder."""
    out = tmp_path / "interrupted"

    def press(progress):
        if progress.step == 6:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=f"step 6 .*--resume {out}"):
        fit(PHOTOS, QUICK, out=out, progress=press)
    assert same(fit(PHOTOS, QUICK, resume=out).scene, whole[1].scene)


def test_a_run_is_not_overwritten(whole):
    """A folder with a run in it is refused for a new one."""
    with pytest.raises(UserError, match="--resume"):
        fit(PHOTOS, QUICK, out=whole[0])


def test_resuming_with_other_settings_is_refused(whole):
    """The setting and both values are named."""
    with pytest.raises(UserError, match=r"seed is 5, but the run in .* has 0"):
        fit(PHOTOS, dataclasses.replace(QUICK, seed=5), resume=whole[0])


def test_a_checkpoint_of_another_shape_or_version_is_refused(whole, tmp_path, monkeypatch):
    """One line names what differs."""
    state = trainer_module.TrainState.start(whole[1].scene, 200, jax.random.key(0))
    with Checkpoints(whole[0] / "checkpoints") as checkpoints:
        with pytest.raises(DataError, match=r"alive as bool\[96\], expected bool\[200"):
            checkpoints.restore(state)
        monkeypatch.setattr("xpr.train.checkpoint.VERSION", 99)
        with pytest.raises(DataError, match="of version 1, expected 99"):
            checkpoints.restore(state)


def test_random_background_trains_transparency():
    """RGBA photos train, and are judged over a named background."""
    photos = dataclasses.replace(dataset(channels=4), format="blender")
    result = fit(photos, dataclasses.replace(QUICK, steps=4))
    assert result.evaluation.background == 1.0 and np.isfinite(result.evaluation.psnr)


def test_a_run_of_two_views_a_step():
    """A batch is one compiled step, and a run of it is finite."""
    result = fit(PHOTOS, dataclasses.replace(QUICK, steps=4, batch=2))
    assert np.isfinite(result.evaluation.psnr) and result.compilations <= 3


def test_training_improves_the_held_out_views():
    """From a grey cloud, 400 steps gain at least 4 dB."""
    config = dataclasses.replace(QUICK, steps=400, save_every=1000)
    first = fit(PHOTOS, config, stop_after=1)
    assert fit(PHOTOS, config).evaluation.psnr > first.evaluation.psnr + 4


def test_black_colours_can_brighten():
    """Case 43: an all-black cloud trains; its colour has a gradient."""
    black = dataset(colors=np.zeros((30, 3), np.uint8))
    result = fit(black, dataclasses.replace(QUICK, steps=60, save_every=1000))
    assert (np.asarray(result.scene.sh0) * 0.282 + 0.5).max() > 0.05


def test_a_huge_scene_trains_as_its_small_copy_does():
    """Case 37: a scene 2009 times as large gives the same pictures, and no NaN."""
    config = dataclasses.replace(QUICK, steps=60, save_every=1000)
    small, large = (fit(dataset(scale=s), config) for s in (1.0, 2009.0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(large.scene))
    assert abs(small.evaluation.psnr - large.evaluation.psnr) < 1.0


@pytest.mark.parametrize(("points", "starts"), [(0, 48), (1, 1), (2, 2), (3, 3)])
def test_few_points_or_none(points, starts):
    """Case 41: one, two, three points train; none gives random ones, and says so."""
    config = dataclasses.replace(QUICK, steps=2)
    result = fit(dataset(points=points), config)
    assert result.evaluation.splats >= starts
    assert any("random points" in note for note in result.notes) == (points == 0)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.scene))


def test_no_training_views_is_an_error():
    """It is told in words."""
    with pytest.raises(UserError, match="no training views"):
        fit(dataclasses.replace(PHOTOS, train=()), QUICK)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"steps": 0}, "steps is 0"), ({"sh_degree": 7}, "sh_degree is 7"), ({"cap": 0}, "cap is 0")],
)
def test_settings_that_cannot_be_are_named(change, words):
    """Before anything is loaded or written."""
    with pytest.raises(UserError, match=words):
        fit(PHOTOS, dataclasses.replace(QUICK, **change))
