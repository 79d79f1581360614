"""What `load` recognises, what it says of the rest, and real photos."""

import jax
import numpy as np
import pytest
from data_scenes import colmap, nerfstudio, photo

from xpr.data import load
from xpr.data.colmap import read_shots
from xpr.data.colmap_binary import read_images
from xpr.errors import DataError, UserError


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        load(tmp_path / "nowhere")


def test_a_folder_without_a_dataset_says_what_it_holds(tmp_path):
    photo(tmp_path / "holiday.png")
    with pytest.raises(DataError, match=r"holds no dataset \(found: holiday\.png\)"):
        load(tmp_path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(DataError, match="is a file"):
        load(photo(tmp_path / "x.png"))


def test_several_transforms_ask_for_one(tmp_path):
    nerfstudio(tmp_path).rename(tmp_path / "transforms_8.json")
    with pytest.raises(DataError, match=r"transforms_8\.json: give the path"):
        load(tmp_path)


def test_a_downscale_below_one_is_refused(tmp_path):
    with pytest.raises(UserError, match="downscale is 0"):
        load(nerfstudio(tmp_path), downscale=0)


def test_colmap_beside_transforms_is_said(tmp_path):
    nerfstudio(tmp_path)
    dataset = load(colmap(tmp_path))
    assert dataset.format == "colmap"
    assert any("transforms.json is there as well" in note for note in dataset.notes)


def test_loading_decodes_no_pixel(tmp_path):
    """A photo whose pixels are cut off still loads; only decoding it fails."""
    path = photo(tmp_path / "images" / "0.png", (64, 64))
    file = nerfstudio(tmp_path, 1, size=(64, 64))
    path.write_bytes(path.read_bytes()[:60])
    view = load(file).views[0]
    with pytest.raises(DataError, match=r"0\.png"):
        view.image()


@pytest.mark.parametrize("downscale", [4, 8])
def test_the_fox_as_published_lacks_17_photos_and_its_full_size_folder(downscale, shared):
    """Its paths name `images/`, which does not exist: `images_K` serves, full-size intrinsics too."""
    dataset = load(shared / "data/fox/transforms_upstream_67_frames.json", downscale=downscale)
    prepared = load(shared / f"data/fox/transforms_{downscale}.json")
    assert len(dataset.views) == 50 and dataset.image_source == f"images_{downscale}"
    assert any("17 of 67 listed photos have no file" in note for note in dataset.notes)
    for view, same in zip(dataset.views, prepared.views, strict=True):
        np.testing.assert_allclose(view.camera.K, same.camera.K, rtol=1e-6)
        np.testing.assert_array_equal(view.camera.viewmat, same.camera.viewmat)
        np.testing.assert_array_equal(view.camera.distortion, same.camera.distortion)


def test_the_fox_as_published_names_the_downscales_that_work(shared):
    with pytest.raises(DataError, match="--downscale 4 or 8"):
        load(shared / "data/fox/transforms_upstream_67_frames.json")


def test_the_fox_of_colmap(shared):
    dataset = load(shared / "data/fox_colmap", downscale=2)
    assert len(dataset.views) == 50 and len(dataset.test) == 7
    assert dataset.views[0].image().shape == (240, 135, 3)
    assert dataset.image_source == "images resized by 2" and dataset.notes == ()
    assert len(dataset.points.positions) == 11719


def test_lego(shared):
    dataset = load(shared / "data/lego_100")
    assert (len(dataset.train), len(dataset.test)) == (100, 25)
    assert dataset.views[0].image().shape == (100, 100, 4)
    names = [dataset.views[i].name for i in dataset.train]
    assert all(name.startswith("train/") for name in names)


def test_a_blender_scene_of_nerfstudios_tests(shared):
    dataset = load(shared / "data/nerfstudio_tests/lego_test")
    assert (len(dataset.train), len(dataset.test)) == (1, 1)


@pytest.mark.parametrize("name", ["opencv_bin", "opencv_txt", "simple_radial_colmap4"])
def test_a_model_without_photos_says_where_it_looked(name, shared):
    with pytest.raises(DataError, match=rf"none of the 50.*looked for images in .*{name}"):
        load(shared / "data/colmap_models" / name)


@pytest.mark.parametrize(
    ("model", "mean_px"),
    [
        ("fox_colmap/sparse/0", 0.26),
        ("colmap_models/opencv_bin", 1.03),
        ("colmap_models/simple_radial_colmap4", 1.09),
    ],
)
def test_points_project_onto_their_observations(model, mean_px, shared, x64):
    """Within the error that bundle adjustment left: half a pixel or a coefficient amiss shows."""
    pycolmap = pytest.importorskip("pycolmap")
    folder = shared / "data" / model
    oracle = pycolmap.Reconstruction(str(folder))
    project = jax.jit(jax.vmap(lambda camera, point: camera.to_pixel(point), (None, 0)))
    seen, projected = [], []
    for shot in read_shots(folder, read_images(folder / "images.bin"))[::10]:
        sensor = shot.sensor((0, 0))
        camera = sensor.camera(shot.viewmat, sensor.size, np.float64)
        observed = list(oracle.find_image_with_name(shot.name).get_observation_points2D())
        observed = (observed * 100)[:3000]
        world = np.array([oracle.point3D(o.point3D_id).xyz for o in observed])
        projected.append(project(camera, world @ shot.viewmat[:3, :3].T + shot.viewmat[:3, 3]))
        seen.append([o.xy for o in observed])
    errors = np.linalg.norm(np.array(projected) - np.array(seen), axis=-1)
    assert np.mean(errors) == pytest.approx(mean_px, rel=0.03)
