"""Whole renders and all their gradients against gsplat's PyTorch reference in float64."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import GsplatFisheye, absolute, load, relative

import xpr

INPUTS = ("means", "quats", "scales", "opacities", "sh", "viewmats", "Ks", "background")
CASES = ("pinhole_classic", "pinhole_antialiased", "fisheye_classic", "ortho_classic")


def rasterize(case, data, backend):
    model, mode = case.split("_")
    return xpr.rasterization(
        *(data[k] for k in ("means", "quats", "scales", "opacities", "sh", "viewmats", "Ks")),
        int(data["width"]),
        int(data["height"]),
        sh_degree=3,
        backgrounds=data["background"],
        render_mode="RGB+D",
        rasterize_mode=mode,
        camera_model=model,
        radial_coeffs=jnp.zeros_like(data["Ks"][:, 0, :1].repeat(4, 1)) if "fish" in case else None,
        capacity=xpr.Capacity(128, 8192),
        backend=backend,
    )


def render_with_gradients(case, data, backend):
    """((image and depth, alpha), gradients of sum(v * output) for every input)."""

    size = {key: int(data[key]) for key in ("width", "height")}

    @jax.jit
    def run(inputs, cotangents):
        def outputs(inputs):
            image, alpha, meta = rasterize(case, inputs | size, backend)
            return (image, alpha), meta["overflow"].any

        found, pull, overflow = jax.vjp(outputs, inputs, has_aux=True)
        return found, pull(cotangents)[0], overflow

    inputs = {key: data[key] for key in INPUTS}
    found, grads, overflow = run(inputs, (data["v_image"], data["v_alpha"]))
    assert not overflow.any()
    return jax.tree.map(np.asarray, (found, grads))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("bits", "backend"),
    [(32, "reference"), (32, "xla"), (32, "cpu"), (64, "reference"), (64, "xla")],
)
def test_images_and_all_gradients_are_those_of_gsplat(bits, case, backend, shared, monkeypatch):
    monkeypatch.setattr("xpr.arrays.OpenCVFisheye", GsplatFisheye)
    image_tolerance, gradient_tolerance = {32: (3e-6, 2e-5), 64: (1e-7, 1e-6)}[bits]
    with jax.enable_x64(True) if bits == 64 else contextlib.nullcontext():
        data = load(shared, f"e2e_{case}", jnp.float64 if bits == 64 else jnp.float32)
        (image, alpha), grads = render_with_gradients(case, data, backend)
        data = jax.tree.map(np.asarray, data)
    assert absolute(image[..., :3], data["image"]) < image_tolerance
    assert absolute(image[..., 3:], data["depth"]) < image_tolerance
    assert absolute(alpha, data["alpha"]) < image_tolerance
    # gsplat's Jacobian leaves the skew out; ours does not: its gradient is checked by finite
    # differences, and here all other entries are.
    used = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]])
    for name in INPUTS:
        mask = used if name == "Ks" else 1
        error = relative(grads[name] * mask, data[f"g_{name}"] * mask)
        assert error < gradient_tolerance, f"gradient of {name}: {error:.1e}"


def test_the_fisheye_without_gsplats_additions_differs_by_them_only(shared, x64):
    data = load(shared, "e2e_fisheye_classic")
    image, alpha, _ = rasterize("fisheye_classic", data, "xla")
    assert absolute(image[..., :3], data["image"]) < 1e-6
    assert absolute(alpha, data["alpha"]) < 1e-6
