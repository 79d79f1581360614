"""Every splat format: what other tools wrote, round trips, and what each cannot hold."""

import dataclasses
import json
import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation
from splat_tables import assert_equal, mild_table, random_table

from xpr import io, sh
from xpr.errors import UserError
from xpr.io.codebook import codebook, nearest, palette
from xpr.io.table import SplatTable

CONVERTED = [
    *("compressed.ply", "gsplat.compressed.ply", "gsplat.splat", "sog", "v3.spz", "v4.spz"),
    *("l0.ksplat", "l1.ksplat", "l2.ksplat"),
]
OTHERS = {
    "metalsplatter/test-splat.3-points-from-train": ["splat", "spz"],
    "minimal/minimal": ["splat", "ksplat"],
    "minimal/minimal-": ["raw.spz", "v2.spz", "v3.spz", "v4.spz"],
}
FILES = [f"converted/playbot6.{end}" for end in CONVERTED]
FILES += [
    f"{stem}{'' if stem.endswith('-') else '.'}{end}"
    for stem, ends in OTHERS.items()
    for end in ends
]
GOLDEN = {"mean": "st_means", "log_scale": "st_log_scales", "logit_opacity": "st_opacity_logit"}

# What a file may cost: in the mean's, log-scale's, opacity's, colour's and harmonics' own units.
COST = {
    ".ply": (0, 0, 0, 0, 0),
    ".glb": (0, 1e-6, 1e-6, 0, 0),
    ".gltf": (0, 1e-6, 1e-6, 0, 0),
    ".splat": (0, 1e-6, 0.51 / 255, 0.51 / 255 / sh.C0, 0),
    ".spz": (2e-6, 1 / 32, 0.51 / 255, 0.51 / 255 / 0.15, 1 / 256),
    ".v3.spz": (2e-6, 1 / 32, 0.51 / 255, 0.51 / 255 / 0.15, 1 / 256),
    ".sog": (5e-4, 0.02, 0.51 / 255, 0.02, 0.02),
    ".compressed.ply": (5e-3, 2e-3, 0.51 / 255, 0.51 / 255 * 7, 1 / 64),
}


def same_axes(a, b):
    """The largest angle, in radians, between the axes of two tables' ellipsoids."""
    a, b = (Rotation.from_quat(np.roll(q, -1, axis=1)).as_matrix() for q in (a, b))
    cosines = np.abs(np.sum(a * b, axis=1))
    return np.arccos(np.minimum(cosines, 1)).max()


def matched(table, like):
    """`table` in the order of `like`."""
    rows = KDTree(table.mean).query(like.mean)[1]
    assert len(set(rows)) == len(like)
    return table.select(rows)


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_tools_hold_what_independent_readers_saw(shared, name):
    path = shared / "data/splats" / name
    table = io.format_of(path).read(path)
    golden = name.replace("minimal/", "splat_transform/").replace("/", "__")
    quat_step = 1 / 128 + 1e-3 if name.endswith(".splat") else 1e-7
    with np.load(shared / "golden/splats" / f"{golden}.npz") as values:
        for ours, theirs in GOLDEN.items():
            assert_allclose(getattr(table, ours), values[theirs], atol=5e-7, err_msg=ours)
        assert_allclose(table.quat, values["st_quats_wxyz"], atol=quat_step)
        assert_allclose(table.sh0[:, 0], values["st_f_dc"], atol=1e-7)
        if "st_f_rest" in values:
            rest = values["st_f_rest"].reshape(len(table), 3, -1).transpose(0, 2, 1)
            assert_allclose(table.shN, rest, atol=2e-7)
    assert table.notes == ()


def test_a_gltf_of_another_tool_stands_as_the_ply_that_it_was_made_of(shared):
    """The two formats have other axes, which reading undoes."""
    folder = shared / "data/splats/converted"
    ply, gltf = io.read(folder / "playbot6.ply"), io.read(folder / "playbot6.glb")
    assert_array_equal(ply.mean, gltf.mean)
    assert_array_equal(ply.shN, gltf.shN)
    assert same_axes(ply.quat, gltf.quat) < 1e-3
    assert_allclose(ply.log_scale, gltf.log_scale, atol=1e-6)


def test_an_spz_of_another_tool_stands_as_the_ply_that_it_was_made_of(shared):
    folder = shared / "data/splats/metalsplatter"
    name = "test-splat.3-points-from-train"
    ply, spz = io.read(folder / f"{name}.ply"), io.read(folder / f"{name}.spz")
    assert_allclose(ply.mean, spz.mean, atol=1 / 4096)
    assert same_axes(ply.quat, spz.quat) < 0.05
    assert_allclose(ply.shN, spz.shN, atol=0.07)


