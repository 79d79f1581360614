"""The GPU kernels: interpreted, they are the reference; for the machines at hand to others they lower."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import xpr
from xpr.check import bench
from xpr.errors import UserError
from xpr.methods import BUILTIN, load
from xpr.pipeline.backends.accumulate import segment_sum
from xpr.pipeline.order import project
from xpr.pipeline.settings import Kernel, Settings

# The sorted variant needs a buffer a pixel: the backend says so.
METHODS = (
    *(m for m in BUILTIN if m != "3dgut-sorted"),
    "examples/beta.py",
    "examples/disc.py",
    "examples/sphere.py",
)
NEW = jax.__version_info__ >= (0, 12)
SIZE = 16  # px
INTERPRET = Kernel("interpret")
CAPACITY = xpr.Capacity(visible=16, intersections=64)


class Recorded(xpr.Primitive):
    """What another method projects to, as it stands: its own `project` is not what is tried here."""

    projected: xpr.Projected

    def project(self, camera):
        return self.projected


@functools.cache
def case(spec):
    """Ten primitives of a method, every other one nearly opaque, and a camera of 16 x 16 px."""
    with jax.enable_x64(True):
        return recorded(*bench(load(spec)))


def recorded(scene, camera):
    field, r = scene.opacity_field, np.random.default_rng(0)
    solid = 6.0 * (np.arange(12) % 2)
    scene = scene.replace(**{field: getattr(scene, field) + solid})
    camera = camera.replace(width=SIZE, height=SIZE)
    projected = jax.jit(project, compiler_options=scenes.QUICK)(scene, camera)
    scene = Recorded(jax.tree.map(lambda leaf: leaf[:10], projected))
    background, features = r.uniform(0.2, 1.0, 3), r.normal(size=(10, 2))
    return scenes.Case(scene, camera, jnp.asarray(background), jnp.asarray(features))


def loss(case, backend, settings):
    """Every pixel of every output, each with its own random weight."""
    output = scenes.draw(case, None, backend, settings, CAPACITY)
    r = np.random.default_rng(1)
    images = (output.color, output.alpha, output.depth, output.features)
    return sum(jnp.sum(jnp.asarray(r.normal(size=i.shape), i.dtype) * i) for i in images), output


slopes = jax.jit(
    jax.value_and_grad(loss, has_aux=True), static_argnums=(1, 2), compiler_options=scenes.QUICK
)


def settings(kernel, tile_size=8):
    return Settings(tile_size=tile_size, chunk=4, kernel=kernel)


def same(ours, oracle, tolerance):
    """Equal trees, relative to each leaf's largest value."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(oracle), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose default device is a GPU, as far as choosing a backend and lowering go."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    card = jax.sharding.AbstractDevice(device_kind="NVIDIA H100", num_cores=132, platform="gpu")
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((1,), ("all",), auto, abstract_device=card)
    return lambda: jax.sharding.use_abstract_mesh(mesh)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("spec", METHODS)
