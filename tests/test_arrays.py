"""`xpr.rasterization`: gsplat's arguments are honoured or refused by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xpr
from xpr.methods.gaussian3d import Gaussian3D

N, SIZE = 12, (24, 17)
CAPACITY = xpr.Capacity(16, 1024)


def arrays():
    """Positional arguments up to the opacities, then those of two views."""
    keys = jax.random.split(jax.random.key(3), 5)
    means = jax.random.normal(keys[0], (N, 3)) * 0.4 + jnp.array([0, 0, 3.0])
    quats = jax.random.normal(keys[1], (N, 4))
    scales = jnp.exp(jax.random.normal(keys[2], (N, 3)) * 0.4 - 1.5)
    opacities = jax.random.uniform(keys[3], (N,), minval=0.2, maxval=0.95)
    viewmats = jnp.stack([jnp.eye(4), jnp.eye(4).at[0, 3].set(0.3)])
    Ks = jnp.tile(jnp.array([[20.0, 0, 12], [0, 20, 8], [0, 0, 1]]), (2, 1, 1))
    return (means, quats, scales, opacities), (viewmats, Ks, *SIZE)


def colors(channels, key=9):
    return jax.random.uniform(jax.random.key(key), (N, channels))


def draw(color, **options):
    first, views = arrays()
    return xpr.rasterization(*first, color, *views, capacity=CAPACITY, **options)


@pytest.fixture(scope="module")
def plain():
    return draw(colors(3))


def test_an_image_is_that_of_render(plain):
    (means, quats, scales, opacities), (viewmats, Ks, width, height) = arrays()
    zero = jnp.zeros((N, 0, 3))
    sh0 = (colors(3) - 0.5)[:, None] / xpr.sh.C0
    scene = Gaussian3D(means, quats, jnp.log(scales), xpr.math.logit(opacities), sh0, zero)
    cameras = xpr.Camera(viewmats, Ks, width=width, height=height)
    output = xpr.render(scene, cameras, capacity=CAPACITY)
    image, alpha, meta = plain
    np.testing.assert_allclose(image, output.color, atol=1e-6)
    np.testing.assert_allclose(alpha[..., 0], output.alpha, atol=1e-6)
    assert image.shape == (2, 17, 24, 3) and meta["n_cameras"] == 2
    assert meta["means2d"].shape == meta["radii"].shape == (2, N, 2)


@pytest.mark.parametrize("option", ["packed", "segmented", "channel_chunk"])
def test_a_choice_of_layout_changes_nothing(option, plain):
    for value in (True, False) if option != "channel_chunk" else (8, 32):
        np.testing.assert_array_equal(draw(colors(3), **{option: value})[0], plain[0])


@pytest.mark.parametrize("channels", [1, 5])
def test_any_number_of_channels_is_blended_as_colour_is(channels, plain):
    wide = jnp.concatenate([colors(3), colors(3, key=4)], axis=1)[:, :channels]
    image = draw(wide, backgrounds=jnp.ones((2, channels)))[0]
    assert image.shape == (2, 17, 24, channels)
    shared = min(channels, 3)
    over_white = plain[0] + (1 - plain[1])
    np.testing.assert_allclose(image[..., :shared], over_white[..., :shared], atol=1e-6)


def test_colours_of_each_view_are_those_of_that_view(plain):
    both = jnp.stack([colors(3), colors(3, key=4)])
    image = draw(both)[0]
    np.testing.assert_allclose(image[0], plain[0][0], atol=1e-6)
    np.testing.assert_allclose(image[1], draw(colors(3, key=4))[0][1], atol=1e-6)


def test_render_modes_stack_colour_and_depth(plain):
    shown = {mode: draw(colors(3), render_mode=mode)[0] for mode in ("D", "ED", "RGB+D", "RGB+ED")}
    np.testing.assert_array_equal(shown["RGB+D"], jnp.concatenate([plain[0], shown["D"]], -1))
    np.testing.assert_array_equal(shown["RGB+ED"], jnp.concatenate([plain[0], shown["ED"]], -1))
    seen = plain[1] > 1e-3
    np.testing.assert_allclose(
        jnp.where(seen, shown["ED"] * plain[1], 0), jnp.where(seen, shown["D"], 0), atol=1e-5
    )


def test_a_radius_clip_removes_small_splats_only(plain):
    radii = plain[2]["radii"][0].max(-1)
    clip = int(jnp.sort(radii)[N // 2])
    clipped = draw(colors(3), radius_clip=clip)[2]["radii"][0].max(-1)
    np.testing.assert_array_equal(clipped, jnp.where(radii <= clip, 0, radii))


def test_what_lies_before_the_near_or_behind_the_far_plane_is_culled(plain):
    depth = arrays()[0][0][:, 2]
    meta = draw(colors(3), near_plane=2.8, far_plane=3.2)[2]
    kept = np.asarray((depth > 2.8) & (depth < 3.2))
    assert 0 < kept.sum() < N - 2
    np.testing.assert_array_equal(meta["radii"], plain[2]["radii"] * kept[:, None])


def test_the_blur_and_its_compensation_are_those_asked_for(plain):
    """eps2d is added to the covariance, and antialiased opacities fall with the area that it adds."""
    meta = draw(colors(3), eps2d=0.1, rasterize_mode="antialiased")[2]

    def covariances(meta):
        return np.linalg.inv(np.asarray(meta["conics"])[..., [0, 1, 1, 2]].reshape(2, N, 2, 2))

    blurred = covariances(meta)
    sharp = covariances(plain[2]) - 0.3 * np.eye(2)
    np.testing.assert_allclose(blurred - 0.1 * np.eye(2), sharp, atol=1e-3)
    faded = arrays()[0][3] * np.sqrt(np.linalg.det(sharp) / np.linalg.det(blurred))
    np.testing.assert_allclose(meta["opacities"], faded, rtol=1e-3)
    reach = np.sqrt(2 * np.log(255 * np.asarray(meta["opacities"])))[..., None]
    extent = reach * np.sqrt(np.diagonal(blurred, axis1=-2, axis2=-1))
    assert np.all((meta["radii"] > extent - 1e-3) & (meta["radii"] < extent + 1 + 1e-3))


def test_harmonics_above_the_degree_are_not_read():
    """The arrays may hold more than is to be evaluated."""
    held = jax.random.normal(jax.random.key(1), (N, 16, 3))
    fewer = held.at[:, 4:].set(7.0)
    images = [draw(color, sh_degree=1)[0] for color in (held, fewer)]
    np.testing.assert_array_equal(*images)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"absgrad": True}, "absgrad is not supported, expected False"),
        ({"sparse_grad": True}, "sparse_grad is not supported"),
        ({"with_ut": True}, "with_ut is not supported"),
        ({"covars": jnp.zeros((N, 3, 3))}, "covars is not supported, expected None"),
        ({"rolling_shutter": "TOP_TO_BOTTOM"}, "rolling_shutter='TOP_TO_BOTTOM' is not supported"),
        ({"render_mode": "depth"}, "render_mode is 'depth', expected one of RGB"),
        ({"camera_model": "ftheta"}, "camera_model is 'ftheta', expected one of pinhole"),
        ({"no_such": 1}, "rasterization takes no argument 'no_such'"),
        ({"sh_degree": 3}, "colors has shape"),
        ({"backgrounds": jnp.zeros(3)}, "backgrounds has shape"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(options, message):
    with pytest.raises(xpr.UserError, match=message):
        draw(colors(3), **options)


def test_a_pinhole_with_distortion_is_the_opencv_lens():
    radial = jnp.tile(jnp.array([0.1, -0.02, 0.0, 0.01, 0.0, 0.0]), (2, 1))
    tangential = jnp.tile(jnp.array([0.01, -0.02]), (2, 1))
    prism = jnp.tile(jnp.array([0.02, -0.01, 0.03, 0.01]), (2, 1))
    options = {"tangential_coeffs": tangential, "thin_prism_coeffs": prism}
    image = draw(colors(3), radial_coeffs=radial, **options)[0]
    (means, quats, scales, opacities), (viewmats, Ks, width, height) = arrays()
    sh0 = (colors(3) - 0.5)[:, None] / xpr.sh.C0
    scene = Gaussian3D(
        means, quats, jnp.log(scales), xpr.math.logit(opacities), sh0, jnp.zeros((N, 0, 3))
    )
    k = jnp.array([0.1, -0.02, 0.01, -0.02, 0, 0.01, 0, 0, 0.02, -0.01, 0.03, 0.01])
    camera = xpr.Camera(viewmats[1], Ks[1], k, width=width, height=height, lens=xpr.lens.OpenCV())
    output = xpr.render(scene, camera, capacity=CAPACITY)
    np.testing.assert_allclose(image[1], output.color, atol=1e-6)