def test_first_attribute_names_and_a_node_of_gltf_are_read(shared):
    """Five splats on the diagonal, which a node turns about x and moves by (2, 12, -7)."""
    path = shared / "data/splats/cesium_gltf/cesium_synthetic_0.gltf"
    table = io.format_of(path).read(path)
    along = np.array([-2, -1, 0, 1, 2])[:, None]
    assert_allclose(table.mean, [2, 12, -7] + along * [1, 1, -1], atol=1e-6)
    assert_allclose(table.log_scale[:, 0], [1, 1.1, 1.2, 1.3, 1.4], atol=1e-6)
    assert_allclose(table.opacity, np.array([140, 152, 164, 175, 186]) / 255, atol=1e-6)


@pytest.mark.parametrize("end", io.writable())
@pytest.mark.parametrize("antialiased", [False, True])
def test_a_round_trip_costs_the_formats_quantisation(tmp_path, end, antialiased):
    format_ = io.FORMATS[end]
    antialiased = antialiased and format_.tagged
    table = mild_table(antialiased=antialiased).truncated(format_.sh_degree)
    io.write(table, tmp_path / f"a{end}")
    back = matched(io.read(tmp_path / f"a{end}"), table)
    mean, log_scale, opacity, color, harmonics = COST[end]
    assert_allclose(back.mean, table.mean, atol=mean)
    assert_allclose(back.log_scale, table.log_scale, atol=log_scale)
    assert_allclose(back.opacity, table.opacity, atol=opacity)
    assert_allclose(back.sh0, table.sh0, atol=color)
    assert_allclose(back.shN, table.shN, atol=harmonics)
    assert same_axes(back.quat, table.quat) < (0.03 if end in (".sog", ".splat") else 0.01)
    assert back.antialiased == antialiased and back.notes == () and back.axes == "RDF"


@pytest.mark.parametrize("end", io.writable())
@pytest.mark.parametrize("size", [0, 1, 257])
def test_writing_what_was_read_changes_nothing_more(tmp_path, end, size):
    if (end, size) == (".splat", 0):
        pytest.skip("an empty file says nothing, and is refused both ways")
    table = mild_table(size).truncated(io.FORMATS[end].sh_degree)
    io.write(table, tmp_path / f"a{end}")
    first = io.read(tmp_path / f"a{end}")
    io.write(first, tmp_path / f"b{end}")
    again = io.read(tmp_path / f"b{end}")
    assert len(again) == size and again.sh_degree == table.sh_degree
    if end in (".ply", ".glb", ".gltf"):
        assert_array_equal(first.mean, again.mean)
    if size:
        assert_allclose(matched(again, first).opacity, first.opacity, atol=1e-6)


@pytest.mark.parametrize("end", [".splat", ".spz", ".v3.spz", ".sog", ".compressed.ply", ".glb"])
def test_the_same_values_give_the_same_bytes(tmp_path, end):
    table = mild_table(40).truncated(io.FORMATS[end].sh_degree)
    contents = []
    for name in ("a", "b"):
        io.write(table, tmp_path / f"{name}{end}")
        contents.append((tmp_path / f"{name}{end}").read_bytes())
    assert contents[0] == contents[1]


def test_a_splat_file_has_the_most_important_splats_first(tmp_path):
    table = random_table(3, 0)
    table.log_scale[:] = [[-3] * 3, [0] * 3, [-1] * 3]
    table.logit_opacity[:] = 0
    io.write(table, tmp_path / "a.splat")
    assert_array_equal(io.read(tmp_path / "a.splat").mean, table.mean[[1, 2, 0]])


@pytest.mark.parametrize(("opacity", "byte"), [(-30, 0), (30, 255)])
def test_the_outermost_opacities_stay_finite(tmp_path, opacity, byte):
    table = random_table(1, 0)
    table.logit_opacity[:] = opacity
    io.write(table, tmp_path / "a.splat")
    assert (tmp_path / "a.splat").read_bytes()[27] == byte
    assert np.abs(io.read(tmp_path / "a.splat").logit_opacity[0]) < 8


def test_spz_names_other_axes_in_an_extension(tmp_path):
    """Number 6 is right, down, forward: nothing is left to turn."""
    table = mild_table(4)
    io.format_of("a.spz").write(table, tmp_path / "a.spz")
    data = bytearray((tmp_path / "a.spz").read_bytes())
    data[14] |= 2
    data[16:20] = struct.pack("<I", 32 + 20 + 12)
    unknown = struct.pack("<IIQ", 0x12340001, 12 - 4, 0)[:16] + b"\0" * 4
    named = struct.pack("<III", 0xADBE0003, 4, 6)
    unknown = struct.pack("<II", 0x12340001, 12) + b"\0" * 12
    (tmp_path / "b.spz").write_bytes(bytes(data[:32]) + unknown + named + bytes(data[32:]))
    read = io.read(tmp_path / "b.spz")
    assert_allclose(read.mean, table.mean, atol=1e-6)
    assert read.notes == ("ignored 1 extensions",)


