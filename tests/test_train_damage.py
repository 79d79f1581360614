"""No run folder breaks what reads it: it is read, or refused in one line and left as it was."""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from damage import damaged, full_disk
from hypothesis import HealthCheck, given, settings, strategies as st
from training_scenes import QUICK, dataset

from xpr import data, io, methods
from xpr.errors import DataError, UserError
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train.checkpoint import Checkpoints
from xpr.train.config import TrainConfig
from xpr.train.fit import Run, fit
from xpr.train.folder import RunFolder
from xpr.train.seal import seal
from xpr.train.trainer import Trainer

EXAMPLES = int(os.environ.get("XPR_DAMAGE", "40"))
PHOTOS = dataset(3)
CONFIG = dataclasses.replace(QUICK, cap=32, sh_degree=0)
many = settings(
    max_examples=max(EXAMPLES // 2, 1), deadline=None, suppress_health_check=list(HealthCheck)
)


def begin(path, config=CONFIG):
    """A run folder as `xpr train` leaves it at its first checkpoint, and its trainer."""
    folder, trainer = RunFolder.start(path, config), Trainer(PHOTOS, Gaussian3D, config)
    Run(trainer, config, folder).save()
    folder.log({"step": 0, "loss": 0.5, "psnr": float("nan")})
    io.save(trainer.scene(), folder.splats)
    return folder, trainer


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder, trainer = begin(tmp_path_factory.mktemp("runs") / "run")
    yield folder, trainer
    trainer.close()


def resume(folder, trainer):
    """What `xpr train --resume` reads, eval, render, info and export among it."""
    config = TrainConfig.load(folder.config)
    config.check()
    io.load(folder.splats, methods.load(config.method))
    again = RunFolder.reopen(folder.path, config)
    with Checkpoints.of_run(again.checkpoints) as checkpoints:
        checkpoints.check_cap(config.cap)
    Run(trainer, config, again).restore()


def contents(folder):
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_a_damaged_run_is_read_or_refused(begun):
    folder, trainer = begun
    resume(*begun)
    whole = contents(folder)
    # The reader of splats has tests of its own.
    files = sorted(whole.keys() - {folder.splats})

    @many
    @given(st.data())
    def check(draws):
        file = draws.draw(st.sampled_from(files))
        if draws.draw(st.integers(0, 9)):
            file.write_bytes(damaged(draws.draw, whole[file]))
        else:
            file.unlink()
        before = contents(folder)
        try:
            resume(folder, trainer)
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            assert contents(folder) == before
        finally:
            file.write_bytes(whole[file])

    check()
    resume(*begun)


def change(folder, tmp_path, **values):
    """A copy of the run whose checkpoint has other values beside its state."""
    shutil.copytree(folder.path, tmp_path / "run")
    (meta,) = (tmp_path / "run/checkpoints/0/meta").glob("metadata")
    saved = json.loads(meta.read_text())
    saved["beside"] |= values
    meta.write_text(json.dumps(saved))
    seal(tmp_path / "run/checkpoints/0")
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"capacity": {"visible": 2**40, "intersections": 1}},
            "visible is 1099511627776, expected",
        ),
        ({"capacity": {"visible": 8}}, "intersections is missing"),
        ({"watch": 3}, "watch is 3, expected an object"),
        ({"seconds": -1}, "seconds is -1, expected a number from 0 up"),
        ({"notes": [1]}, "notes is .1., expected a list of strings"),
        ({"feed": {"seed": 0, "views": 2, "order": {"next_index": -4}}}, "expected a next_index"),
        ({"feed": {"seed": 0, "views": 2, "order": []}}, "expected a next_index"),
    ],
)
def test_what_stands_beside_the_state_is_checked(begun, tmp_path, values, words):
    with pytest.raises(UserError, match=words):
        resume(change(begun[0], tmp_path, **values), begun[1])


def test_a_flipped_bit_of_the_state_is_seen(begun, tmp_path):
    """The numbers would be read and trained on without a word."""
    folder = change(begun[0], tmp_path)
    largest = max((folder.checkpoints / "0/state").rglob("*"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    with pytest.raises(DataError, match=r"0 is damaged: the checksum of state/.* differs"):
        resume(folder, begun[1])


def test_damage_in_what_orbax_tells_of_a_checkpoint_is_refused(begun, tmp_path):
    folder = change(begun[0], tmp_path)
    (told,) = folder.checkpoints.glob("0/_CHECKPOINT_METADATA")
    told.write_text(re.sub(r"\d{9,}", "0.5", told.read_text()))
    with pytest.raises(DataError, match="holds a damaged checkpoint: ValueError"):
        resume(folder, begun[1])


@pytest.mark.parametrize("cap", [10**9, 33])
def test_a_cap_that_is_not_the_checkpoints_is_refused_before_it_is_reserved(begun, cap, tmp_path):
    folder = change(begun[0], tmp_path)
    config = dataclasses.replace(CONFIG, cap=cap)
    config.save(folder.config)
    with pytest.raises(DataError, match=rf"alive as bool\[32\], expected bool\[{cap}\]"):
        fit(PHOTOS, config, resume=folder.path)


def test_a_run_without_checkpoints_is_refused_and_gets_none(tmp_path):
    RunFolder.start(tmp_path / "run", CONFIG)
    with pytest.raises(DataError, match="no checkpoint"):
        fit(PHOTOS, CONFIG, resume=tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.json"]


def test_a_run_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before(tmp_path):
    folder, trainer = begin(tmp_path / "run")
    trainer.state = trainer.state.replace(step=trainer.state.step + 1)
    Run(trainer, CONFIG, folder).save()
    (folder.checkpoints / "1/meta/metadata").write_bytes(b"{")
    with pytest.raises(DataError, match=r"1 is damaged: .* Remove this folder"):
        resume(folder, trainer)
    shutil.rmtree(folder.checkpoints / "1")
    resume(folder, trainer)
    assert trainer.done == 0
    trainer.close()


def test_a_full_disk_leaves_the_checkpoints_before_whole(tmp_path):
    folder, trainer = begin(tmp_path / "run")
    trainer.state = trainer.state.replace(step=trainer.state.step + 1)
    with full_disk(), pytest.raises(OSError, match=r"step 1 cannot be written: .* before it are"):
        Run(trainer, CONFIG, folder).save()
    resume(folder, trainer)
    assert trainer.done == 0 and [p.name for p in folder.checkpoints.iterdir()] == ["0"]
    trainer.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{\n", "line 1 is no readable JSON"),
        ('{"step": 1, "loss": 1}\n', "line 1.psnr is missing"),
        ('{"step": 1, "loss": 1, "psnr": 1}\n{"step": -1}\n', "line 2.step is -1"),
        ("[]\n", "line 1 is .., expected an object"),
        ("\udcff\n", "line 1 is no readable JSON"),
    ],
)
def test_damaged_metrics_are_refused_by_line(tmp_path, text, words):
    folder = RunFolder(tmp_path)
    folder.metrics.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=words):
        folder.logged()


@pytest.mark.parametrize(
    "change",
    [
        {"noise": float("nan")},
        {"ssim_weight": 1.5},
        {"steps": 2**31},
        {"min_opacity": float("inf")},
    ],
)
def test_settings_beyond_what_can_be_are_named(change):
    (name,) = change
    with pytest.raises(UserError, match=f"{name} is .*, expected at least"):
        dataclasses.replace(CONFIG, **change).check()


def test_the_home_of_nobody_is_an_ordinary_name():
    with pytest.raises(DataError, match="does not exist"):
        data.load(Path("~nobody-of-this-name/photos"))
