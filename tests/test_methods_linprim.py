"""LinPrim: chords, density, the 3D filter and the planes of its solids."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import absolute, load

import xpr
from xpr.math import logit, quat_to_rotation
from xpr.methods.octahedron import Octahedron
from xpr.methods.tetrahedron import Tetrahedron
from xpr.pipeline.order import project

SOLIDS = {"octa": Octahedron, "tetra": Tetrahedron}


def solids(method, centers, quats, distances, opacity=0.5):
    """White solids."""
    n = len(centers)
    dtype = centers.dtype
    return method(
        mean=centers,
        quat=quats,
        log_distance=jnp.log(distances),
        logit_opacity=jnp.full(n, logit(jnp.array(opacity, dtype))),
        sh0=jnp.full((n, 1, 3), 2.0, dtype),
        shN=jnp.zeros((n, 0, 3), dtype),
        filter=jnp.zeros(n, dtype),
    )


def camera(dtype=float, focal=60.0):
    pose = jnp.eye(4, dtype=dtype).at[2, 3].set(4.0)
    K = jnp.array([[focal, 0, 24], [0, focal, 16], [0, 0, 1]], dtype)
    return xpr.Camera(pose, K, width=48, height=32)


@pytest.mark.parametrize("kind", SOLIDS)
def test_chords_are_those_of_triangle_tests(kind, shared, x64):
    data = load(shared, "polyhedra_chords")
    scene = solids(SOLIDS[kind], data["centers"], data["quats"], data[f"{kind}_dists"])
    pixel = xpr.Vec2(jnp.zeros(400), jnp.zeros(400))
    ray = xpr.Ray(pixel, xpr.Vec3.of(data["origins"]), xpr.Vec3.of(data["dirs"]))
    middle, enter, leave = jax.vmap(lambda one: one.project(camera()).splat.interval(ray))(scene)
    hit = np.isfinite(data[f"{kind}_t_in"])
    assert np.array_equal(enter < leave, hit)
    assert absolute((middle + enter)[hit], data[f"{kind}_t_in"][hit]) < 1e-12
    assert absolute((middle + leave)[hit], data[f"{kind}_t_out"][hit]) < 1e-12


@pytest.mark.parametrize("method", SOLIDS.values())
def test_every_face_holds_its_vertices(method, getkey, x64):
    distances = jax.random.uniform(getkey(), (1, method.distances), minval=0.2, maxval=2.0)
    quats = jax.random.normal(getkey(), (1, 4))
    one = jax.tree.map(lambda leaf: leaf[0], solids(method, jnp.zeros((1, 3)), quats, distances))
    record = one.project(camera()).splat
    normals = jnp.stack([jnp.stack([*n]) for n in record.normals])
    heights = normals @ (one.vertices() @ quat_to_rotation(one.quat).T).T
    assert jnp.sum(jnp.abs(heights - 1) < 1e-12) == 12  # four faces (of each pair one) of three
    assert jnp.max(heights) < 1 + 1e-12


def test_a_chord_of_twice_the_smallest_distance_has_99_per_cent_of_the_opacity(x64):
    distances = jnp.array([[0.5, 0.8, 0.3]])
    scene = solids(Octahedron, jnp.zeros((1, 3)), jnp.array([[1.0, 0, 0, 0]]), distances, 0.7)
    record = jax.tree.map(lambda leaf: leaf[0], scene).project(camera()).splat
    zero, one = jnp.zeros(()), jnp.ones(())
    ray = xpr.Ray(xpr.Vec2(zero, zero), xpr.Vec3(zero, zero, -4 * one), xpr.Vec3(zero, zero, one))
    assert absolute(record.evaluate(ray).alpha, 0.99 * 0.7) < 1e-12


def test_the_part_of_a_chord_behind_the_ray_does_not_count(x64):
    scene = solids(Octahedron, jnp.zeros((1, 3)), jnp.array([[1.0, 0, 0, 0]]), jnp.ones((1, 3)))
    record = jax.tree.map(lambda leaf: leaf[0], scene).project(camera()).splat
    zero, one = jnp.zeros(()), jnp.ones(())
    from_inside = xpr.Ray(
        xpr.Vec2(zero, zero), xpr.Vec3(zero, zero, zero), xpr.Vec3(zero, zero, one)
    )
    half = -jnp.expm1(-record.density * 1.0)
    assert absolute(record.evaluate(from_inside).alpha, half) < 1e-12


def test_a_small_solid_far_away_keeps_its_digits_in_single_precision(x64):
    """Alpha is that of the same numbers as doubles."""
    r = np.random.default_rng(0)
    towards = r.normal(size=(500, 3))
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    aims = 100 * towards + 0.03 * r.normal(size=(500, 3))
    aims /= np.linalg.norm(aims, axis=1, keepdims=True)
    distances = np.exp(r.normal(np.log(0.05), 0.5, (500, 3)))
    scene = solids(Octahedron, 100 * towards, r.normal(size=(500, 4)), distances)

    def alpha(dtype):
        record, direction = jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float32).astype(dtype),
            (jax.vmap(lambda one: one.project(camera()).splat)(scene), xpr.Vec3.of(aims)),
        )
        zero = jnp.zeros((), dtype)
        ray = xpr.Ray(xpr.Vec2(zero, zero), xpr.Vec3(zero, zero, zero), direction)
        return jax.jit(lambda record, ray: record.evaluate(ray).alpha)(record, ray)

    truth = alpha(jnp.float64)
    assert jnp.sum(truth > 0.01) > 100
    assert absolute(alpha(jnp.float32), truth) < 1e-4


def test_the_filter_is_the_finest_sampling_among_the_cameras_that_see_a_solid(x64):
    centers = jnp.array([[0.0, 0, 0], [100.0, 0, 0]])
    scene = solids(Octahedron, centers, jnp.ones((2, 4)), jnp.ones((2, 3)))
    far, near = camera(), camera(focal=120.0)
    batch = jax.tree.map(lambda a, b: jnp.stack([a, b]), far, near)
    filters = jax.vmap(lambda one: one.refreshed([batch]))(scene).filter
    assert absolute(filters[0], 4 / 120 * 0.2**0.5) < 1e-12
    assert filters[1] == 0  # no camera sees it: it stays


def test_the_filter_widens_the_solid_by_half_of_it(x64):
    scene = solids(Octahedron, jnp.zeros((1, 3)), jnp.ones((1, 4)), jnp.ones((1, 3)))
    one = jax.tree.map(lambda leaf: leaf[0], scene).replace(filter=jnp.array(0.4))
    assert absolute(one.reach(), 1.2 * jnp.ones(3)) < 1e-12


def test_a_solid_that_reaches_behind_the_pinhole_has_a_box_for_what_is_seen(x64):
    """Nothing shows outside of it, and what stands beside the view takes no place in it."""
    r = np.random.default_rng(0)
    n, view = 400, camera()
    centers = jnp.asarray(r.uniform([-2, -2, -3.9], [2, 2, -2.5], (n, 3)))  # the camera: z = -4
    distances = jnp.asarray(r.uniform(0.1, 1.5, (n, 3)))
    scene = solids(Octahedron, centers, jnp.asarray(r.normal(size=(n, 4))), distances, 0.99)
    found = jax.jit(project)(scene, view)
    rays = view.rays(jnp.asarray(np.mgrid[:48, :32].T + 0.5))
    alpha = jax.vmap(lambda splat: splat.evaluate(rays).alpha)(found.splat)
    apart = jnp.abs(jnp.stack([*rays.pixel], -1) - found.center[:, None, None])
    outside = jnp.any(apart > found.extent[:, None, None], axis=-1)
    assert jnp.max(jnp.where(outside, alpha, 0)) < 1e-12
    low, high = found.center - found.extent, found.center + found.extent
    shown = jnp.all((found.extent > 0) & (high > 0) & (low < jnp.array([48, 32])), axis=1)
    hit = jnp.any(alpha > 0, axis=(1, 2))
    assert jnp.sum(hit) > 50
    assert jnp.sum(shown & ~hit) < 0.3 * jnp.sum(shown)
