"""3DGUT against gsplat's PyTorch reference in float64: boxes, rays, images, normals, gradients."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from golden import absolute, load, relative
from scenes import QUICK

import xpr
from xpr import lens, sh
from xpr.math import logit
from xpr.methods.gaussian import Gaussian
from xpr.methods.gaussian3d_ut import Gaussian3DUT, unscented
from xpr.pipeline.order import survey

DENSE = xpr.Settings(tile_size=64, batch=1)  # one tile: every visible Gaussian in its list
INPUTS = ("means", "quats", "scales", "opacities", "colors", "background")
SPREADS = {"a1": 1.0, "a0.1": 0.1}


class StoredRays(xpr.Camera):
    """A camera that looks along an archive's rays [H * W, 6].

    gsplat makes its rays of poses rounded to float32 quaternions; ours differ in the seventh digit.
    """

    stored: jax.Array = struct.field(kw_only=True)

    def rays(self, pixels):
        column, row = (jnp.floor(pixels[..., i]).astype(int) for i in range(2))
        inside = (column < self.width) & (row < self.height)
        index = jnp.where(inside, row * self.width + column, 0)
        along = self.stored[index]
        origin, direction = xpr.Vec3.of(along[..., :3]), xpr.Vec3.of(along[..., 3:])
        return xpr.Ray(xpr.Vec2.of(pixels), origin, direction)


def cameras(case, data, kind=xpr.Camera, **more):
    """The batch of views of an archive."""
    shape = {"pinhole": lens.Pinhole(), "ortho": lens.Orthographic(), "opencv": lens.OpenCV()}
    distortion = None
    if "opencv" in case:
        k = jnp.concatenate(
            [data["radial_coeffs"], data["tangential_coeffs"], data["thin_prism_coeffs"]], axis=-1
        )
        distortion = k[:, jnp.array([0, 1, 6, 7, 2, 3, 4, 5, 8, 9, 10, 11])]
    if "fisheye" in case:
        shape["fisheye"], distortion = lens.OpenCVFisheye(), data["radial_coeffs"]
    if (rolling := int(data.get("rolling_shutter", 4))) < 4:
        order = ("top_to_bottom", "left_to_right", "bottom_to_top", "right_to_left")[rolling]
        more |= {"viewmat_end": data["viewmats_rs"], "shutter": order}
    return kind(
        data["viewmats"],
        data["Ks"],
        distortion,
        width=int(data["width"]),
        height=int(data["height"]),
        lens=next(found for name, found in shape.items() if name in case),
        **more,
    )


def one_scene(inputs, colors, **settings):
    """The archive's Gaussians, all of one view's colours."""
    return Gaussian3DUT(
        inputs["means"],
        inputs["quats"],
        jnp.log(inputs["scales"]),
        logit(inputs["opacities"]),
        ((colors[:, :3] - 0.5) / sh.C0)[:, None],
        jnp.zeros((len(colors), 0, 3), colors.dtype),
        variant="gsplat",
        spread=0.1,
        **settings,
    )


def render(case, inputs, data, *, backend, settings=DENSE, **static):
    """Colours (with hit distances where the archive has them), alphas and normals of all views."""
    views, images = cameras(case, data, StoredRays, stored=data["rays"]), []
    for i in range(len(data["viewmats"])):
        output = xpr.render(
            one_scene(inputs, inputs["colors"][i], **static),
            jax.tree.map(lambda leaf, i=i: leaf[i], views),
            background=inputs["background"][i, :3],
            capacity=xpr.Capacity(80, 1024),
            alive=jnp.asarray((data["radii"][i] > 0).all(-1)),
            backend=backend,
            settings=settings,
        )
        image = output.color
        if data["image"].shape[-1] == 4:
            depth = output.depth + (1 - output.alpha) * inputs["background"][i, 3]
            image = jnp.concatenate([image, depth[..., None]], axis=-1)
        images.append((image, output.alpha[..., None], output.features))
    image, alpha, normals = zip(*images, strict=True)
    return jnp.stack(image), jnp.stack(alpha), None if normals[0] is None else jnp.stack(normals)


def precision(bits):
    """(context, dtype, tolerance of images, of gradients)."""
    if bits == 64:
        return jax.enable_x64(True), jnp.float64, 1e-7, 1e-6
    return contextlib.nullcontext(), jnp.float32, 3e-6, 2e-5


@pytest.mark.parametrize(
    "bits, backend, case",
    [
        (32, "xla", "pinhole_global_dense_hitnormal"),
        (64, "xla", "pinhole_global_dense_hitnormal"),
        (64, "xla", "ortho_global_dense"),
        (64, "xla", "opencv_global_dense"),
        (64, "xla", "fisheye_global_dense"),
        (64, "xla", "pinhole_ttb_dense"),
        (32, "xla", "pinhole_ttb_dense"),
    ],
)
def test_images_and_all_gradients_are_those_of_gsplat(bits, case, backend, shared):
    context, dtype, image_tolerance, gradient_tolerance = precision(bits)
    with context:
        data = load(shared, f"gut_{case}", dtype)
        normals = "normals" in data

        @functools.partial(jax.jit, compiler_options=QUICK)
        def run(inputs, cotangents):
            found, pull = jax.vjp(
                lambda inputs: render(case, inputs, data, backend=backend, normals=normals), inputs
            )
            return found, pull(cotangents)[0]

        inputs = {key: jnp.asarray(data[key], dtype) for key in INPUTS}
        cotangents = (data["v_image"], data["v_alpha"], data.get("v_normals"))
        found, grads = run(inputs, cotangents)
    assert absolute(found[0], data["image"]) < image_tolerance
    assert absolute(found[1], data["alpha"]) < image_tolerance
    if normals:
        assert absolute(found[2], data["normals"]) < image_tolerance
    for name in INPUTS:
        error = relative(grads[name], data[f"g_{name}"])
        assert error < gradient_tolerance, f"gradient of {name}: {error:.1e}"


@pytest.mark.parametrize("case", ["pinhole", "ortho"])
def test_what_is_visible_is_what_gsplat_sees(case, shared, x64):
    data = load(shared, f"gut_{case}_global_dense")
    scene = one_scene(data, data["colors"][0])
    seen = jax.vmap(lambda view: survey(scene, view).seen)(cameras(case, data))
    assert np.array_equal(seen, (data["radii"] > 0).all(-1))


def test_tiles_of_sixteen_show_what_one_tile_shows(shared, x64):
    """The box cuts nothing that is seen: it holds the outline beside the unscented transform's."""
    data = load(shared, "gut_pinhole_global_dense")
    inputs = {key: data[key] for key in INPUTS}
    draw = functools.partial(
        render, "pinhole", data=data, backend="xla", settings=xpr.Settings(tile_size=16)
    )
    image, alpha, _ = jax.jit(draw, compiler_options=QUICK)(inputs)
    assert absolute(image, data["image"]) < 1e-7
    assert absolute(alpha, data["alpha"]) < 1e-7


