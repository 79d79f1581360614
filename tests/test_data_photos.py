"""Photos are found under any spelling, measured by their headers, resized without halos."""

import struct
import zlib

import numpy as np
import pytest
from data_scenes import photo
from PIL import Image

from xpr.data.photos import PhotoFolder, image_size, read_image, read_mask, shrink
from xpr.errors import DataError


@pytest.mark.parametrize(
    ("listed", "on_disk"),
    [
        ("./train/r_0", "train/r_0.png"),
        ("train/r_0", "train/r_0.jpg"),
        ("train/0001.png", "train/0001.png.png"),
        ("train/0001.png.png", "train/0001.png"),
        ("images/x.jpg", "images/x.JPG"),
        ("images/x.png", "images/x.jpg"),
        ("images/a b (2).jpg", "images/a b (2).jpg"),
        ("images/cam1/001.JPG", "images/cam1/001.JPG"),
        ("images\\cam1\\001.jpg", "images/cam1/001.jpg"),
        ("images/v1.5", "images/v1.5.png"),
    ],
)
def test_a_photo_is_found_under_its_spelling_on_disk(listed, on_disk, tmp_path):
    expected = photo(tmp_path / on_disk)
    found = PhotoFolder(tmp_path).find(listed)
    assert found is not None and found.path == expected


@pytest.mark.parametrize("listed", ["images/v1.5", "images/x.txt"])
def test_a_dot_in_a_name_is_no_extension(listed, tmp_path):
    photo(tmp_path / "images" / "v1.png")
    photo(tmp_path / "images" / "x.png")
    assert PhotoFolder(tmp_path).find(listed) is None


@pytest.mark.parametrize("listed", ["../x.png", "images/../../x.png", "/etc/x.png", "."])
def test_a_name_that_leaves_the_folder_is_refused(listed, tmp_path):
    photo(tmp_path / "x.png")
    with pytest.raises(DataError, match="leads out"):
        PhotoFolder(tmp_path / "set").find(listed)


def test_an_absolute_name_inside_the_folder_is_welcome(tmp_path):
    path = photo(tmp_path / "images" / "x.png")
    assert PhotoFolder(tmp_path).find(str(path)).path == path


def test_downscale_takes_the_ready_made_folder(tmp_path):
    photo(tmp_path / "images" / "x.png", (33, 20))
    photo(tmp_path / "images_2" / "x.jpg", (16, 10))
    found = PhotoFolder(tmp_path, 2).find("./images/x.png")
    assert (found.source, found.delivered, found.full) == ("images_2", (16, 10), (32, 20))


def test_downscale_resizes_where_there_is_no_such_folder(tmp_path):
    photo(tmp_path / "images" / "x.png", (33, 20))
    found = PhotoFolder(tmp_path, 2).find("images/x.png")
    assert (found.source, found.delivered) == ("images resized by 2", (17, 10))


def test_sizes_round_half_up_and_never_vanish():
    assert shrink((5, 1), 2) == (3, 1) and shrink((7, 9), 4) == (2, 2)
    assert shrink((1, 1), 8) == (1, 1)


def test_resizing_averages_boxes(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    expected = pixels.reshape(2, 2, 3, 2, 3).mean(axis=(1, 3))
    assert np.abs(read_image(tmp_path / "x.png", (3, 2)) - expected).max() <= 1


def test_transparent_pixels_lend_no_colour(tmp_path):
    """Opaque red beside invisible green is red at half coverage: RGBA is premultiplied first."""
    pixels = np.array([[[255, 0, 0, 255], [0, 255, 0, 0]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    red, green, blue, alpha = read_image(tmp_path / "x.png", (1, 1))[0, 0]
    assert (red, green, blue) == (255, 0, 0) and abs(int(alpha) - 128) <= 1


def test_alpha_is_straight_and_untouched_at_full_size(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (5, 4, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    np.testing.assert_array_equal(read_image(tmp_path / "x.png", (4, 5)), pixels)


@pytest.mark.parametrize(("mode", "channels"), [("L", 3), ("P", 3), ("1", 3), ("LA", 4)])
def test_every_kind_of_file_becomes_rgb_or_rgba(mode, channels, tmp_path):
    Image.new(mode, (3, 2)).save(tmp_path / "x.png")
    image = read_image(tmp_path / "x.png", (3, 2))
    assert image.shape == (2, 3, channels) and image.dtype == np.uint8


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path):
    Image.fromarray(np.array([[0, 32896, 65535]], np.uint16)).save(tmp_path / "x.png")
    assert read_image(tmp_path / "x.png", (3, 1))[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize("white", [1, 255])
def test_black_in_a_mask_is_ignored(white, tmp_path):
    Image.fromarray(np.array([[0, white, white, 0]], np.uint8)).save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png", (4, 1)).tolist() == [[False, True, True, False]]


def test_a_black_mask_ignores_everything(tmp_path):
    Image.new("L", (4, 2)).save(tmp_path / "m.png")
    assert not read_mask(tmp_path / "m.png", (2, 1)).any()


def test_a_shrunk_mask_keeps_what_is_mostly_kept(tmp_path):
    mask = np.array([[0, 255, 255, 0, 0, 0], [255, 255, 0, 0, 0, 0]], np.uint8)
    Image.fromarray(mask).save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png", (3, 1)).tolist() == [[True, False, False]]


@pytest.mark.parametrize("read", [image_size, lambda p: read_image(p, (2, 2))])
def test_a_file_that_is_no_image_is_named(read, tmp_path):
    (tmp_path / "x.png").write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image"):
        read(tmp_path / "x.png")


@pytest.mark.parametrize(
    "read", [image_size, lambda p: read_image(p, (2, 2)), lambda p: read_mask(p, (2, 2))]
)
def test_a_picture_made_to_fill_the_memory_is_refused(read, tmp_path):
    """Its header, with a sound checksum, declares 36 million pixels in a few bytes."""
    data = bytearray(photo(tmp_path / "a.png").read_bytes())
    data[16:24] = struct.pack(">II", 6000, 6000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(DataError, match=r"declares 36,000,000 pixels in \d+ bytes"):
        read(tmp_path / "a.png")


def test_a_photo_cut_short_is_named_when_decoded(tmp_path):
    whole = photo(tmp_path / "x.jpg", (64, 64)).read_bytes()
    (tmp_path / "x.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"x\.jpg"):
        read_image(tmp_path / "x.jpg", (64, 64))