def test_spz_keeps_coordinates_of_any_size(tmp_path):
    table = mild_table(4)
    table.mean[0] = [3e5, -2e5, 0.25]
    io.write(table, tmp_path / "a.spz")
    assert_allclose(io.read(tmp_path / "a.spz").mean, table.mean, atol=1 / 32)
    table.mean[0, 0] = 1e8
    with pytest.raises(UserError, match=r"1e\+08"):
        io.write(table, tmp_path / "b.spz")
    assert not (tmp_path / "b.spz").exists()


def test_an_unpacked_sog_is_read_from_its_meta_json(tmp_path):
    import zipfile

    io.write(mild_table(30), tmp_path / "a.sog")
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        archive.extractall(tmp_path / "folder")
    assert_equal(io.read(tmp_path / "a.sog"), io.read(tmp_path / "folder/meta.json"))


def test_a_gltf_finds_its_numbers_in_a_file_beside_it(tmp_path):
    import base64

    table = mild_table(3, 1)
    io.write(table, tmp_path / "a.gltf")
    document = json.loads((tmp_path / "a.gltf").read_text())
    content = base64.b64decode(document["buffers"][0]["uri"].partition(",")[2])
    (tmp_path / "the numbers.bin").write_bytes(content)
    document["buffers"][0]["uri"] = "the%20numbers.bin"
    (tmp_path / "b.gltf").write_text(json.dumps(document))
    assert_equal(io.read(tmp_path / "a.gltf"), io.read(tmp_path / "b.gltf"))


def test_meshes_of_a_gltf_are_placed_by_their_nodes(tmp_path):
    """Two uses of one mesh: once as it is, once grown by 2 under a parent that moves it."""
    io.write(random_table(3, 2), tmp_path / "a.gltf")
    document = json.loads((tmp_path / "a.gltf").read_text())
    document["nodes"] = [
        {"mesh": 0},
        {"children": [2], "translation": [1, 0, 0]},
        {"mesh": 0, "scale": [2, 2, 2]},
    ]
    document["scenes"] = [{"nodes": [0, 1]}]
    (tmp_path / "b.gltf").write_text(json.dumps(document))
    read = io.format_of("b.gltf").read
    one, two = read(tmp_path / "a.gltf"), read(tmp_path / "b.gltf")
    assert_allclose(two.mean, np.concatenate([2 * one.mean + [1, 0, 0], one.mean]), atol=1e-6)
    assert_allclose(two.log_scale[:3], one.log_scale + np.log(2), atol=1e-6)


def test_what_a_format_cannot_hold_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"SH degree 3 \(at most 0\) and the antialiased flag"):
        io.write(random_table(antialiased=True), tmp_path / "a.splat")
    with pytest.raises(UserError, match=r"SH degree 4 \(at most 3\)"):
        io.write(random_table(degree=4), tmp_path / "a.sog")
    with pytest.raises(UserError, match="only read"):
        io.write(random_table(), tmp_path / "a.ksplat")
    with pytest.raises(UserError, match=r"suffix '.obj'"):
        io.write(random_table(), tmp_path / "a.obj")
    assert not list(tmp_path.iterdir())


def test_a_codebook_keeps_few_values_exactly_and_many_nearly():
    few = np.float32([0.5, -1, 3])
    assert_array_equal(codebook(few)[nearest(codebook(few), few)], few)
    many = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    book = codebook(many)
    assert np.std(book[nearest(book, many)] - many) < 0.01
    assert_array_equal(nearest(book, many), np.argmin(np.abs(many[:, None] - book), axis=1))


def test_a_palette_stands_for_rows_beyond_its_size(monkeypatch):
    monkeypatch.setattr("xpr.io.codebook.LARGEST_PALETTE", 64)
    rows = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    sets, label = palette(rows)
    assert len(sets) == 64
    counts = np.bincount(label, minlength=64)
    assert counts.min() >= 7 and counts.max() <= 8
    assert np.mean((sets[label] - rows) ** 2) < 0.35 * np.mean(rows**2)
    assert_allclose(sets[3], rows[label == 3].mean(axis=0), atol=1e-6)


def test_joined_tables_of_different_degrees_have_zeros_for_what_one_lacks():
    from xpr.io.table import joined

    low, high = random_table(2, 1), dataclasses.replace(random_table(3, 2), notes=("odd",))
    both = joined([low, high])
    assert isinstance(both, SplatTable) and len(both) == 5 and both.notes == ("odd",)
    assert_array_equal(both.shN[:2, 3:], 0)
    assert_array_equal(both.shN[:2, :3], low.shN)
