"""COLMAP models: both forms, any ids, any names, and damage that is told, not read."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from data_scenes import colmap, colmap_text, nerfstudio, photo

from xpr.data import colmap_binary, load
from xpr.data.colmap import model_suffix, read_cloud, read_shots
from xpr.data.colmap_binary import PARAMETERS, read_cameras, read_images, read_points
from xpr.data.colmap_text import read_images as read_images_text
from xpr.errors import DataError

MODELS = ("opencv_bin", "opencv_txt", "opencv_fisheye_bin", "simple_radial_colmap4")


def binary_model(folder, names=("a.png", "b.png")):
    """The model of `colmap` with a keypoint each, written by pycolmap with rigs and frames."""
    pycolmap = pytest.importorskip("pycolmap")
    model = colmap(folder, names) / "sparse" / "0"
    images = model / "images.txt"
    images.write_text(images.read_text().replace("\n\n", "\n8 6 1\n"))
    (model / "points3D.txt").write_text("1 0 0 5 9 8 7 0.5 1 0 2 0\n")
    pycolmap.Reconstruction(str(model)).write_binary(str(model))
    for text in model.glob("*.txt"):
        text.unlink()
    return model


@pytest.mark.parametrize("name", MODELS)
def test_poses_and_points_are_those_that_pycolmap_reads(name, shared):
    """An independent reader of the same files, with and without rigs and frames."""
    pycolmap = pytest.importorskip("pycolmap")
    model = shared / "data" / "colmap_models" / name
    oracle = pycolmap.Reconstruction(str(model))
    suffix = model_suffix(model)
    read = read_images_text if suffix == ".txt" else read_images
    shots = read_shots(model, read(model / f"images{suffix}"))
    assert len(shots) == oracle.num_reg_images()
    for shot in shots:
        image = oracle.find_image_with_name(shot.name)
        np.testing.assert_allclose(shot.viewmat[:3], image.cam_from_world().matrix(), atol=1e-14)
    cloud, notes = read_cloud(model)
    ids = sorted(oracle.point3D_ids())
    assert notes == [] and len(cloud.positions) == len(ids)
    np.testing.assert_allclose(cloud.positions, [oracle.point3D(i).xyz for i in ids], rtol=1e-6)
    np.testing.assert_array_equal(cloud.colors, [oracle.point3D(i).color for i in ids])


def test_parameter_counts_are_colmaps_own():
    pycolmap = pytest.importorskip("pycolmap")
    for model_id, (name, count) in enumerate(PARAMETERS.items()):
        kind = pycolmap.CameraModelId(model_id)
        camera = pycolmap.Camera.create_from_model_id(1, kind, 10.0, 20, 30)
        assert (kind.name, len(camera.params)) == (name, count)


def test_both_forms_give_the_same_dataset(tmp_path):
    text = load(colmap(tmp_path / "text"))
    binary_model(tmp_path / "binary")
    binary = load(tmp_path / "binary")
    assert [v.name for v in text.views] == [v.name for v in binary.views]
    for a, b in zip(text.views, binary.views, strict=True):
        np.testing.assert_array_equal(a.camera.viewmat, b.camera.viewmat)
        np.testing.assert_array_equal(a.camera.K, b.camera.K)
    np.testing.assert_array_equal(text.points.positions, binary.points.positions)


def test_binary_wins_over_text(tmp_path):
    model = binary_model(tmp_path)
    (model / "cameras.txt").write_text("nonsense")
    (model / "images.txt").write_text("nonsense")
    assert len(load(tmp_path).views) == 2


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_text_may_hold_comments_and_blank_lines(ending, tmp_path):
    model = colmap(tmp_path) / "sparse" / "0"
    for file in model.glob("*.txt"):
        lines = ["# a comment", *file.read_text().split("\n"), "# another", "", ""]
        file.write_bytes(ending.join(lines).encode())
    dataset = load(tmp_path)
    assert [v.name for v in dataset.views] == ["a.png", "b.png"]
    assert len(dataset.points.positions) == 1


def test_the_last_keypoint_line_may_be_absent(tmp_path):
    """pycolmap drops that image in silence."""
    file = colmap(tmp_path) / "sparse" / "0" / "images.txt"
    file.write_text(file.read_text().rstrip("\n"))
    assert len(load(tmp_path).views) == 2


@pytest.mark.parametrize("form", ["text", "binary"])
def test_names_may_hold_spaces_and_folders(form, tmp_path):
    names = ("a b (2).jpg", "cam1/001.JPG")
    if form == "binary":
        colmap(tmp_path, names)
        rewrite_names(binary_model(tmp_path, ("x.jpg", "y.jpg")) / "images.bin", names)
    else:
        colmap(tmp_path, names)
    views = load(tmp_path).views
    assert tuple(view.name for view in views) == names
    assert all(view.image().shape == (12, 16, 3) for view in views)


def rewrite_names(file, names):
    data = file.read_bytes()
    for old, new in zip((b"x.jpg", b"y.jpg"), names, strict=True):
        data = data.replace(old, new.encode())
    file.write_bytes(data)


def test_each_image_has_its_own_camera_whatever_the_ids(tmp_path):
    photo(tmp_path / "images" / "small.png", (16, 12))
    photo(tmp_path / "images" / "large.png", (32, 20))
    colmap_text(
        tmp_path,
        cameras="42 PINHOLE 32 20 40 41 16 10\n7 SIMPLE_RADIAL 16 12 20 8 6 -0.1\n",
        images=[(900, 42, "large.png"), (3, 7, "small.png")],
    )
    large, small = load(tmp_path).views
    assert (large.camera.width, small.camera.width) == (32, 16)
    assert (large.camera.K[0, 0], small.camera.K[0, 0]) == (40, 20)
    assert large.camera.distortion is None and small.camera.distortion[0] == np.float32(-0.1)


def test_photos_are_matched_by_name_not_by_order(tmp_path):
    for name, color in (("a.png", (255, 0, 0)), ("b.png", (0, 0, 255))):
        photo(tmp_path / "images" / name, color=color)
    model = colmap_text(tmp_path, cameras="1 PINHOLE 16 12 20 21 8 6\n", images=[])
    (model / "images.txt").write_text("1 1 0 0 0 9 0 0 1 b.png\n\n2 1 0 0 0 4 0 0 1 a.png\n\n")
    a, b = load(tmp_path).views
    assert (a.camera.viewmat[0, 3], b.camera.viewmat[0, 3]) == (4, 9)
    assert tuple(a.image()[0, 0]) == (255, 0, 0) and tuple(b.image()[0, 0]) == (0, 0, 255)


@pytest.mark.parametrize("where", ["sparse/0", "sparse", "."])
def test_the_model_may_lie_in_three_places(where, tmp_path):
    model = colmap(tmp_path / "a") / "sparse" / "0"
    target = tmp_path / "b" / where
    target.mkdir(parents=True)
    for file in model.iterdir():
        file.rename(target / file.name)
    (tmp_path / "a" / "images").rename(tmp_path / "b" / "images")
    assert len(load(tmp_path / "b").views) == 2
    assert len(load(target).views) == 2


def test_a_missing_points_file_is_said_loudly(tmp_path):
    (colmap(tmp_path) / "sparse" / "0" / "points3D.txt").unlink()
    dataset = load(tmp_path)
    assert dataset.points is None
    assert any("training starts from random points" in note for note in dataset.notes)


def test_further_models_are_named(tmp_path):
    model = colmap(tmp_path) / "sparse" / "0"
    shutil.copytree(model, model.parent / "1")
    assert any("also holds the models 1" in note for note in load(tmp_path).notes)


def test_a_text_file_called_images_makes_no_model(tmp_path):
    nerfstudio(tmp_path)
    (tmp_path / "images.txt").write_text("my favourite photos")
    assert load(tmp_path).format == "nerfstudio"


def test_photos_outside_the_model_are_counted(tmp_path):
    photo(colmap(tmp_path) / "images" / "unregistered.png")
    assert any("1 photos are not in the model" in note for note in load(tmp_path).notes)


def test_points_that_are_not_finite_are_dropped_with_a_count(tmp_path):
    file = colmap(tmp_path) / "sparse" / "0" / "points3D.txt"
    file.write_text("1 0 0 5 9 8 7 0.5\n2 nan 0 5 9 8 7 0.5\n3 0 inf 5 9 8 7 0.5\n")
    dataset = load(tmp_path)
    assert len(dataset.points.positions) == 1
    assert any("2 of 3 points are not finite" in note for note in dataset.notes)


def test_every_binary_layout_has_explicit_widths():
    """Case 53: native `L` has 4 bytes on Windows; little-endian `<` fixes order and widths."""
    source = Path(colmap_binary.__file__).read_text()
    layouts = [re.sub(r"{.*?}", "", text) for text in re.findall(r'take\(f?"([^"]*)"', source)]
    assert len(layouts) >= 3 and all(re.fullmatch(r"<[0-9BIQid]+", text) for text in layouts)


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
def test_a_binary_file_cut_anywhere_is_an_error_that_names_it(file, tmp_path):
    """pycolmap makes up cameras from what lies in memory."""
    path = binary_model(tmp_path) / file
    read = {"cameras": read_cameras, "images": read_images, "points3D": read_points}[path.stem]
    whole = path.read_bytes()
    assert read(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=rf"{path.name}.*(cut short|is empty)"):
            read(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="1 bytes after"):
        read(path)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("cameras.txt", "1 PINHOLE 16 twelve 20 21 8 6\n", r"cameras.txt, line 1"),
        ("cameras.txt", "1 PINHOLE 16 12 20 21 8\n", r"camera 1: PINHOLE with 3 parameters"),
        ("cameras.txt", "1 OMNI 16 12 20 21 8 6 0.1\n", r"camera 1.*OMNI.*image_undistorter"),
        ("cameras.txt", "9 PINHOLE 16 12 20 21 8 6\n", r"uses camera 1.*it has 9"),
        ("images.txt", "1 1 0 0 0 0 0 0 1\n", r"images.txt, line 1"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 a.png\n1 1 0 0 0 0 0 0 1 b.png\n", r"line 2.*keypoints"),
        ("images.txt", "1 0 0 0 0 0 0 0 1 a.png\n\n", r"image 1 \(a.png\)"),
        ("images.txt", "1 1 0 0 0 nan 0 0 1 a.png\n\n", r"image 1 \(a.png\)"),
        ("images.txt", "", r"at least one view"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 ../../a.png\n\n", r"leads out"),
        ("points3D.txt", "1 0 0\n", r"points3D.txt, line 1"),
        ("points3D.txt", "1 0 0 5 9 8 777 0.5\n", r"points3D.txt, line 1"),
    ],
)
def test_a_bad_text_file_is_told_in_one_line(file, text, expected, tmp_path):
    (colmap(tmp_path) / "sparse" / "0" / file).write_text(text)
    with pytest.raises(DataError, match=expected) as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


def test_half_a_model_is_named(tmp_path):
    (colmap(tmp_path) / "sparse" / "0" / "images.txt").unlink()
    with pytest.raises(DataError, match=r"has cameras\.txt; expected cameras and images"):
        load(tmp_path)
