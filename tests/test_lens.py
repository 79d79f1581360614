"""Every lens: there and back again, where it ends, and its derivatives."""

import dataclasses
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import xpr
from xpr import lens
from xpr.math import safe_norm

# Coefficients, and the largest angle (degrees) at which the lens is tried.
SAMPLES = {
    lens.Pinhole(): ([], 60),
    lens.OpenCV(): (
        [-0.2, 0.05, 1e-3, -2e-3, 4e-3, 0.02, -5e-3, 1e-3, 1e-3, -2e-3, 2e-3, 1e-3],
        55,
    ),
    lens.OpenCVFisheye(): ([0.05, -0.02, 0.004, -0.0004], 120),
    lens.ThinPrismFisheye(): ([0.05, -0.02, 2e-3, -1e-3, 2e-3, -4e-4, 1e-3, -8e-4], 100),
    lens.RadTanThinPrismFisheye(): (
        [0.05, -0.02, 2e-3, -4e-4, 2e-4, -1e-5, 1e-3, -8e-4, 5e-4, -3e-4, 2e-4, 1e-4],
        100,
    ),
    lens.Fov(): ([0.9], 80),
    lens.Division(): ([-0.3], 120),
    lens.Eucm(): ([0.62, 1.1], 110),
    lens.Equirectangular(): ([], 170),
}
EACH = pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: type(kind).__name__)


def directions(widest, n=40):
    """[n, 3] unit directions up to `widest` degrees off the axis, all round."""
    r = np.random.default_rng(7)
    theta, phi = np.radians(r.uniform(0.5, widest, n)), r.uniform(0, 2 * np.pi, n)
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
    return jnp.asarray(np.stack([x, y, z], axis=-1))


@EACH
def test_a_ray_comes_back_from_its_pixel_with_exact_derivatives(kind, x64):
    """d unproject = (d project)^-1, and -(d project)^-1 dk in every coefficient."""
    k, widest = jnp.asarray(SAMPLES[kind][0], float), SAMPLES[kind][1]

    def there(direction, k):
        return kind.project(direction, k)

    def back(xy, k):
        return kind.unproject(xy, k)[1]

    @partial(jax.jit, compiler_options=scenes.QUICK)
    def all_of(directions):
        xy = jax.vmap(there, (0, None))(directions, k)
        found = jax.vmap(back, (0, None))(xy, k)
        whole = jax.vmap(lambda xy, k: there(back(xy, k), k), (0, None))
        sides = (jax.vmap(jax.jacrev(f, (0, 1)), (0, None)) for f in (back, there))
        lit = jax.vmap(lambda xy: kind.covers(xy, k))(xy)
        seen = jax.vmap(lambda d: kind.sees(d, k, 0.01))(directions)
        return found, whole(xy, k) - xy, *sides_of(sides, xy, directions), lit & seen

    def sides_of(sides, xy, directions):
        inverse, forward = sides
        return inverse(xy, k), forward(directions, k)

    found, missed, (by_xy, by_k), (by_direction, by_bend), valid = all_of(directions(widest))
    assert valid.all()
    np.testing.assert_allclose(found, directions(widest), rtol=0, atol=1e-11)
    np.testing.assert_allclose(missed, 0, atol=1e-11)
    identity = jnp.einsum("nij,njk->nik", by_direction, by_xy)
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(2), identity.shape), atol=1e-9)
    through = jnp.einsum("nij,njk->nik", by_direction, by_k) + by_bend
    np.testing.assert_allclose(through, jnp.zeros_like(through), atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "k", "last"),
    [
        (lens.OpenCV(), [-0.1] + 11 * [0.0], np.degrees(np.arctan((1 / 0.3) ** 0.5))),
        (lens.OpenCVFisheye(), [-0.05, 0.0, 0.0, 0.0], np.degrees((1 / 0.15) ** 0.5)),
        (lens.Fov(), [0.9], 90),
        (lens.Division(), [0.2], np.degrees(np.arctan(1 / (2 * 0.2**0.5)))),
        (lens.Eucm(), [0.6, 1.0], 180 - np.degrees(np.arccos(0.4 / 0.6))),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, lens.Lens) else "",
)
def test_a_lens_ends_at_its_last_angle_on_both_sides(kind, k, last, x64):
    """Points beyond it are not seen, pixels beyond it are dark, and nothing there is not finite."""
    angles = np.radians([last - 1.5, last - 1e-9, last + 1e-6, last + 1.5])
    points = np.stack([np.sin(angles), 0 * angles, np.cos(angles)], axis=-1)

    @partial(jax.jit, compiler_options=scenes.QUICK)
    def ends(points, k):
        seen = jax.vmap(lambda point: kind.sees(point, k, 1e-9))(points)
        rim = safe_norm(kind.project(points[1], k))
        pixels = rim * jnp.outer(jnp.array([0.9, 1.1, 5, 1e3]), jnp.array([0.8, 0.6]))
        lit = jax.vmap(lambda xy: kind.covers(xy, k))(pixels)
        slopes = jax.vmap(jax.jacrev(kind.unproject, (0, 1)), (0, None))(pixels, k)
        return seen, lit, slopes

    seen, lit, slopes = ends(jnp.asarray(points), jnp.asarray(k))
    assert bool(seen[0]) and not seen[2] and not seen[3]
    assert lit.tolist() == [True, False, False, False]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_holds_for_strong_distortion(dtype, x64):
    """A barrel and a cushion that plain Newton from the distorted point loses."""
    kind = lens.OpenCV()

    @partial(jax.jit, compiler_options=scenes.QUICK)
    def error(k):
        r = jnp.linspace(0, 0.98, 50, dtype=dtype)[1:] * jnp.minimum(kind.limit(k), 8)
        flat = jnp.stack([0.6 * r, -0.8 * r], axis=-1)
        found = jax.vmap(lambda xy: kind.unproject(kind.bend(xy, k), k)[1])(flat)
        return jnp.max(jnp.abs(found[:, :2] / found[:, 2:] - flat) / (1 + r[:, None] ** 2))

    for k1, k2 in ((-0.33, 0.12), (0.9, 0.3)):
        k = jnp.asarray([k1, k2] + 10 * [0.0], dtype)
        assert error(k) < (1e-4 if dtype == np.float32 else 1e-9)


