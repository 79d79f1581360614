"""Exported functions: the same image, without xpr; and files that are refused."""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from damage import full_disk, in_archive
from hypothesis import HealthCheck, given, settings, strategies as st
from jax import export as jax_export
from splat_tables import mild_table

import xpr
from xpr import export, io
from xpr.errors import DataError, UserError
from xpr.export import write
from xpr.lens import OpenCVFisheye, Pinhole
from xpr.train.loss import photometric_loss

EXAMPLES = int(os.environ.get("XPR_DAMAGE", "40"))
DOCS = pathlib.Path(__file__).parents[1] / "docs/export.md"
# What jax itself needs, and what its export module does: nothing of xpr's.
ALLOWED = ["jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy", "flatbuffers"]
SCENE = io.to_scene(mild_table(40, 1, antialiased=True))
VIEW = xpr.Camera(
    jnp.eye(4).at[2, 3].set(5.0),
    jnp.array([[40.0, 0, 16], [0, 40, 12], [0, 0, 1]]),
    jnp.array([0.1, 0.01, 0, 0]),
    width=32,
    height=24,
    lens=OpenCVFisheye(),
)


PINHOLE = VIEW.replace(distortion=None, lens=Pinhole())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """With the scene as an argument and a gradient, for every platform."""
    path = tmp_path_factory.mktemp("export") / "a.xpr"
    export.save(SCENE, [PINHOLE], path, baked=False, gradient=True)
    return path


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "b.xpr"
    export.save(SCENE, [PINHOLE], path, platforms=("cpu",), sizes=[(32, 24)])
    return path


@pytest.fixture(scope="module")
def compiled(whole):
    return export.load(whole)


@pytest.mark.parametrize("kind", ["whole", "baked"])
def test_the_image_is_that_of_render_bit_for_bit(request, kind):
    background = jnp.array([0.2, 0.4, 0.6])
    expected = xpr.render(SCENE, PINHOLE, background=background, backend="xla")
    compiled = export.load(request.getfixturevalue(kind))
    output = compiled.render(PINHOLE.viewmat, PINHOLE.K, background=background)
    assert np.std(output["color"]) > 0.02 and not output["overflow"]
    for name in ("color", "alpha", "depth"):
        np.testing.assert_array_equal(output[name], getattr(expected, name), err_msg=name)


def test_the_gradient_is_that_of_the_loss_through_the_image(compiled):
    """A pixel passes on to the background what it lets through; the rest goes to the scene."""
    target = jnp.full((24, 32, 3), 0.5)
    view = {"viewmat": PINHOLE.viewmat, "K": PINHOLE.K}
    image, found = compiled.render(**view), compiled.value_and_gradient(target=target, **view)
    value, by_pixel = jax.value_and_grad(photometric_loss)(image["color"], target)
    np.testing.assert_allclose(found["loss"], value, rtol=1e-6)
    through = jnp.sum(by_pixel * (1 - image["alpha"][..., None]), axis=(0, 1))
    np.testing.assert_allclose(found["gradient"]["background"], through, rtol=1e-4)
    for slope in jax.tree.leaves(found["gradient"]):
        assert np.isfinite(slope).all() and np.abs(slope).max() > 0