def test_interpreted_kernels_are_the_reference(spec):
    """Image and all gradients, those of the camera through the rays included."""
    ours = slopes(case(spec), "pallas", settings(INTERPRET))
    oracle = slopes(case(spec), "reference", settings(INTERPRET))
    assert jnp.min(1 - oracle[0][1].alpha) < 0.02
    same(ours, oracle, 1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("mode", ["reduced", "atomics"])
def test_all_ways_to_accumulate_give_the_same(mode):
    """The threshold lies such that some blocks are summed first and some are not."""
    spec = "examples/sphere.py"
    kernel = Kernel("interpret", mode, threshold=40)
    ours = slopes(case(spec), "pallas", settings(kernel))
    same(ours, slopes(case(spec), "pallas", settings(INTERPRET)), 1e-12)


def test_a_segmented_sum_is_that_of_a_loop(x64):
    """Short, long and missing segments, and rows that belong to none."""
    r = np.random.default_rng(0)
    segments = np.concatenate([r.integers(0, 6, 40), np.full(100, 7), np.full(9, 11)])
    segments = r.permutation(segments).astype(np.int32)
    rows = r.normal(size=(len(segments), 3))
    want = np.zeros((11, 3))
    kept = segments < 11
    np.add.at(want, segments[kept], rows[kept])
    got = segment_sum(jnp.asarray(rows), jnp.asarray(segments), 11)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", METHODS)
def test_kernels_lower_for_gpus(spec, gpu):
    """Forward and backward, chosen by themselves, in every dialect."""
    single = jax.tree.map(lambda x: jnp.asarray(x, np.float32), case(spec))
    with gpu():
        traced = slopes.trace(single, "auto", settings(Kernel(), 16))
        for platform in ("cuda", "rocm"):
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            assert text.count("xla.gpu.triton") == 2
        if NEW:
            pytest.skip("this version of JAX registers Mosaic's rules on machines with a GPU only")
        traced = slopes.trace(single, "auto", settings(Kernel("mosaic"), 16))
        assert "mosaic_gpu" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("mode", ["reduced", "atomics"])
def test_atomic_additions_lower_for_gpus(mode, gpu):
    single = jax.tree.map(lambda x: jnp.asarray(x, np.float32), case("examples/sphere.py"))
    with gpu():
        traced = slopes.trace(single, "pallas", settings(Kernel("triton", mode), 16))
        for platform in ("cuda", "rocm"):
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            assert text.count("xla.gpu.triton") == 2


class Odd(xpr.Splat):
    """Its alpha is a function that no kernel knows."""

    opacity: jax.Array

    def evaluate(self, ray):
        return xpr.Hit(self.opacity * jax.lax.bessel_i0e(ray.pixel.x), xpr.Vec3(1.0, 1.0, 1.0))


def refusal(case, kernel, tile_size=8):
    with pytest.raises(UserError, match="backend 'pallas' cannot render this") as caught:
        slopes.trace(case, "pallas", settings(kernel, tile_size))
    return str(caught.value)


def test_the_kernels_say_what_they_cannot():
    """A machine without a GPU; a dialect without atomics; sizes; an unknown primitive, by name."""
    single = jax.tree.map(lambda x: jnp.asarray(x, np.float32), case("examples/sphere.py"))
    assert "default device is a cpu" in refusal(single, Kernel())
    assert "default device is a cpu" in refusal(single, Kernel("mosaic"))
    many = single._replace(features=jnp.zeros((10, 40)))
    assert "at most 32 features, not 40" in refusal(many, INTERPRET)


def test_the_kernels_say_what_a_gpu_cannot(gpu):
    single = jax.tree.map(lambda x: jnp.asarray(x, np.float32), case("examples/sphere.py"))
    assert "power of two, not 12 px" in refusal(single, Kernel(), 12)
    assert "not of 8 x 8" in refusal(single, Kernel("mosaic"))
    assert "no atomic addition" in refusal(single, Kernel("mosaic", "reduced"), 16)
    projected = single.scene.projected._replace(splat=Odd(jnp.full(10, 0.5)))
    odd = single._replace(scene=Recorded(projected))
    with gpu():
        assert "bessel_i0e" in refusal(odd, Kernel())
        traced = slopes.trace(odd, "auto", settings(Kernel()))
        assert "xla.gpu.triton" not in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_a_machine_without_a_gpu_chooses_something_else():
    single = jax.tree.map(lambda x: jnp.asarray(x, np.float32), case("examples/sphere.py"))
    assert "pallas_call" not in str(slopes.trace(single, "auto", settings(Kernel())).jaxpr)


def test_names_that_are_no_kernel_settings_are_refused():
    with pytest.raises(UserError, match="dialect is 'cuda'; known: triton, mosaic, interpret"):
        Kernel(dialect="cuda")
    with pytest.raises(UserError, match="accumulate is 'atomic'; known: rows, reduced, atomics"):
        Kernel(accumulate="atomic")