@dataclasses.dataclass(frozen=True)
class Stereographic(lens.Lens):
    """A user's own lens: circles stay circles."""

    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True

    def project(self, point, k):
        return 2 * point[:2] / (safe_norm(point) + point[2])

    def unproject(self, xy, k):
        r2 = xy @ xy
        direction = jnp.append(xy, 1 - r2 / 4) / (1 + r2 / 4)
        return jnp.zeros_like(direction), direction

    def sees(self, point, k, near):
        return (safe_norm(point) > near) & (point[2] > -0.9 * safe_norm(point))

    def covers(self, xy, k):
        return xy @ xy < 4


def test_a_users_own_lens_renders_and_is_dark_where_it_says():
    case = scenes.case()
    K = jnp.array([[4.0, 0, 10], [0, 4.0, 7.5], [0, 0, 1]])
    output = scenes.shoot(case._replace(camera=case.camera.replace(lens=Stereographic(), K=K)))
    y, x = np.mgrid[: scenes.HEIGHT, : scenes.WIDTH] + 0.5
    outside = np.hypot(x - 10, y - 7.5) > 8
    assert output.alpha[~outside].max() > 0.5 and outside.any()
    assert np.all(output.alpha[outside] == 0) and np.all(output.depth[outside] == 0)
    np.testing.assert_array_equal(
        output.color[outside], np.broadcast_to(case.background, (outside.sum(), 3))
    )


def test_a_bent_lens_is_one_polynomial(x64):
    """What a new distortion model costs: its radial part and the bend."""

    class Cubic(lens.BentFisheye):
        coefficients: ClassVar[tuple[str, ...]] = ("k",)

        def radial(self, r2, k):
            return 1 - k[0] * r2

        def bend(self, flat, k):
            return flat * self.radial(flat @ flat, k)

    k = jnp.array([0.05])
    xy = jax.vmap(lambda d: Cubic().project(d, k))(directions(100))
    back = jax.vmap(lambda xy: Cubic().unproject(xy, k)[1])(xy)
    np.testing.assert_allclose(back, directions(100), atol=1e-11)
    camera = xpr.Camera(jnp.eye(4), jnp.eye(3), width=4, height=4, lens=Cubic())
    with pytest.raises(xpr.UserError, match=r"0 coefficients, Cubic expects 1 \(k\)"):
        camera.check()