@pytest.mark.parametrize(
    "case", ["pinhole_global", "opencv_global", "fisheye_global", "ortho_global", "pinhole_ttb"]
)
def test_rays_are_those_of_gsplat(case, shared, x64):
    data = load(shared, f"gut_{case}_dense")
    height, width = int(data["height"]), int(data["width"])
    y, x = np.mgrid[:height, :width] + 0.5
    rays = jax.vmap(lambda view: view.rays(jnp.asarray(np.stack([x, y], axis=-1))))(
        cameras(case, data)
    )
    found = jnp.stack([*rays.origin, *rays.direction], axis=-1).reshape(data["rays"].shape)
    assert absolute(found, data["rays"]) < 2e-7


PROJECTIONS = (
    *("pinhole_global_a1", "pinhole_global_a0.1", "fisheye_global_a1", "ortho_global_a0.1"),
    *("pinhole_ttb_a0.1", "pinhole_ltr_a0.1", "opencv_ttb_a1"),
)


@pytest.mark.parametrize("case", PROJECTIONS)
def test_the_unscented_projection_and_its_gradients_are_those_of_gsplat(case, shared, x64):
    data = load(shared, f"proj_ut_{case}")
    spread, views = SPREADS[case.split("_")[-1]], cameras(case, data)
    visible = np.asarray((data["radii"] > 0).all(-1))

    def project(mean, quat, scale, view):
        gaussian = Gaussian(mean, quat, scale, jnp.ones(()), jnp.zeros(3))
        center, sharp, landing = unscented(gaussian, view, spread)
        # Outside the picture gsplat's fisheye stops at the largest angle that it holds.
        seen = jnp.all(landing.within(view, 0))
        center, sharp = jnp.where(seen, center, 0), jnp.where(seen, sharp, jnp.eye(2))
        blurred = sharp + 0.3 * jnp.eye(2)
        ratio = jnp.linalg.det(sharp) / jnp.linalg.det(blurred)
        conic = jnp.linalg.inv(blurred)[jnp.array([0, 0, 1]), jnp.array([0, 1, 1])]
        faded = jnp.sqrt(jnp.maximum(ratio, 1e-12))
        depth = view.sort_key(mean)
        return (center, conic, faded, depth), (jnp.diag(blurred), seen)

    def all_views(means, quats, scales):
        of_one = jax.vmap(project, (0, 0, 0, None))
        return jax.vmap(lambda view: of_one(means, quats, scales, view))(views)

    @functools.partial(jax.jit, compiler_options=QUICK)
    def run(fields, cotangents):
        found, pull, rest = jax.vjp(all_views, *fields, has_aux=True)
        return found, rest, pull(cotangents)

    names = ("means2d", "conics", "compensations", "depths")
    cotangents = tuple(
        jnp.where(
            visible.reshape(visible.shape + (1,) * (data[name].ndim - 2)), data[f"v_{name}"], 0
        )
        for name in names
    )
    fields = [data[name] for name in ("means", "quats", "scales")]
    found, (variance, seen), grads = run(fields, cotangents)
    kept = visible & np.asarray(seen)
    assert kept.sum() > 300
    for name, mine in zip(names, found, strict=True):
        # Its poses are float32 quaternions.
        assert relative(mine[kept], data[name][kept]) < 1e-5, name
    # gsplat bounds the box by an opacity that falls with the blur.
    reach = jnp.sqrt(2 * jnp.log(jnp.maximum(255 * data["opacities"] * found[2], 1)))[..., None]
    half = jnp.minimum(reach, 3.33) * jnp.sqrt(variance)
    assert absolute(np.ceil(half[kept]), data["radii"][kept]) == 0
    whole = np.all(~visible | np.asarray(seen), axis=0)
    assert whole.sum() > 100
    for name, mine in zip(("means", "quats", "scales"), grads, strict=True):
        assert relative(mine[whole], data[f"g_{name}"][whole]) < 1e-5, name
