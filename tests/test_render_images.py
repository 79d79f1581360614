"""What single splats look like, and images of every size."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import xpr
from xpr import sh


def only(case, *kept):
    """The same scene, all other splats transparent and hence culled."""
    keep = jnp.zeros(len(case.scene.mean), bool).at[jnp.array(kept)].set(True)
    logits = jnp.where(keep, case.scene.logit_opacity, -jnp.inf)
    return case._replace(scene=case.scene.replace(logit_opacity=logits))


def place(case, i, point, *, scale=0.3, logit=3.0, color=(0.5, 0.5, 0.5)):
    """Splat `i`, round and of one colour, at a point of the camera frame."""
    camera, scene = case.camera, case.scene
    rotation, shift = camera.viewmat[:3, :3], camera.viewmat[:3, 3]
    world = jnp.linalg.inv(rotation) @ (jnp.asarray(point) - shift)
    return case._replace(
        scene=scene.replace(
            mean=scene.mean.at[i].set(world),
            log_scale=scene.log_scale.at[i].set(jnp.log(scale)),
            logit_opacity=scene.logit_opacity.at[i].set(logit),
            sh0=scene.sh0.at[i].set((jnp.array([color]) - 0.5) / sh.C0),
            shN=scene.shN.at[i].set(0.0),
        )
    )


def lit(output):
    """Centre of gravity (x, y) in px, and standard deviations, of the alpha image."""
    height, width = output.alpha.shape
    y, x = np.mgrid[:height, :width] + 0.5
    weight = np.asarray(output.alpha) / np.sum(output.alpha)
    mean = np.array([np.sum(weight * x), np.sum(weight * y)])
    return mean, np.sqrt([np.sum(weight * (x - mean[0]) ** 2), np.sum(weight * (y - mean[1]) ** 2)])


def at(case, x, y):
    """The pixel (x, y) of a render."""
    return scenes.slopes(case)[0][1].color[y, x]


def test_a_quaternion_of_any_length_is_the_same_rotation():
    case = scenes.case()
    tripled = case._replace(scene=case.scene.replace(quat=3 * case.scene.quat))
    (_, output), grads = scenes.slopes(case)
    (_, longer), longer_grads = scenes.slopes(tripled)
    np.testing.assert_allclose(output.color, longer.color, atol=1e-5)
    np.testing.assert_allclose(grads.scene.quat, 3 * longer_grads.scene.quat, atol=1e-3)
    radial = jnp.sum(grads.scene.quat * case.scene.quat, axis=1)
    assert jnp.max(jnp.abs(radial)) < 1e-5 * jnp.max(jnp.abs(grads.scene.quat))


def test_an_off_centre_principal_point_is_a_crop_of_a_larger_image():
    """Here at (0.1 W, 0.9 H), of an image whose principal point is in its middle."""
    case, middle, start = scenes.case(), jnp.array([30.0, 30.5]), jnp.array([28, 17])
    inside = jnp.array([[0.6, 0.6, 1.0]])
    case = case._replace(scene=case.scene.replace(mean=inside * case.scene.mean))

    def image(center, size, capacity):
        K = case.camera.K.at[:2, 2].set(center)
        camera = case.camera.replace(K=K, width=size[0], height=size[1])
        return scenes.shoot(case._replace(camera=camera), capacity=capacity).color

    part = image(middle - start, (20, 15), scenes.CAPACITY)
    whole = image(middle, (60, 61), xpr.Capacity(16, 1024))
    np.testing.assert_allclose(part, whole[17 : 17 + 15, 28 : 28 + 20], atol=2e-5)
    assert jnp.std(part) > 0.1


@pytest.mark.parametrize("logit", [30.0, jnp.inf])
def test_an_opaque_splat_shows_at_the_clamped_alpha(logit):
    case = place(scenes.case(), 3, [0.0, 0.0, 3.0], logit=logit, scale=2.0, color=(0.8, 0.1, 0.3))
    case = only(case, 3)
    x, y = (int(v) for v in case.camera.K[:2, 2])
    want = 0.99 * jnp.array([0.8, 0.1, 0.3]) + 0.01 * case.background
    np.testing.assert_allclose(at(case, x, y), want, atol=1e-5)


def test_a_faint_splat_between_pixels_has_no_gradient_at_all():
    """Alpha is below 1/255 at every pixel: 0.01 falls to it within 1.37 sigma.

    Density control must not count on gradients of such splats, visible as they are.
    """
    case = scenes.case()
    camera = case.camera.replace(K=jnp.array([[18.0, 0, 8], [0, 18, 9], [0, 0, 1]]))
    case = case._replace(camera=camera)
    # Its blur alone has a sigma of 0.55 px; the nearest pixel centres are 0.71 px away.
    opacity = 1.9 / 255
    logit = np.log(opacity / (1 - opacity))
    case = only(place(case, 3, [0.0, 0.0, 3.0], scale=1e-4, logit=logit), 3)
    (_, output), grads = scenes.slopes(case)
    assert int(output.overflow.visible) == 1
    assert jnp.max(output.alpha) == 0
    assert all(jnp.all(leaf == 0) for leaf in jax.tree.leaves((grads.scene, grads.camera)))


def test_culled_splats_before_a_visible_one_leave_its_gradient_alone():
    case = scenes.case()
    alone = only(case, 7)
    hidden = place(place(alone, 0, [0, 0, -2.0]), 1, [0, 0, 0.001])
    (_, a), wanted = scenes.slopes(alone)
    (_, b), got = scenes.slopes(hidden)
    assert int(a.overflow.visible) == int(b.overflow.visible) == 1
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


def test_rendering_twice_gives_the_same_bits():
    case = only(scenes.case(), 1, 4, 5)
    jax.tree.map(np.testing.assert_array_equal, scenes.slopes(case), scenes.slopes(case))


def test_depth_order_keeps_every_bit_of_the_float():
    """One unit in the last place decides; equal depths are ordered by index."""
    red, blue = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    base = scenes.case()
    camera = base.camera.replace(viewmat=jnp.eye(4))
    x, y = (int(v) for v in camera.K[:2, 2])
    z = np.float32(10.05)
    for z_blue, front in [
        (np.float32(10.20), 0),
        (np.nextafter(z, np.float32(20)), 0),
        (z, 2),
        (np.nextafter(z, np.float32(0)), 2),
    ]:
        case = base._replace(camera=camera)
        case = place(case, 2, [0.0, 0.0, z_blue], color=blue, scale=1.0)
        case = only(place(case, 9, [0.0, 0.0, z], color=red, scale=1.0), 2, 9)
        pixel = at(case, x, y)
        assert jnp.argmax(pixel) == front, z_blue


def test_an_orthographic_size_does_not_depend_on_depth():
    base = scenes.case("Orthographic")
    camera = base.camera.replace(near=-10.0, K=jnp.diag(jnp.array([5.0, 5, 1])).at[:2, 2].set(8))
    shapes = []
    for z in (-2.0, 1.0, 50.0):
        case = only(place(base._replace(camera=camera), 3, [0.2, -0.1, z]), 3)
        shapes.append(lit(scenes.shoot(case)))
    for mean, spread in shapes:
        np.testing.assert_allclose(mean, [9.0, 7.5], atol=1e-3)
        np.testing.assert_allclose(spread, shapes[0][1], rtol=1e-4)


def test_an_orthographic_camera_inside_the_scene_sees_what_is_nearest_first():
    """With a negative near plane there is something behind the camera's plane, and it is nearer."""
    base = scenes.case("Orthographic")
    case = base._replace(camera=base.camera.replace(near=-10.0))
    case = place(case, 2, [0.0, 0.0, 1.0], color=(0.0, 0.0, 1.0))
    case = only(place(case, 9, [0.0, 0.0, -4.0], color=(1.0, 0.0, 0.0)), 2, 9)
    x, y = (int(v) for v in case.camera.K[:2, 2])
    assert jnp.argmax(scenes.shoot(case).color[y, x]) == 0


