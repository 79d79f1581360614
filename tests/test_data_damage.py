"""No dataset, photo or run folder breaks its reader: it loads, or is refused in one line."""

import os
import struct

import pytest
from damage import damaged
from data_scenes import colmap, nerfstudio, photo
from hypothesis import HealthCheck, given, settings, strategies as st

from xpr import data
from xpr.data.photos import read_image
from xpr.errors import DataError, UserError
from xpr.train.config import TrainConfig

EXAMPLES = int(os.environ.get("XPR_DAMAGE", "40"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def colmap_binary(folder, *, focal=20.0, x=0.0):
    """A binary model with one camera, one photo and one point."""
    model = folder / "sparse" / "0"
    model.mkdir(parents=True)
    photo(folder / "images" / "a.png")
    camera = struct.pack("<QIiQQ4d", 1, 1, 1, 16, 12, focal, 21, 8, 6)
    image = struct.pack("<QI7dI", 1, 1, 1, 0, 0, 0, x, 0, 0, 1) + b"a.png\0" + bytes(8)
    point = struct.pack("<QQ3d3BdQ", 1, 1, x, 0, 5, 9, 8, 7, 0.5, 0)
    for name, content in {"cameras": camera, "images": image, "points3D": point}.items():
        (model / f"{name}.bin").write_bytes(content)
    return folder


def cases(folder):
    """Each damaged file with what reads it."""
    text, binary = colmap(folder / "text"), colmap_binary(folder / "binary")
    frames = nerfstudio(folder / "frames", k1=0.1, camera_model="OPENCV")
    picture = photo(folder / "a.jpg")
    TrainConfig().save(folder / "config.json")
    models = [*(text / "sparse/0").iterdir(), *(binary / "sparse/0").iterdir()]
    yield from ((file, lambda file=file: data.load(file.parents[2])) for file in sorted(models))
    yield frames, lambda: data.load(frames.parent)
    yield picture, lambda: read_image(picture, (16, 12))
    yield folder / "config.json", lambda: TrainConfig.load(folder / "config.json")


def test_a_damaged_file_is_read_or_refused(tmp_path):
    for file, read in cases(tmp_path):
        read()
        survives_damage(file, read)
        read()


def survives_damage(file, read):
    whole = file.read_bytes()

    @many
    @given(st.data())
    def check(draws):
        file.write_bytes(damaged(draws.draw, whole))
        try:
            read()
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000

    check()
    file.write_bytes(whole)


@pytest.mark.parametrize("odd", [{"focal": 1e300}, {"x": 1e300}])
def test_cameras_beyond_float32_are_refused_and_named(tmp_path, odd):
    with pytest.raises(DataError, match=r"camera of a\.png lies beyond"):
        data.load(colmap_binary(tmp_path / "a", **odd))


def test_a_name_that_no_file_can_have_is_a_missing_photo(tmp_path):
    frames = nerfstudio(tmp_path / "a")
    frames.write_text(frames.read_text().replace("images/1.png", f"images/{'9' * 5000}.png"))
    dataset = data.load(tmp_path / "a")
    assert len(dataset.views) == 2 and any("1 of 3 listed photos" in n for n in dataset.notes)
