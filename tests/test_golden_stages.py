"""Single stages against golden values: lenses, spherical harmonics, projection, compositing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import GsplatFisheye, absolute, load, relative

import xpr
from xpr import sh
from xpr.lens import OpenCV, OpenCVFisheye, Orthographic, Pinhole
from xpr.math import quat_to_rotation
from xpr.methods.gaussian3d import EllipseSplat, Gaussian, splat
from xpr.pipeline import backends
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.bin import rectangles
from xpr.pipeline.frame import Frame, Request
from xpr.pipeline.grid import Grid
from xpr.pipeline.order import front_to_back

pytestmark = pytest.mark.usefixtures("x64")
LENSES = {
    "pinhole": Pinhole(),
    "opencv": OpenCV(),
    "fisheye": OpenCVFisheye(),
    "ortho": Orthographic(),
}


def camera_of(data, name):
    """The camera of a `camera_*` archive."""
    radial, tangential, prism = data["radial"], data["tang"], data["prism"]
    distortion = {
        "opencv": jnp.concatenate([radial[:2], tangential, radial[2:], prism]),
        "fisheye": data["fish"],
    }.get(name)
    size = {"width": int(data["width"]), "height": int(data["height"])}
    return xpr.Camera(jnp.eye(4), data["K"], distortion, lens=LENSES[name], **size)


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_projects_unprojects_and_differentiates_as_gsplat(name, shared):
    data = load(shared, f"camera_{name}")
    camera, valid = camera_of(data, name), np.asarray(data["valid"])
    pixels, pull = jax.vjp(jax.vmap(camera.to_pixel), data["points"])
    assert absolute(pixels[valid], data["image_points"][valid]) < 1e-10
    grads = pull(data["v_image_points"] * valid[:, None])[0]
    assert absolute(grads[valid], data["g_points"][valid]) < 1e-9
    directions = jnp.stack(list(camera.rays(data["pixels"]).direction), axis=-1)
    assert absolute(directions, data["rays"]) < 1e-10


@pytest.mark.parametrize("count", [4, 5, 8, 12])
def test_opencv_distortion_is_opencvs(count, shared):
    data = load(shared, "opencv_camera_models")
    distortion = jnp.zeros(12).at[:count].set(data[f"dist{count}"])
    camera = xpr.Camera(jnp.eye(4), data["K"], distortion, width=640, height=480, lens=OpenCV())
    assert absolute(jax.vmap(camera.to_pixel)(data["points"]), data[f"img{count}"]) < 1e-7
    direction = camera.rays(data["pixels"]).direction
    straight = jnp.stack([direction.x, direction.y], axis=-1) / direction.z[:, None]
    # OpenCV's own inverse is iterated to about 1e-9.
    assert absolute(straight, data[f"undist{count}"]) < 1e-8


def test_opencv_fisheye_is_opencvs_with_its_jacobian(shared):
    data = load(shared, "opencv_camera_models")

    def camera_with(K, distortion):
        return xpr.Camera(jnp.eye(4), K, distortion, width=640, height=480, lens=OpenCVFisheye())

    def image(K, distortion):
        return jax.vmap(camera_with(K, distortion).to_pixel)(data["points"])

    assert absolute(image(data["K"], data["fish_dist"]), data["fish_img"]) < 1e-10
    by_K, by_k = jax.jacfwd(image, argnums=(0, 1))(data["K"], data["fish_dist"])
    # OpenCV's columns: f (2), c (2), k (4), rotation (3), translation (3), skew.
    ours = jnp.concatenate(
        [by_K[..., 0, :1], by_K[..., 1, 1:2], by_K[..., :2, 2], by_k], axis=-1
    ).reshape(-1, 8)
    assert relative(ours, data["fish_jac"][:, :8]) < 1e-9
    direction = camera_with(data["K"], data["fish_dist"]).rays(data["pixels"]).direction
    straight = jnp.stack([direction.x, direction.y], axis=-1) / direction.z[:, None]
    assert absolute(straight, data["fish_undist"]) < 1e-8


@pytest.mark.parametrize("degree", range(5))
def test_spherical_harmonics_are_those_of_3dgs(degree, shared):
    data = load(shared, "spherical_harmonics")

    def colors(directions, coefficients):
        unit = directions / jnp.linalg.norm(directions, axis=-1, keepdims=True)
        return jax.vmap(sh.evaluate)(coefficients[:, : sh.coefficients(degree)], unit)

    found, pull = jax.vjp(colors, data["dirs"], data["coeffs"])
    assert absolute(found, data[f"colors_deg{degree}"]) < 1e-12
    for mine, golden in zip(pull(data["v_colors"]), ("dirs", "coeffs"), strict=True):
        assert absolute(mine, data[f"v_{golden}_deg{degree}"]) < 1e-12


def test_covariances_and_precisions_are_those_of_gsplat(shared):
    data = load(shared, "quat_scale_to_covar")

    def both(quats, scales):
        axes = jax.vmap(quat_to_rotation)(quats)
        spread, tight = axes * scales[:, None], axes / scales[:, None]
        return spread @ spread.mT, tight @ tight.mT

    found, pull = jax.vjp(both, data["quats"], data["scales"])
    assert relative(found[0], data["covars"]) < 1e-12
    assert relative(found[1], data["precis"]) < 1e-12
    quats, scales = pull((data["v_covars"], data["v_precis"]))
    assert relative(quats, data["v_quats"]) < 1e-10
    assert relative(scales, data["v_scales"]) < 1e-10


@pytest.mark.parametrize("name", ["pinhole", "fisheye", "ortho"])
def test_projection_and_its_gradients_are_those_of_gsplat(name, shared):
    data = load(shared, f"proj_ewa_{name}")
    visible = np.asarray((data["radii"] > 0).all(-1))
    size = {"width": int(data["width"]), "height": int(data["height"])}
    distortion = jnp.zeros((3, 4)) if name == "fisheye" else None

    def stage(means, quats, scales, viewmats, Ks):
        lens = GsplatFisheye() if name == "fisheye" else LENSES[name]
        cameras = xpr.Camera(viewmats, Ks, distortion, lens=lens, **size)

        def one(camera, mean, quat, scale):
            gaussian = Gaussian(mean, quat, scale, jnp.ones(()), jnp.zeros(3))
            plain = splat(gaussian, camera, eps2d=0.3, antialiased=False)
            smooth = splat(gaussian, camera, eps2d=0.3, antialiased=True)
            conic = jnp.stack(list(plain.splat.conic))
            return plain.center, plain.depth, conic, jnp.exp(smooth.splat.log_opacity)

        many = jax.vmap(one, in_axes=(None, 0, 0, 0))
        return jax.vmap(many, in_axes=(0, None, None, None))(cameras, means, quats, scales)

    inputs = [data[k] for k in ("means", "quats", "scales", "viewmats", "Ks")]
    found, pull = jax.vjp(jax.jit(stage), *inputs)
    expected = [data[k] for k in ("means2d", "depths", "conics")]
    for mine, golden in zip(found, expected, strict=False):
        error = np.abs(np.asarray(mine - golden))[visible]
        assert (error / (1 + np.abs(np.asarray(golden)[visible]))).max() < 1e-9
    # The floor on the compensation differs below 0.005: compare above it.
    above = visible & (np.asarray(data["compensations"]) > 0.0051)
    assert absolute(found[3][above], data["compensations"][above]) < 1e-9
    masked = [
        data[k] * jnp.asarray(visible).reshape(*visible.shape, *[1] * (data[k].ndim - 2))
        for k in ("v_means2d", "v_depths", "v_conics")
    ]
    compensation = data["v_compensations"] * jnp.asarray(above)
    grads = dict(
        zip(("means", "quats", "scales", "viewmats"), pull((*masked, compensation)), strict=False)
    )
    for key, grad in grads.items():
        assert relative(grad, data[f"g_{key}"]) < 1e-6, key


@pytest.mark.parametrize("backend", ["reference", "xla"])
@pytest.mark.parametrize("case", ["c1_bg", "c3_bg", "c8"])
def test_compositing_and_its_gradients_are_those_of_gsplat(case, backend, shared):
    data = load(shared, f"raster2d_{case}")
    grid = Grid(int(data["width"]), int(data["height"]), 16)
    camera = xpr.Camera(jnp.eye(4), jnp.eye(3), width=grid.width, height=grid.height)

    def image(means2d, conics, colors, opacities, background, depths, radii):
        order = front_to_back(depths, radii.min(-1) > 0, 96)
        pick = [x[order.index] for x in (means2d, conics, colors, opacities, radii)]
        mean, conic, values, opacity, radius = pick
        record = EllipseSplat(
            xpr.Vec2.of(mean), xpr.Vec3.of(conic), jnp.log(opacity), xpr.Vec3.of(0 * conic)
        )
        boxes = rectangles(mean - radius, mean + radius, order.valid, grid)
        frame = Frame(
            record, order.valid, opacity, values, jnp.concatenate([mean - radius, mean + radius], 1),
            camera, grid, anatomy(record), xpr.Settings(),
        )  # fmt: skip
        request = Request(frame.anatomy, opacity.dtype, grid, frame.settings)
        chosen = backends.choose(request, backend)
        layers = chosen.composite(frame._replace(pairs=chosen.pair(frame, boxes, 2048)))
        light = layers.transmittance[..., None]
        return layers.features + light * background, 1 - light

    backgrounds = data.get("backgrounds", jnp.zeros((3, data["colors"].shape[-1])))
    names = ("means2d", "conics", "colors", "opacities")

    @jax.jit
    def stage(inputs, sorting, cotangents):
        found, pull = jax.vjp(lambda *x: image(*x, *sorting), *inputs)
        return found, pull(cotangents)

    radii = jnp.asarray(data["radii"], jnp.float64)
    for view in range(3):
        found, grads = stage(
            (*(data[k][view] for k in names), backgrounds[view]),
            (data["depths"][view], radii[view]),
            (data["v_image"][view], data["v_alpha"][view]),
        )
        assert absolute(found[0], data["image"][view]) < 1e-7
        assert absolute(found[1], data["alpha"][view]) < 1e-7
        for name, grad in zip((*names, "backgrounds"), grads, strict=True):
            if f"g_{name}" in data:
                assert relative(grad, data[f"g_{name}"][view]) < 1e-6, name
