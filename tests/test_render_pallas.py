"""The GPU kernels: interpreted, they are the reference; for the machines at hand to others they lower."""

import dataclasses
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
from xpr.pipeline.order import project
from xpr.pipeline.settings import Kernel, Settings

METHODS = (*BUILTIN, "examples/beta.py", "examples/disc.py", "examples/sphere.py")
SIZE = 16  # px
CAPACITY = xpr.Capacity(visible=16, intersections=64)


class Recorded(xpr.Primitive):
    """What another method projects to, as it stands: its own `project` is not what is tried here."""

    projected: xpr.Projected

    def project(self, camera):
        return self.projected


def case(spec, dtype=float):
    """Ten primitives of a method, every other one nearly opaque, and a camera of 16 x 16 px."""
    scene, camera = bench(load(spec))
    field, r = scene.opacity_field, np.random.default_rng(0)
    solid = 6.0 * (np.arange(12) % 2)
    scene = scene.replace(**{field: getattr(scene, field) + solid})
    camera = camera.replace(width=SIZE, height=SIZE)
    projected = jax.jit(project, compiler_options=scenes.QUICK)(scene, camera)
    projected, camera = jax.tree.map(lambda x: jnp.asarray(x, dtype), (projected, camera))
    scene = Recorded(jax.tree.map(lambda leaf: leaf[:10], projected))
    background, features = r.uniform(0.2, 1.0, 3), r.normal(size=(10, 2))
    return scenes.Case(scene, camera, jnp.asarray(background, dtype), jnp.asarray(features, dtype))


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


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("spec", METHODS)
def test_interpreted_kernels_are_the_reference(spec):
    """Image and all gradients, those of the camera through the rays included."""
    ours = slopes(case(spec), "pallas", settings(Kernel("interpret")))
    oracle = slopes(case(spec), "reference", settings(Kernel("interpret")))
    assert jnp.min(1 - oracle[0][1].alpha) < 0.02
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(oracle[1].camera.viewmat[:3]))
    same(ours, oracle, 1e-9)
