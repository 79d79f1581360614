"""Scenes of every method survive their .ply file."""

import jax
import numpy as np
import pytest

from xpr import io, methods
from xpr.check import bench
from xpr.errors import DataError
from xpr.methods.octahedron import Octahedron
from xpr.methods.tetrahedron import Tetrahedron

EXAMPLES = [f"examples/{name}.py" for name in ("sphere", "disc", "beta")]


@pytest.mark.parametrize("spec", [*sorted(methods.BUILTIN), *EXAMPLES])
def test_a_scene_of_every_method_survives_its_file(spec, tmp_path):
    method = methods.load(spec)
    scene = bench(method).scene
    io.save(scene, tmp_path / "a.ply")
    back = io.load(tmp_path / "a.ply", method)
    assert jax.tree.structure(back) == jax.tree.structure(scene)
    for (path, found), want in zip(
        jax.tree_util.tree_flatten_with_path(back)[0], jax.tree.leaves(scene), strict=True
    ):
        # LinPrim's files hold distances, the optimiser their logarithms.
        rounding = 1e-6 if "log_distance" in jax.tree_util.keystr(path) else 0
        np.testing.assert_allclose(found, want, rtol=0, atol=rounding)


def test_settings_survive_as_well(tmp_path):
    scene = bench(methods.load("3dgut")).scene.replace(variant="gsplat", spread=0.1)
    io.save(scene, tmp_path / "a.ply")
    assert io.load(tmp_path / "a.ply", type(scene)).variant == "gsplat"


def test_a_3dgs_file_serves_3dgut(tmp_path):
    scene = bench(methods.load("3dgs")).scene
    io.save(scene, tmp_path / "a.ply")
    back = io.load(tmp_path / "a.ply", methods.load("3dgut"))
    np.testing.assert_array_equal(back.log_scale, scene.log_scale)


def test_a_file_of_another_primitive_is_refused_by_name(tmp_path):
    io.save(bench(methods.load(EXAMPLES[0])).scene, tmp_path / "a.ply")
    with pytest.raises(DataError, match="holds Sphere, expected Disc"):
        io.load(tmp_path / "a.ply", methods.load(EXAMPLES[1]))


def test_octahedra_are_not_read_as_tetrahedra(tmp_path):
    io.save(bench(Octahedron).scene, tmp_path / "a.ply")
    with pytest.raises(DataError, match="3 distances a solid, expected 4"):
        io.load(tmp_path / "a.ply", Tetrahedron)
