"""Every writer leaves the old file whole when the disk is full, and nothing beside it.

A limit on the size of files stands for the disk: writes fail half way, as they would there.
"""

import numpy as np
import pytest
from damage import full_disk
from splat_tables import mild_table

from xpr import io, media
from xpr.train.config import TrainConfig
from xpr.train.curve import save_curve
from xpr.train.folder import RunFolder

LINES = [{"step": i, "loss": 1.0, "psnr": 20.0} for i in range(9)]
PICTURE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)


def rewind(path):
    RunFolder(path.parent).rewind(5)


WRITERS = {
    "config.json": TrainConfig().save,
    "metrics.jsonl": rewind,
    "summary.json": lambda path: RunFolder(path.parent).summarize({"notes": ["word"] * 50}),
    "loss.png": lambda path: save_curve(LINES, path),
    "a.png": lambda path: media.save_png(path, PICTURE),
    "a.mp4": lambda path: media.write_video(path, [PICTURE] * 3),
    **{f"a{end}": lambda path: io.write(mild_table(99, 0), path) for end in io.writable()},
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file_whole(tmp_path, name):
    path = tmp_path / name
    if name == "metrics.jsonl":
        for line in LINES:
            RunFolder(tmp_path).log(line)
    else:
        WRITERS[name](path)
    old = path.read_bytes()
    with full_disk(), pytest.raises(OSError, match=r"File too large|could not write"):
        WRITERS[name](path)
    assert path.read_bytes() == old and list(tmp_path.iterdir()) == [path]
