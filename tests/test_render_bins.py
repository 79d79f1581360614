"""Boxes, bounds and tile lists: generous, never tight."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

from xpr.methods.gaussian3d import EllipseSplat
from xpr.pipeline.bin import pair, rectangles
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import front_to_back, gather, project, survey
from xpr.pipeline.settings import Settings
from xpr.types import Ray, Vec2, Vec3

LEAST = 1 / 255
MARGIN = 40  # px beyond the image in which boxes are looked at
GRID = Grid(67, 45, 8)
SETTINGS = Settings(block=256, loops=2)  # several blocks in each of two runs


def alphas(splats, pixels):
    """[N, ...] alpha of each splat at pixels [..., 2]."""
    zero = jnp.zeros(pixels.shape[:-1], pixels.dtype)
    ray = Ray(Vec2.of(pixels), Vec3(zero, zero, zero), Vec3(zero, zero, zero))
    return jax.vmap(lambda one: one.evaluate(ray).alpha)(splats)


@pytest.mark.parametrize(
    ("lens", "antialiased"), [*((lens, False) for lens in scenes.LENSES), ("Pinhole", True)]
)
def test_everything_visible_lies_in_the_box(lens, antialiased):
    """The tiler drops what lies outside it."""
    scene = scenes.gaussians(64).replace(antialiased=antialiased)
    scene = scene.replace(log_scale=scene.log_scale - 1.0)
    y, x = np.mgrid[-MARGIN : 15 + MARGIN, -MARGIN : 20 + MARGIN] + 0.5
    pixels = jnp.asarray(np.stack([x, y], axis=-1), jnp.float32)

    @jax.jit
    def outside_alpha(scene, camera):
        splat, center, extent, _ = project(scene, camera)
        away = jnp.abs(pixels - center[:, None, None]) - extent[:, None, None]
        outside = jnp.any(away > 0, axis=-1) & (extent > 0).all(-1)[:, None, None]
        alpha = alphas(splat, pixels)
        return jnp.max(jnp.where(outside, alpha, 0)), jnp.max(jnp.where(outside, 0, alpha))

    outside, inside = outside_alpha(scene, scenes.view(lens))
    assert inside > 0.5
    assert 0.8 * LEAST < outside < LEAST * (1 + 1e-4)


def ellipses(n, seed):
    """Random needles and discs around the origin."""
    r = np.random.default_rng(seed)
    angle, a, b = r.uniform(0, np.pi, n), r.uniform(0.6, 3, n), r.uniform(0.6, 30, n)
    c, s = np.cos(angle), np.sin(angle)
    p, q = a**-2, b**-2
    conic = Vec3(
        *(jnp.asarray(v) for v in (p * c * c + q * s * s, (p - q) * c * s, p * s * s + q * c * c))
    )
    mean = Vec2(jnp.asarray(r.uniform(-20, 30, n)), jnp.asarray(r.uniform(-20, 30, n)))
    zero = jnp.zeros(n)
    log_opacity = jnp.asarray(np.log(r.uniform(0.01, 1, n)))
    return EllipseSplat(mean, conic, log_opacity, Vec3(zero, zero, zero))


@pytest.mark.usefixtures("x64")
def test_the_tile_bound_is_the_largest_alpha_in_the_tile():
    """An upper bound at all its points, and attained (but for the grid of the search)."""
    splats = ellipses(400, 0)
    line = jnp.linspace(0.5, 7.5, 141)
    pixels = jnp.stack(jnp.meshgrid(line, line), axis=-1)
    low, high = Vec2(*jnp.full(2, 0.5)), Vec2(*jnp.full(2, 7.5))
    bound = jax.vmap(lambda one: one.tile_bound(low, high))(splats)
    largest = jnp.max(alphas(splats, pixels), axis=(1, 2))
    assert jnp.all(bound >= largest * (1 - 1e-12))
    shown = largest > 1e-6
    assert shown.sum() > 50
    assert jnp.all(bound[shown] <= 1.05 * largest[shown])


@partial(jax.jit, static_argnames="capacity")
def lists(scene, camera, capacity):
    """Tile lists, and the alpha of every listed splat's rank at every pixel [V, H, W]."""
    found = survey(scene, camera)
    order = front_to_back(found.depth, found.seen, len(scene.mean))
    near, camera = gather(scene, camera, order)
    boxes = rectangles(found.low[order.index], found.high[order.index], order.valid, GRID)
    splats = project(near, camera).splat
    pairs = pair(SimpleNamespace(splats=splats, grid=GRID, settings=SETTINGS), boxes, capacity)
    alpha = alphas(splats, jnp.asarray(GRID.pixels(), jnp.float32))
    return pairs, boxes.counts.sum(), order.valid, jnp.where(order.valid[:, None, None], alpha, 0)


@pytest.mark.parametrize("seed", range(4))
def test_every_tile_lists_what_shows_in_it_front_to_back(seed):
    """No splat is missing, none is listed twice, no slot holds rubbish."""
    scene = scenes.gaussians(64, seed=seed)
    scene = scene.replace(mean=3 * scene.mean, log_scale=2 * scene.log_scale - 0.5)
    camera = scenes.view(seed=seed)
    K = camera.K * jnp.array([[3.3], [3.0], [1.0]])
    camera = camera.replace(K=K, width=GRID.width, height=GRID.height)
    (ids, starts), needed, valid, alpha = jax.tree.map(np.asarray, lists(scene, camera, 4096))
    assert starts[0] == 0 and np.all(np.diff(starts) >= 0) and starts[-1] <= needed
    rows, columns = GRID.shape
    blocks = np.pad(alpha, ((0, 0), (0, rows * 8 - 45), (0, columns * 8 - 67)))
    blocks = blocks.reshape(64, rows, 8, columns, 8).max((2, 4)).reshape(64, -1)
    for tile in range(GRID.tiles):
        listed = ids[starts[tile] : starts[tile + 1]]
        assert np.all(np.diff(listed) > 0)
        assert np.all(valid[listed])
        assert set(np.flatnonzero(blocks[:, tile] >= LEAST)) <= set(listed)
    assert starts[-1] > 100


def test_a_box_that_ends_on_a_tile_border_is_counted_as_it_is_filled():
    """Borderline boxes: as many pairs as counted, each of them a tile of the box."""
    edges = jnp.array([0.0, 8 - 0.02, 8 - 0.01, 8.0, 8 + 0.01, 16.0, 63.99, 66.9, 67.0])
    low, high = (jnp.stack([side, side], -1) for side in (edges[:-1], edges[1:]))
    boxes = rectangles(low, high, jnp.arange(len(low)) % 3 != 1, GRID)
    total = int(boxes.counts.sum())
    n = len(low)
    flat = EllipseSplat(
        Vec2(jnp.zeros(n), jnp.zeros(n)),
        Vec3(*jnp.zeros((3, n))),
        jnp.zeros(n),
        Vec3(*jnp.zeros((3, n))),
    )
    pairs = jax.jit(
        lambda s, boxes: pair(SimpleNamespace(splats=s, grid=GRID, settings=SETTINGS), boxes, total)
    )(flat, boxes)
    columns = GRID.shape[1]
    want = sorted(
        (row * columns + column, rank)
        for rank, (x0, y0, x1, y1) in enumerate(zip(*map(np.asarray, boxes), strict=True))
        for row in range(y0, y1)
        for column in range(x0, x1)
    )
    tiles = np.repeat(np.arange(GRID.tiles), np.diff(pairs.starts))
    assert list(zip(tiles.tolist(), pairs.ids.tolist(), strict=True)) == want
