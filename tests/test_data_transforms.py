"""transforms.json in all its dialects, and Blender's three files."""

import json

import numpy as np
import plyfile
import pytest
from data_scenes import nerfstudio, photo, pose, transforms
from PIL import Image

from xpr.data import load
from xpr.errors import DataError
from xpr.lens import (
    Equirectangular,
    Fov,
    OpenCV,
    OpenCVFisheye,
    Pinhole,
    RadTanThinPrismFisheye,
)


def rewrite(file, change):
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    return file


def test_opengl_poses_become_opencv(tmp_path):
    """A point up, right and ahead of a camera at (0, 0, 3) that looks along -z."""
    camera = load(nerfstudio(tmp_path, 1)).views[0].camera
    right, up, ahead = 0.5, 0.25, 2.0
    np.testing.assert_allclose(
        np.asarray(camera.viewmat) @ [right, up, 3 - ahead, 1], [right, -up, ahead, 1], atol=1e-7
    )


def test_a_folder_and_its_file_load_alike(tmp_path):
    file = nerfstudio(tmp_path)
    assert [v.name for v in load(tmp_path).views] == [v.name for v in load(file).views]


def test_values_of_a_frame_win_over_the_root(tmp_path):
    file = nerfstudio(tmp_path, 2, k1=0.1, camera_model="OPENCV")
    photo(tmp_path / "images" / "1.png", (32, 20))
    own = {"fl_x": 50.0, "fl_y": 51.0, "cx": 15.0, "cy": 9.0, "w": 32, "h": 20}
    own |= {"camera_model": "OPENCV_FISHEYE", "k1": 0.3}
    rewrite(file, lambda values: values["frames"][1].update(own))
    root, frame = (view.camera for view in load(file).views)
    assert root.lens == OpenCV() and root.distortion[0] == np.float32(0.1)
    assert frame.lens == OpenCVFisheye() and frame.distortion[0] == np.float32(0.3)
    expected = [[50, 0, 15], [0, 51, 9], [0, 0, 1]]
    np.testing.assert_array_equal(frame.K, np.float32(expected))


def test_intrinsics_may_stand_in_the_frames_alone(tmp_path):
    photo(tmp_path / "images" / "0.png", (16, 12))
    frame = {"file_path": "images/0.png", "transform_matrix": pose(), "fl_x": 20, "w": 16, "h": 12}
    camera = load(transforms(tmp_path, [frame])).views[0].camera
    assert (camera.K[0, 0], camera.K[1, 1], camera.K[0, 2]) == (20, 20, 8)


def test_a_frames_own_angle_wins_over_the_roots_focal_length(tmp_path):
    file = nerfstudio(tmp_path, 1)
    rewrite(file, lambda v: v["frames"][0].update(camera_angle_x=np.pi / 2))
    assert load(file).views[0].camera.K[0, 0] == pytest.approx(8)


@pytest.mark.parametrize(
    ("root", "lens"),
    [
        ({}, Pinhole()),
        ({"k1": 0.0, "k2": 0.0}, Pinhole()),
        ({"k1": 0.05, "p1": 0.001}, OpenCV()),
        ({"k1": 0.05, "camera_model": "SIMPLE_RADIAL"}, OpenCV()),
        ({"k1": 0.05, "camera_model": "PINHOLE"}, OpenCV()),
        ({"k4": 0.05, "camera_model": "FULL_OPENCV"}, OpenCV()),
        ({"camera_model": "OPENCV_FISHEYE"}, OpenCVFisheye()),
        ({"k1": 0.05, "is_fisheye": True}, OpenCVFisheye()),
        ({"camera_model": "SIMPLE_PINHOLE"}, Pinhole()),
        ({"camera_model": "EQUIRECTANGULAR"}, Equirectangular()),
        ({"camera_model": "FOV", "omega": 0.9}, Fov()),
        (
            {"camera_model": "FISHEYE624", "distortion_params": [0.01] * 12},
            RadTanThinPrismFisheye(),
        ),
    ],
)
def test_the_lens_follows_the_model_and_the_coefficients(root, lens, tmp_path):
    assert load(nerfstudio(tmp_path, 1, **root)).views[0].camera.lens == lens


