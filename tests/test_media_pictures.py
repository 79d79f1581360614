"""Pictures and videos: what is written is what was given."""

import subprocess

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from xpr import media
from xpr.errors import UserError


def test_floats_are_clipped_and_rounded_to_the_nearest():
    image = np.array([-1.0, 0.0, 0.4 / 255, 0.6 / 255, 254.5001 / 255, 1.0, 7.0])
    np.testing.assert_array_equal(media.to_uint8(image), [0, 0, 0, 1, 255, 255, 255])


def test_bytes_pass_through_unchanged():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    np.testing.assert_array_equal(media.to_uint8(image), image)


def test_non_finite_pixels_are_refused_with_their_number():
    with pytest.raises(UserError, match="2 non-finite"):
        media.to_uint8(np.array([0.0, np.nan, np.inf]))


def test_a_png_holds_the_bytes_of_the_image(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    media.save_png(tmp_path / "a.png", image)
    with Image.open(tmp_path / "a.png") as back:
        np.testing.assert_array_equal(np.asarray(back), image)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def decoded(path, height, width):
    """The frames of a video, by ffmpeg itself: imageio's reader leaves its pipes open."""
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    command = [ffmpeg, "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def gradient(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([x / width, y / height, 0.5 + 0 * x], axis=-1)


@pytest.mark.parametrize(("size", "even"), [((18, 22), (18, 22)), ((17, 23), (18, 24))])
def test_a_video_shows_the_frames_unscaled(tmp_path, size, even):
    frame = gradient(*size)
    count = media.write_video(tmp_path / "a.mp4", (frame for _ in range(3)), fps=10)
    back = decoded(tmp_path / "a.mp4", *even)
    assert count == len(back) == 3
    difference = np.abs(back[0][: size[0], : size[1]] / 255.0 - frame)
    assert np.mean(difference) < 0.02


def test_a_video_that_fails_leaves_nothing(tmp_path):
    frames = [np.zeros((8, 8, 3)), np.zeros((8, 10, 3))]
    with pytest.raises(UserError, match="frame 1 has shape"):
        media.write_video(tmp_path / "a.mp4", frames)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_fails_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: "false")
    frames = (np.zeros((64, 64, 3)) for _ in range(30))
    with pytest.raises(OSError, match="ffmpeg could not write"):
        media.write_video(tmp_path / "a.mp4", frames)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "frames", "words"),
    [("a.gif", [np.zeros((8, 8, 3))], r"\.mp4"), ("a.mp4", [], "at least one frame")],
)
def test_an_impossible_video_is_refused(tmp_path, name, frames, words):
    with pytest.raises(UserError, match=words):
        media.write_video(tmp_path / name, frames)


def test_side_by_side_shows_truth_then_render_then_error():
    truth, render = np.zeros((4, 6, 3)), np.zeros((4, 6, 3))
    render[0, 0] = media.ERROR_SCALE / 2
    render[0, 1] = media.ERROR_SCALE
    render[0, 2] = 1.0
    picture = media.side_by_side(truth, render)
    assert picture.shape == (4, 18, 3) and picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[:, :6], media.to_uint8(truth))
    np.testing.assert_array_equal(picture[:, 6:12], media.to_uint8(render))
    brightness = picture[:, 12:].sum(axis=-1)
    assert brightness[1, 1] < brightness[0, 0] < brightness[0, 1] == brightness[0, 2]


def test_side_by_side_refuses_other_sizes():
    with pytest.raises(UserError, match="expected"):
        media.side_by_side(np.zeros((4, 6, 3)), np.zeros((4, 5, 3)))


def test_a_contact_sheet_keeps_every_picture_whole():
    a, b, c = (np.full((h, w, 3), v, np.uint8) for h, w, v in [(4, 5, 1), (6, 3, 2), (2, 20, 3)])
    sheet = media.contact_sheet([[a, b], [], [c]])
    assert sheet.shape == (6 + media.GAP + 2, 20, 3)
    assert [np.sum(sheet[..., 0] == value) for value in (1, 2, 3)] == [20, 18, 40]
    assert np.sum(sheet[..., 0] == 255) == sheet[..., 0].size - 78
