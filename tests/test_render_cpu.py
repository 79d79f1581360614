"""The CPU's kernels against the reference backend, and what they are made of against JAX."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from jax import lax
from test_render_gradients import posed, same
from test_render_plugins import Ball, Balls, Marbles, balls
from test_shutter import rolling

import xpr
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.kernels import composite, foreign, rows, sorting
from xpr.pipeline.kernels.emit import instructions
from xpr.pipeline.kernels.hoist import hoist
from xpr.pipeline.kernels.mapping import Map
from xpr.pipeline.kernels.program import assembly
from xpr.pipeline.kernels.tiles import Response, Shape
from xpr.pipeline.order import each, front_to_back, survey

TILES = {size: dataclasses.replace(scenes.SETTINGS, tile_size=size, loops=2) for size in (8, 16)}


def against_reference(case, size=16):
    """Outputs and gradients, float32 on the CPU's kernels against float64 on the reference."""
    case = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), case)
    exact = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), case)
    (_, found), grads = scenes.slopes(case, backend="cpu", settings=TILES[size])
    (_, oracle), oracle_grads = scenes.slopes(exact, backend="reference")
    same(found.replace(overflow=None), oracle.replace(overflow=None), 5e-6)
    same(grads, oracle_grads, 2e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("size", TILES)
@pytest.mark.parametrize("lens", scenes.LENSES)
def test_image_and_gradients_are_those_of_the_reference(lens, size):
    against_reference(posed(lens), size)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", [Balls, Marbles])
def test_so_are_those_of_any_method_along_the_ray(kind):
    """Colours and depth that vary along the ray, rays with gradients, a rule that keeps the last."""
    against_reference(balls(kind, "OpenCV"))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("method", ["3dgut", "linprim", "linprim-tetrahedron"])
def test_so_are_those_of_the_other_methods(method):
    """Through a distorted lens and a rolling shutter."""
    case = scenes.case("OpenCV")
    against_reference(
        case._replace(scene=scenes.like(case.scene, method), camera=rolling(case.camera))
    )


@pytest.mark.parametrize("method", ["3dgs", "3dgut", "linprim-tetrahedron"])
def test_a_wide_lens_and_a_rolling_shutter_have_a_kernel(method):
    """That is, they are not left to XLA: the projection takes few enough instructions."""
    scene, camera = scenes.like(scenes.gaussians(), method), rolling(scenes.view("OpenCVFisheye"))
    each = functools.partial(rows.each, order=None)
    assert jax.eval_shape(functools.partial(survey, each=each), scene, camera) is not None


def test_the_image_is_the_same_whatever_the_threads_and_tiles():
    case = scenes.case("OpenCV")
    images = [
        scenes.shoot(
            case, backend="cpu", settings=dataclasses.replace(settings, loops=loops)
        ).replace(overflow=None)
        for settings in TILES.values()
        for loops in (1, 3)
    ]
    for image in images[1:]:
        jax.tree.map(np.testing.assert_array_equal, image, images[0])


def test_the_same_call_gives_the_same_gradients_to_the_last_bit():
    case = scenes.case(n=60)
    first, second = (scenes.slopes(case, backend="cpu", settings=TILES[8]) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_what_does_not_fit_is_told_and_breaks_nothing():
    case = scenes.case()
    few = xpr.Capacity(visible=16, intersections=5)
    output = scenes.shoot(case, backend="cpu", settings=TILES[8], capacity=few)
    assert bool(output.overflow.any)
    assert np.isfinite(output.color).all()


@pytest.mark.parametrize(
    ("x64", "settings", "reason"),
    [
        (True, TILES[8], "float32, the scene is float64"),
        (
            False,
            dataclasses.replace(TILES[8], tile_size=12),
            "8 or 16 px wide, the settings say 12",
        ),
    ],
)
def test_what_it_cannot_do_is_said_and_left_to_another(x64, settings, reason):
    with jax.enable_x64(x64):
        case = scenes.case()
        with pytest.raises(xpr.UserError, match=f"backend 'cpu' cannot render this: .*{reason}"):
            scenes.shoot(case, backend="cpu", settings=settings)
        image = scenes.shoot(case, backend="auto", settings=settings).color
        oracle = scenes.shoot(case, backend="xla", settings=settings).color
        np.testing.assert_array_equal(image, oracle)


class Odd(Balls):
    """Its splats use a function that no kernel knows."""

    def project(self, camera):
        return self.placed(camera, self.record(Gamma))


class Gamma(Ball):
    def evaluate(self, ray):
        _, offset = self.closest(ray)
        return xpr.Hit(self.opacity * jnp.exp(-lax.lgamma(1 + offset.dot(offset))), self.color)


def test_an_unknown_function_is_named():
    with pytest.raises(xpr.UserError, match="no instructions for the primitive 'lgamma'"):
        scenes.shoot(balls(Odd, "Pinhole"), backend="cpu", settings=TILES[8])


def test_the_loop_over_pixels_is_vectorised():
    """More packed multiplications than scalar ones, in both directions."""
    record = jax.eval_shape(jax.vmap(lambda g: g.project(scenes.view())), scenes.gaussians()).splat
    parts = anatomy(record)
    shape, response = Shape(parts, record.blend, 16, 4), Response.of(parts)
    for program in (
        composite.forward(shape, response),
        composite.backward(shape, response, of_rays=False),
    ):
        code = assembly(program)
        packed = len(re.findall(r"v?mulps|vfn?m(?:add|sub)\d+ps|fml[as]\tv|fmul\tv", code))
        single = len(re.findall(r"v?mulss|vfn?m(?:add|sub)\d+ss|fmul\ts|fn?m(?:add|sub)\ts", code))
        assert packed > 2 * single > 0


def mapped(function, own, shared):
    """A function of one row and a shared array, through the kernels."""
    traced = Map.of(
        lambda own, shared: [function(own[0], shared[0])],
        [jax.ShapeDtypeStruct(own.shape[1:], own.dtype)],
        [jax.ShapeDtypeStruct(shared.shape, shared.dtype)],
    )
    assert traced.why_not() is None
    every = rows.Rows(jnp.arange(len(own), dtype=jnp.int32), jnp.int32(len(own)))
    (aval,) = traced.forward.out_avals

    def run(own, shared):
        planes = rows.apply(rows.Task(traced, 2), (own,), (shared,), every)
        return planes.T.reshape(len(own), *aval.shape)

    return run


def wandered(x, y):
    return lax.fori_loop(0, 99, lambda i, z: jnp.sin(z) + y * i / 99, x)


FUNCTIONS = {
    "arithmetic": lambda x, y: (x + y) * (x - y) / (2 + jnp.abs(x)) - (-x),
    "exp": lambda x, y: jnp.exp(3 * x) + jnp.exp2(y - 20 * x),
    "log": lambda x, y: jnp.log(jnp.abs(x) + 1e-3) + jnp.log1p(jnp.abs(y)),
    "log of tiny and huge": lambda x, y: jnp.log(1e-20 * jnp.abs(x) + 1e-30) + jnp.log(1e20 + x),
    "roots": lambda x, y: jnp.sqrt(jnp.abs(x) + 1) + lax.rsqrt(2 + x) + jnp.cbrt(x + 3),
    "whole powers": lambda x, y: x**3 + (2 + y) ** -2 + jnp.square(x) + x**0,
    "real powers": lambda x, y: (1.1 + x) ** (y + 0.3),
    "powers of a negative": lambda x, y: lax.pow(-1.1 - jnp.abs(x), jnp.round(3 * y)),
    "sigmoid": lambda x, y: jax.nn.sigmoid(4 * x) + jnp.tanh(y) + jax.nn.softplus(x),
    "angles": lambda x, y: jnp.sin(x) + jnp.cos(y) * jnp.tan(x) + jnp.arctan2(x, 1.5 + y),
    "many turns": lambda x, y: jnp.sin(9e4 * x) + jnp.cos(900 * y),
    "every quadrant": lambda x, y: jnp.arctan2(x, y) + jnp.arctan2(jnp.round(y), jnp.round(x)),
    "inverse angles": lambda x, y: jnp.arcsin(0.5 * x) + jnp.arccos(0.5 * y) + jnp.arctan(x),
    "hyperbolic": lambda x, y: jnp.sinh(x) + jnp.cosh(y) + jnp.expm1(x) + lax.erf(y),
    "bounds": lambda x, y: jnp.clip(x, -0.3, 0.4) + jnp.maximum(x, y) * jnp.minimum(x, 0.1),
    "choices": lambda x, y: jnp.where((x > y) | (x <= -0.5), x, jnp.where(x != y, 2 * y, 1)),
    "rounding": lambda x, y: x * (jnp.floor(9 * x) + jnp.ceil(9 * y)) + jnp.sign(x) * y,
    "truth": lambda x, y: x * (~(x >= 0) & jnp.isfinite(x)) + x * (x < y).astype(jnp.float32),
    "matrices": lambda x, y: jnp.outer(x, y) @ jnp.outer(y, y + 1).T @ x,
    "sums": lambda x, y: jnp.sum(jnp.outer(x, y), axis=1) + jnp.prod(y) + jnp.mean(x),
    "running sums": lambda x, y: jnp.cumsum(x) + lax.cumsum(jnp.outer(x, y), 1, reverse=True)[1],
    "diagonals": lambda x, y: jnp.diag(jnp.outer(x, y)) + jnp.diagonal(jnp.outer(y, y) * x),
    "short loops": lambda x, y: lax.fori_loop(0, 4, lambda i, z: jnp.sin(z) * y + i, x),
    "long loops": lambda x, y: x * wandered(*lax.stop_gradient((x, y))),
    "loops over rows": lambda x, y: lax.scan(lambda c, z: (c * z, c + z), x[0], y)[1] * x,
    "extremes": lambda x, y: jnp.outer(x, y).max(0) + jnp.stack([x, y, x * y]).min(1),
    "pieces": lambda x, y: jnp.concatenate([x[1:], y[:1]]) * x[::-1] + jnp.roll(x, 1),
    "padding": lambda x, y: jnp.pad(x, 1)[:3] + lax.pad(y, 0.5, [(1, 0, 0)])[1:],
    "places": lambda x, y: jnp.eye(3)[jnp.argmin(jnp.abs(x))] * x + y[jnp.argmax(x)],
    "cross": lambda x, y: jnp.cross(x, y) + jnp.swapaxes(jnp.outer(x, y), 0, 1)[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_its_gradients_are_those_of_jax(name):
    """Of each row and of what all rows share; as many rows as no block is long."""
    r = np.random.default_rng(600)
    own = jnp.asarray(r.uniform(-1, 1, (19, 3)), jnp.float32)
    shared = jnp.asarray(r.uniform(-1, 1, 3), jnp.float32)
    function = FUNCTIONS[name]
    ours, oracle = mapped(function, own, shared), jax.vmap(function, (0, None))
    found, pull = jax.vjp(ours, own, shared)
    expected, pull_expected = jax.vjp(oracle, own, shared)
    same(found, expected, 2e-6)
    cotangent = jnp.asarray(r.normal(size=expected.shape), jnp.float32)
    same(pull(cotangent), pull_expected(cotangent), 5e-6)


def shared_by_all(own, shared):
    """A number, a truth value and an index that all rows share, outside and inside of a loop."""
    table = jnp.cumsum(jnp.outer(jnp.linspace(0, 1, 99), shared), axis=0)
    place = jnp.argmax(shared)

    def step(_, z):
        return jnp.sin(z) * jnp.mean(jnp.tanh(table)) + jnp.where(shared[0] > 2, 0, z[place])

    return lax.fori_loop(0, 3, step, own), jnp.exp(shared)


def test_what_all_rows_share_is_computed_before_them():
    """In loops as well; what is left is small, and its values and gradients are the same."""
    r = np.random.default_rng(601)
    own = jnp.asarray(r.uniform(-1, 1, (9, 3)), jnp.float32)
    shared = jnp.asarray(r.uniform(-1, 1, 3), jnp.float32)
    ours, oracle = (lambda *x, f=f: f(shared_by_all, *x, None) for f in (rows.each, each))
    (found, pull), (expected, pull_expected) = (jax.vjp(f, own, shared) for f in (ours, oracle))
    same(found, expected, 2e-6)
    cotangents = jax.tree.map(lambda x: jnp.asarray(r.normal(size=x.shape), x.dtype), expected)
    same(pull(cotangents), pull_expected(cotangents), 5e-6)
    before, inside = hoist(lambda own, shared: shared_by_all(*own, *shared), [own[0]], [shared])
    numbers = before([shared])
    assert sum(x.size for x in numbers) < 10
    assert instructions(jax.make_jaxpr(inside)([own[0]], numbers)) < 100


def test_what_would_compile_for_minutes_makes_no_kernel():
    def long(own, shared):
        return [lax.fori_loop(0, 16, lambda _, x: jnp.outer(x, x) @ x, own[0])]

    rows_of_many = Map.of(long, [jax.ShapeDtypeStruct((60,), jnp.float32)], [])
    assert "more than 30,000" in rows_of_many.why_not()


def plain(table):
    return lambda x: jnp.sum(jnp.asarray(table).reshape(-1, 3) @ x)


def called(table):
    return jax.jit(lambda x: jnp.sum(x * table[700:703]))


def pulled(table):
    scaled = jax.custom_vjp(lambda x: jnp.sum(x))
    scaled.defvjp(lambda x: (jnp.sum(x), None), lambda _, g: (g * table[700:703],))
    return scaled


@pytest.mark.parametrize("make", [plain, called, pulled])
def test_functions_that_differ_in_one_constant_have_kernels_of_their_own(make):
    """However long it is, however little it differs, and if only the gradient reads it."""
    table = np.linspace(0, 1, 1500, dtype=np.float32)
    other = table.copy()
    other[701] = np.nextafter(other[701], np.float32(0))
    one = [jax.ShapeDtypeStruct((3,), jnp.float32)]
    functions = map(make, (table, table.copy(), other))
    first, again, second = (
        Map.of(lambda own, _, f=f: [f(own[0])], one, []).digest() for f in functions
    )
    assert first == again != second


def test_only_the_rows_asked_for_get_gradients():
    own, shared = jnp.ones((9, 2)), jnp.ones(())
    task = rows.Task(
        Map.of(lambda own, shared: [own[0].sum() * shared[0]], [own[0]], [shared]), threads=1
    )
    chosen = rows.Rows(jnp.array([7, 2, 2, 2], jnp.int32), jnp.int32(2))
    found, pull = jax.vjp(lambda own: rows.apply(task, (own,), (shared,), chosen), own)
    np.testing.assert_array_equal(found, [[2, 2, 0, 0]])
    (grads,) = pull(jnp.array([[3.0, 5.0, 7.0, 9.0]]))
    np.testing.assert_array_equal(grads[:, 0], [0, 0, 5, 0, 0, 0, 0, 3, 0])


def test_the_depth_order_is_that_of_every_bit_of_the_float():
    r = np.random.default_rng(800)
    depth = jnp.asarray(
        r.choice([-2.5, -0.0, 0.0, 1e-40, 1.0, np.nextafter(np.float32(1), 2), 3e38], 500)
    )
    depth = jnp.concatenate([depth, jnp.asarray(r.normal(size=500), jnp.float32)])
    seen = jnp.asarray(r.random(1000) < 0.8)
    for visible in (1000, 50):
        ours = sorting.front_to_back(depth, seen, visible)
        oracle = front_to_back(depth, seen, visible)
        jax.tree.map(np.testing.assert_array_equal, ours, oracle)
    nothing = sorting.front_to_back(depth, jnp.zeros(1000, bool), 50)
    assert not nothing.valid.any() and (nothing.index < 1000).all()


def test_a_failure_inside_a_kernel_is_an_error_of_jax():
    def fails(x, result):
        raise ValueError("no such luck")

    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: no such luck"):
        jax.block_until_ready(foreign.call("test_fails", fails, [jnp.ones(2)], jnp.ones(2)))