def test_coefficients_keep_their_names(tmp_path):
    root = {"k1": 0.1, "k2": 0.2, "k3": 0.3, "p1": 0.4, "p2": 0.5}
    camera = load(nerfstudio(tmp_path, 1, **root)).views[0].camera
    named = dict(zip(OpenCV.coefficients, np.asarray(camera.distortion), strict=True))
    assert {k: float(v) for k, v in named.items() if v} == pytest.approx(root)


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ({"camera_model": "VR180_L"}, r"frame 0 .*VR180_L.*image_undistorter"),
        ({"camera_model": "FISHEYE624"}, r"FISHEYE624.*12 numbers k0"),
        ({"latlong": True}, r"latlong"),
        ({"k4": 0.1}, r"OPENCV has k4"),
        ({"p1": 0.1, "camera_model": "OPENCV_FISHEYE"}, r"OPENCV_FISHEYE has p1"),
        ({"fl_x": "wide"}, r"fl_x is 'wide'"),
        ({"fl_x": float("nan")}, r"fl_x is nan"),
        ({"fl_x": -20.0}, r"positive focal"),
        ({"w": 0}, r"positive focal lengths and sizes"),
        ({"ply_file_path": "../cloud.ply"}, r"leads out"),
        ({"train_filenames": "images"}, r"train_filenames is 'images'"),
    ],
)
def test_a_bad_root_value_is_told_in_one_line(root, expected, tmp_path):
    file = nerfstudio(tmp_path, 1, **root)
    with pytest.raises(DataError, match=expected) as error:
        load(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "matrix",
    [
        None,
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        np.eye(4)[:3].tolist(),
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0]],
        (np.eye(4) * float("nan")).tolist(),
        np.diag([2, 2, 2, 1]).tolist(),
        np.diag([1, 1, -1, 1]).tolist(),
        np.diag([1, 1, 1, 2]).tolist(),
        "identity",
    ],
)
def test_a_matrix_that_is_no_pose_is_named_with_its_frame(matrix, tmp_path):
    file = nerfstudio(tmp_path, 2)
    rewrite(file, lambda values: values["frames"][1].update(transform_matrix=matrix))
    with pytest.raises(DataError, match=r"transforms\.json, frame 1 \(images/1\.png\)"):
        load(file)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"frames": 3}', '{"frames": []}', '{"frames": [3]}', "\x80", "[" * 99999],
)
def test_a_malformed_file_is_named(text, tmp_path):
    (tmp_path / "transforms.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"transforms\.json") as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    file = nerfstudio(tmp_path)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert len(load(file).views) == 3


def test_a_frame_without_a_path_is_named(tmp_path):
    file = nerfstudio(tmp_path)
    rewrite(file, lambda values: values["frames"][2].pop("file_path"))
    with pytest.raises(DataError, match=r"frame 2: file_path is None"):
        load(file)


def test_frames_without_a_file_are_skipped_counted_and_named(tmp_path):
    file = nerfstudio(tmp_path)
    (tmp_path / "images" / "1.png").unlink()
    dataset = load(file)
    assert len(dataset.views) == 2
    assert any(
        "1 of 3 listed photos have no file" in n and "images/1.png" in n for n in dataset.notes
    )


def test_no_photo_at_all_is_an_error_that_says_where_it_looked(tmp_path):
    file = nerfstudio(tmp_path)
    (tmp_path / "images").rename(tmp_path / "images_4")
    with pytest.raises(DataError, match=r"none of the 3.*images_2 and images.*--downscale 4"):
        load(file, downscale=2)


def test_a_frame_listed_twice_counts_once(tmp_path):
    file = nerfstudio(tmp_path)
    rewrite(file, lambda values: values["frames"].append(values["frames"][0]))
    dataset = load(file)
    assert len(dataset.views) == 3
    assert any("1 frames repeat a name" in note for note in dataset.notes)


def test_a_missing_size_is_read_from_the_photo(tmp_path):
    file = nerfstudio(tmp_path, 1, size=(16, 12))
    rewrite(file, lambda values: [values.pop(key) for key in ("w", "h", "cx", "cy")])
    camera = load(file).views[0].camera
    assert (camera.width, camera.height) == (16, 12)
    assert (camera.K[0, 2], camera.K[1, 2]) == (8, 6)


def test_photos_of_another_size_scale_the_intrinsics_and_say_so(tmp_path):
    file = nerfstudio(tmp_path, 1, size=(33, 20), w=66, h=39, fl_x=100.0, cx=33.0)
    dataset = load(file)
    camera = dataset.views[0].camera
    assert (camera.width, camera.height) == (33, 20)
    assert camera.K[0, 0] == 50 and camera.K[1, 1] == pytest.approx(21 * 20 / 39)
    assert any("33x20 where the camera says 66x39" in note for note in dataset.notes)


def test_downscale_scales_camera_and_photo_together(tmp_path):
    view = load(nerfstudio(tmp_path, 1, size=(33, 21)), downscale=2).views[0]
    assert view.image().shape == (11, 17, 3)
    assert (view.camera.width, view.camera.height) == (17, 11)
    assert view.camera.K[0, 0] == pytest.approx(20 * 17 / 33)
    assert view.camera.K[1, 1] == pytest.approx(21 * 11 / 21)


def test_a_ready_made_smaller_folder_is_used_and_named(tmp_path):
    file = nerfstudio(tmp_path, 1, size=(33, 21))
    photo(tmp_path / "images_2" / "0.jpg", (16, 10))
    dataset = load(file, downscale=2)
    assert dataset.image_source == "images_2" and not any(
        "where the camera" in n for n in dataset.notes
    )
    assert dataset.views[0].camera.K[0, 0] == pytest.approx(20 * 16 / 33)


def test_masks_come_at_the_photos_size(tmp_path):
    file = nerfstudio(tmp_path, 2, size=(4, 2))
    mask = np.repeat(np.array([[0, 0, 255, 255]], np.uint8), 2, axis=0)
    (tmp_path / "masks").mkdir()
    Image.fromarray(mask).save(tmp_path / "masks" / "0.png")

    def name_masks(values):
        for i, frame in enumerate(values["frames"]):
            frame["mask_path"] = f"masks/{i}.png"

    dataset = load(rewrite(file, name_masks), downscale=2)
    assert dataset.views[0].mask().tolist() == [[False, True]]
    assert dataset.views[1].mask() is None
    assert any("1 masks have no file" in n and "masks/1.png" in n for n in dataset.notes)


def test_every_eighth_name_sorted_photo_is_held_out(tmp_path):
    file = nerfstudio(tmp_path, 17)
    rewrite(file, lambda values: values["frames"].reverse())
    dataset = load(file)
    names = [view.name for view in dataset.views]
    assert names == sorted(names)
    assert dataset.test == (0, 8, 16) and len(dataset.train) == 14
    assert dataset.split == "every 8th of 17 name-sorted images"


def test_a_lone_photo_trains(tmp_path):
    dataset = load(nerfstudio(tmp_path, 1))
    assert (dataset.train, dataset.test) == ((0,), ()) and dataset.extent == 1.0


def test_the_files_own_split_is_kept(tmp_path):
    lists = {
        "train_filenames": ["./images/2.png", "images/0.png"],
        "test_filenames": ["images/1.png"],
    }
    dataset = load(nerfstudio(tmp_path, 4, **lists))
    assert (dataset.train, dataset.test) == ((0, 2), (1,))
    assert "train_filenames" in dataset.split and "test_filenames" in dataset.split
    assert any("1 photos are in neither split" in note for note in dataset.notes)


def test_extent_is_the_reach_of_the_training_cameras(tmp_path):
    """Cameras at x = 1, 2 train, the one at 0 is held out: mean 1.5, reach 0.5."""
    assert load(nerfstudio(tmp_path, 3)).extent == pytest.approx(1.1 * 0.5, rel=1e-6)


def test_the_point_cloud_lies_where_the_photos_see_it(tmp_path):
    """applied_transform was applied to both already: neither is moved again."""
    cloud = np.zeros(2, [(n, "f8") for n in "xyz"] + [(n, "u1") for n in ("red", "green", "blue")])
    cloud["x"], cloud["z"], cloud["green"] = [0.0, 0.5], [1.0, np.nan], [7, 8]
    file = nerfstudio(
        tmp_path, 1, ply_file_path="cloud.ply", applied_transform=np.eye(4)[[1, 2, 0]].tolist()
    )
    plyfile.PlyData([plyfile.PlyElement.describe(cloud, "vertex")]).write(tmp_path / "cloud.ply")
    dataset = load(file)
    assert dataset.points.colors.tolist() == [[0, 7, 0]]
    assert any("1 of 2 points are not finite" in note for note in dataset.notes)
    camera = dataset.views[0].camera
    pixel = camera.to_pixel(camera.to_camera(dataset.points.positions[0]))
    np.testing.assert_allclose(pixel, [8, 6], atol=1e-5)


@pytest.mark.parametrize("name", [None, "absent.ply"])
def test_a_missing_cloud_is_said_loudly(name, tmp_path):
    dataset = load(nerfstudio(tmp_path, 1, ply_file_path=name))
    assert dataset.points is None
    assert any("training starts from random points" in note for note in dataset.notes)


def test_a_cloud_that_is_no_ply_is_named(tmp_path):
    (tmp_path / "cloud.ply").write_bytes(b"ply\nnot really")
    with pytest.raises(DataError, match=r"cloud\.ply cannot be read as a point cloud"):
        load(nerfstudio(tmp_path, 1, ply_file_path="cloud.ply"))


def blender(folder, parts=("train", "val", "test")):
    for part in parts:
        photo(folder / part / "r_0.png", (20, 10), mode="RGBA")
        photo(folder / part / "r_1.png", (20, 10), mode="RGBA")
        frames = [{"file_path": f"./{part}/r_{i}", "transform_matrix": pose(i)} for i in range(2)]
        transforms(folder, frames, f"transforms_{part}.json", camera_angle_x=np.pi / 2)
    return folder


def test_blender_takes_the_split_from_its_files(tmp_path):
    dataset = load(blender(tmp_path))
    names = [view.name for view in dataset.views]
    assert [names[i] for i in dataset.train] == ["train/r_0", "train/r_1"]
    assert [names[i] for i in dataset.test] == ["test/r_0", "test/r_1"]
    assert dataset.format == "blender" and "transforms_val.json left out" in dataset.split


def test_blenders_val_stands_in_for_a_missing_test(tmp_path):
    dataset = load(blender(tmp_path, ("train", "val")))
    assert len(dataset.test) == 2 and "transforms_val.json for test" in dataset.split


def test_blenders_train_alone_is_split_by_every_eighth(tmp_path):
    assert load(blender(tmp_path, ("train",))).split == "every 8th of 2 name-sorted images"


def test_an_angle_alone_gives_square_pixels_and_a_central_axis(tmp_path):
    view = load(blender(tmp_path)).views[0]
    expected = [[10, 0, 10], [0, 10, 5], [0, 0, 1]]
    np.testing.assert_allclose(view.camera.K, expected, rtol=1e-6)
    assert view.image().shape == (10, 20, 4)


def test_an_angle_follows_the_delivered_width(tmp_path):
    camera = load(blender(tmp_path), downscale=4).views[0].camera
    assert (camera.width, camera.height) == (5, 3)
    assert camera.K[0, 0] == pytest.approx(2.5)


@pytest.mark.parametrize("angle", [0.0, 3.2, -1.0])
def test_an_impossible_angle_is_refused(angle, tmp_path):
    photo(tmp_path / "x.png")
    frame = {"file_path": "x.png", "transform_matrix": pose()}
    with pytest.raises(DataError, match="camera_angle_x"):
        load(transforms(tmp_path, [frame], camera_angle_x=angle))


def test_no_focal_length_is_an_error(tmp_path):
    photo(tmp_path / "x.png")
    frame = {"file_path": "x.png", "transform_matrix": pose()}
    with pytest.raises(DataError, match="neither fl_x nor camera_angle_x"):
        load(transforms(tmp_path, [frame]))
