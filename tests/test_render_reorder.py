"""Hits in the order of their distance along the ray (3DGUT's sorted variant), for any method."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from test_render_gradients import check, same
from test_render_plugins import Balls, Marble, balls

import xpr
from xpr.methods.gaussian3d import EllipseSplat, Gaussian3D
from xpr.methods.gaussian3d_ut import Gaussian3DUT, SortedGaussian3DUT
from xpr.pipeline.backends.reorder import Hits, in_order
from xpr.pipeline.order import project

HELD = 4


class SortedMarble(Marble):
    """A marble whose ray holds back fewer hits than there are."""

    blend = xpr.Blend(reorder=HELD)


class SortedMarbles(Balls):
    """A scene of them."""

    def project(self, camera):
        return self.placed(camera, self.record(SortedMarble))


def gaussians(kind):
    """The tests' usual Gaussians, met along the ray."""
    case = scenes.case()
    fields = ("mean", "quat", "log_scale", "logit_opacity", "sh0", "shN")
    return case._replace(scene=kind(**{name: getattr(case.scene, name) for name in fields}))


def test_the_network_puts_hits_in_order_and_ties_by_index(getkey):
    distance = jnp.round(4 * jax.random.normal(getkey(), (16, 3, 50)))
    distance = jnp.where(distance > 3, -jnp.inf, distance)
    ids = jax.random.randint(getkey(), distance.shape, 0, 1000)
    found = jax.jit(in_order, compiler_options=scenes.QUICK)(Hits(distance, ids))
    order = np.lexsort((ids, distance), axis=0)
    np.testing.assert_array_equal(found.distance, np.take_along_axis(distance, order, 0))
    np.testing.assert_array_equal(found.ids, np.take_along_axis(ids, order, 0))


@pytest.mark.usefixtures("x64")
def test_images_and_gradients_are_those_of_an_exact_sort():
    """Fewer Gaussians than are held back, so that the order is exact everywhere."""
    case = gaussians(SortedGaussian3DUT)
    check(case)
    same(scenes.slopes(case), scenes.slopes(case, backend="reference"), 1e-10)


def test_each_ray_sees_in_front_what_it_meets_first():
    """Two rods that cross: their centres lie alike for every pixel, the rods do not."""
    half = np.sqrt(0.5)
    quats = jnp.array([[np.cos(a), 0, np.sin(a), 0] for a in (np.pi / 8, -np.pi / 8)])
    rods = {
        "mean": jnp.array([[0, 0, 0.01], [0, 0, 0.0]]),
        "quat": quats,
        "log_scale": jnp.log(jnp.array([[1.0, 0.3, 0.05]] * 2)),
        "logit_opacity": jnp.full(2, 9.0),
        "sh0": jnp.array([[[half, -2, -2]], [[-2, -2, half]]]),
        "shN": jnp.zeros((2, 0, 3)),
    }
    camera = xpr.Camera(
        jnp.eye(4).at[2, 3].set(4.0),
        jnp.array([[20.0, 0, 10], [0, 20.0, 7.5], [0, 0, 1]]),
        width=20,
        height=15,
    )

    def red_and_blue(kind):
        color = xpr.render(kind(**rods), camera, capacity=scenes.CAPACITY).color
        return [color[7, x, 0] > color[7, x, 2] for x in (6, 13)]

    assert red_and_blue(Gaussian3DUT) == [False, False]
    assert red_and_blue(SortedGaussian3DUT) == [False, True]


@pytest.mark.usefixtures("x64")
def test_the_order_is_exact_where_fewer_hits_are_misplaced_than_are_held_back():
    case = balls(SortedMarbles, "Pinhole")
    case = case._replace(scene=case.scene.replace(log_radius=case.scene.log_radius + 0.5))
    ours, exact = (scenes.shoot(case, backend=backend) for backend in ("xla", "reference"))
    found = project(case.scene, case.camera)
    order = jnp.argsort(found.depth)
    y, x = np.mgrid[: scenes.HEIGHT, : scenes.WIDTH] + 0.5
    rays = case.camera.rays(jnp.asarray(np.stack([x, y], axis=-1)))
    hits = jax.vmap(lambda splat: splat.evaluate(rays))(
        jax.tree.map(lambda leaf: leaf[order], found.splat)
    )
    hit = hits.alpha >= 1 / 255
    behind = hits.depth[:, None] > hits.depth[None]
    before = np.tril(np.ones((12, 12), bool), -1).T[:, :, None, None]
    misplaced = jnp.sum(behind & before & hit[:, None] & hit[None], axis=0).max(axis=0)
    ordered = np.asarray(misplaced < HELD)
    assert (misplaced[ordered] > 0).sum() > 20 and hit.sum(axis=0).max() > HELD
    np.testing.assert_allclose(ours.color[ordered], exact.color[ordered], atol=1e-12)
    np.testing.assert_allclose(ours.depth[ordered], exact.depth[ordered], atol=1e-12)


class ReorderedEllipse(EllipseSplat):
    """It has no distance along the ray to go by."""

    blend = xpr.Blend(reorder=16)


class ReorderedGaussians(Gaussian3D):
    def project(self, camera):
        found = super().project(camera)
        leaves = (getattr(found.splat, f.name) for f in dataclasses.fields(EllipseSplat))
        return found._replace(splat=ReorderedEllipse(*leaves))


def test_a_method_without_hit_distance_is_refused_by_name():
    with pytest.raises(xpr.UserError, match=r"ReorderedEllipse.blend asks for hits in the order"):
        scenes.shoot(gaussians(ReorderedGaussians))


def test_a_buffer_that_is_no_power_of_two_is_refused():
    with pytest.raises(xpr.UserError, match=r"Blend.reorder is 12, expected 0 or a power of two"):
        xpr.Blend(reorder=12)