def test_the_manifest_tells_platforms_inputs_and_outputs(compiled):
    manifest = compiled.manifest
    assert manifest["platforms"] == ["cpu", "cuda", "rocm", "tpu"]
    assert manifest["lens"] == {"name": "Pinhole", "coefficients": []}
    render, gradient = manifest["functions"]
    assert render["inputs"]["viewmat"]["shape"] == [4, 4]
    assert render["inputs"]["scene"]["of"]["mean"]["shape"] == [40, 3]
    assert render["outputs"]["color"] == {
        "shape": [24, 32, 3],
        "dtype": "float32",
        "unit": "RGB over the background",
    }
    assert gradient["outputs"]["gradient"]["of"]["K"]["shape"] == [3, 3]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """An environment's interpreter that finds jax, numpy and what they need, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in ALLOWED:
        for part in importlib.metadata.files(name) or []:
            top = part.parts[0]
            if top != ".." and not (site / top).exists():
                (site / top).symlink_to(
                    pathlib.Path(str(part.locate())).parents[len(part.parts) - 2]
                )
    return next(folder.glob("bin/python"))


def test_the_documented_script_renders_with_jax_and_numpy_alone(tmp_path, bare_python, whole):
    script = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    (tmp_path / "show.py").write_text(script)
    absent = (
        "import importlib.util as u; assert not any(map(u.find_spec, ('xpr', 'flax', 'optax')))"
    )
    run = [bare_python, "-I"]
    subprocess.run([*run, "-c", absent], check=True)
    arguments = [whole, tmp_path / "out.npy"]
    subprocess.run([*run, tmp_path / "show.py", *arguments], check=True, capture_output=True)
    expected = xpr.render(SCENE, PINHOLE, backend="xla").color
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def changed(path, tmp_path, *, manifest=None, **parts):
    """The file with other contents of its parts, or with a changed manifest."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    if manifest:
        contents["manifest.json"] = json.dumps(json.loads(contents["manifest.json"]) | manifest)
    contents |= {name.replace("_bin", ".bin"): data for name, data in parts.items()}
    with zipfile.ZipFile(tmp_path / "changed.xpr", "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return tmp_path / "changed.xpr"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"render_32x24_bin": b"hello"}, "checksum differs"),
        ({"manifest": {"format": "other"}}, "no exported function"),
        ({"manifest": {"version": 99}}, "expected a whole number from 1 to 1"),
        ({"manifest": {"functions": []}}, "no functions"),
        ({"manifest": {"functions": [{"kind": "run"}]}}, "expected one of render, gradient"),
        ({"manifest": {"functions": 3}}, "expected a list of objects"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused_in_one_line(baked, tmp_path, change, words):
    with pytest.raises(DataError, match=words) as told:
        export.load(changed(baked, tmp_path, **change))
    assert "\n" not in str(told.value)


def test_a_damaged_file_is_loaded_or_refused(baked, tmp_path):
    whole, path = baked.read_bytes(), tmp_path / "a.xpr"

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        path.write_bytes(in_archive(data.draw, whole))
        try:
            export.load(path)
        except DataError as error:
            assert "\n" not in str(error) and str(path) in str(error) and len(str(error)) < 1000

    check()


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.xpr").write_bytes(b"hello")
    with pytest.raises(DataError, match="no zip file"):
        export.load(tmp_path / "a.xpr")


def test_a_function_that_calls_the_host_is_refused(tmp_path, baked):
    """Python callbacks cannot be exported; any other custom call stands for them."""
    import hashlib

    solve = jax.jit(lambda a: {"x": jnp.linalg.eigh(a["viewmat"])[0]})
    evil = jax_export.export(solve)({"viewmat": jnp.eye(4)}).serialize()
    sums = {"sha256": {"render_32x24.bin": hashlib.sha256(evil).hexdigest()}}
    path = changed(baked, tmp_path, manifest=sums, render_32x24_bin=bytes(evil))
    with pytest.raises(DataError, match="host process"):
        export.load(path)


def test_wrong_arguments_are_told(tmp_path):
    """Among them: a lens with coefficients makes them an input."""
    export.save(SCENE, [VIEW], tmp_path / "a.xpr", platforms=("cpu",))
    compiled = export.load(tmp_path / "a.xpr")
    assert compiled.manifest["lens"]["coefficients"] == ["k1", "k2", "k3", "k4"]
    with pytest.raises(UserError, match="missing or too many: distortion"):
        compiled.render(VIEW.viewmat, VIEW.K)
    with pytest.raises(UserError, match="the file has: 32 x 24"):
        compiled.render(VIEW.viewmat, VIEW.K, size=(1, 1), distortion=VIEW.distortion)
    with pytest.raises(UserError, match="no gradient function"):
        compiled.value_and_gradient(VIEW.viewmat, VIEW.K, jnp.zeros((24, 32, 3)))
    with pytest.raises(UserError, match="cannot take"):
        compiled.render(VIEW.viewmat[:3], VIEW.K, distortion=VIEW.distortion)


def test_what_cannot_be_exported_is_told(tmp_path):
    with pytest.raises(UserError, match="unknown platform 'abacus'"):
        write.save(SCENE, [VIEW], tmp_path / "a.xpr", platforms=("abacus",))
    with pytest.raises(UserError, match="at least one camera"):
        write.save(SCENE, [], tmp_path / "a.xpr")
    assert not list(tmp_path.iterdir())


def test_the_command_exports_the_scene_of_any_method(tmp_path):
    """Its own file says the method: octahedra stay octahedra."""
    from xpr.check import bench
    from xpr.cli import main
    from xpr.methods.octahedron import Octahedron

    io.save(bench(Octahedron).scene, tmp_path / "a.ply")
    argv = ["export", str(tmp_path / "a.ply"), "-o", str(tmp_path / "a.xpr")]
    assert main([*argv, "--platforms", "cpu", "--width", "16", "--height", "12"]) == 0
    compiled = export.load(tmp_path / "a.xpr")
    assert compiled.manifest["scene"]["method"] == "Octahedron"
    example = compiled.manifest["example"]
    viewmat, K = (jnp.asarray(example[name]) for name in ("viewmat", "K"))
    view = xpr.Camera(viewmat, K, width=16, height=12)
    expected = xpr.render(io.load(tmp_path / "a.ply"), view, backend="xla")
    output = compiled.render(viewmat, K)
    assert np.std(expected.color) > 0.02
    np.testing.assert_array_equal(output["color"], expected.color)


def test_a_rolling_shutter_is_refused_by_name(tmp_path):
    rolling = PINHOLE.replace(viewmat_end=PINHOLE.viewmat)
    with pytest.raises(UserError, match=r"rolling shutter. Export it frozen"):
        write.save(SCENE, [rolling], tmp_path / "a.xpr")


def test_a_full_disk_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "a.xpr"
    path.write_bytes(b"old")
    with full_disk(), pytest.raises(OSError, match="File too large"):
        write.save(SCENE, [PINHOLE], path, platforms=("cpu",))
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_the_command_exports_a_splat_file(capsys, tmp_path):
    from xpr.cli import main

    io.write(mild_table(20, 0), tmp_path / "a.ply")
    argv = ["export", str(tmp_path / "a.ply"), "-o", str(tmp_path / "a.xpr")]
    assert main([*argv, "--platforms", "cpu", "--sizes", "16x16,24x16"]) == 0
    assert {size for _, size in export.load(tmp_path / "a.xpr").functions} == {(16, 16), (24, 16)}
    assert main([*argv, "--width", "16"]) == 2
    assert main([*argv, "--baked", "--parameters"]) == 2
    assert main([*argv, "--sizes", "16"]) == 2
    assert capsys.readouterr().err.count("\n") == 3