def fisheye(k1):
    """A fisheye whose image reaches about 115 degrees to the left and right."""
    case = scenes.case("OpenCVFisheye")
    camera = case.camera.replace(
        K=jnp.array([[5.0, 0, 10], [0, 5.0, 7.5], [0, 0, 1]]),
        distortion=jnp.zeros(4).at[0].set(k1),
    )
    return case._replace(camera=camera)


def towards(degrees):
    """A point 3 units away, at an angle to the axis."""
    angle = np.deg2rad(degrees)
    return [3 * np.sin(angle), 0.0, 3 * np.cos(angle)]


@pytest.mark.parametrize("degrees", [30, 89, 95, 100])
def test_a_fisheye_sees_beside_and_behind_its_plane(degrees):
    case = only(place(fisheye(0.0), 3, towards(degrees), scale=0.2), 3)
    output = scenes.shoot(case)
    mean, _ = lit(output)
    assert jnp.max(output.alpha) > 0.5
    np.testing.assert_allclose(mean, [10 + 5 * np.deg2rad(degrees), 7.5], atol=0.1)


def test_a_fisheye_sees_nothing_where_its_polynomial_has_folded_back():
    """theta - 0.12 theta^3 grows up to 95.5 degrees."""
    seen = [
        int(scenes.shoot(only(place(fisheye(-0.12), 3, towards(d)), 3)).overflow.visible)
        for d in (80, 94, 97, 150, 180)
    ]
    assert seen == [1, 1, 0, 0, 0]


def test_the_constant_coefficient_gives_the_colour_and_black_is_the_least():
    case = only(place(scenes.case(), 3, [0.0, 0.0, 3.0], logit=4.0, scale=2.0), 3)
    dc = jnp.array([[1.2, -0.4, -3.0]])
    case = case._replace(scene=case.scene.replace(sh0=case.scene.sh0.at[3].set(dc)))
    x, y = (int(v) for v in case.camera.K[:2, 2])
    (_, output), _ = scenes.slopes(case)
    alpha = output.alpha[y, x]
    want = alpha * jnp.maximum(0.5 + 0.28209479177387814 * dc[0], 0) + (1 - alpha) * case.background
    assert alpha > 0.9
    np.testing.assert_allclose(output.color[y, x], want, atol=1e-5)
    grads = scenes.slopes(case)[1].scene.sh0[3, 0]
    assert grads[2] == 0 and jnp.all(grads[:2] != 0)


@pytest.mark.parametrize("size", [(1, 1), (15, 17), (16, 16), (17, 33), (2049, 3)])
def test_every_pixel_of_any_size_is_the_reference_s(size):
    width, height = size
    case = scenes.case()
    focal = jnp.diag(jnp.array([0.9 * width, 1.1 * height, 1.0]))
    K = focal.at[:2, 2].set(jnp.array([0.4 * width, 0.6 * height]))
    case = case._replace(camera=case.camera.replace(K=K, width=width, height=height))
    settings = dataclasses.replace(scenes.SETTINGS, tile_size=16, batch=8)
    capacity = xpr.Capacity(16, 4096)
    ours, oracle = (
        scenes.shoot(case, backend=backend, settings=settings, capacity=capacity)
        for backend in ("xla", "reference")
    )
    assert not ours.overflow.any
    assert jnp.max(oracle.alpha) > 0.5
    for name in ("color", "alpha", "depth", "features"):
        np.testing.assert_allclose(getattr(ours, name), getattr(oracle, name), atol=2e-5)
