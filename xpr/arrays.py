"""One function of arrays with gsplat's names, so that code written for it moves over in a line."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from xpr import sh
from xpr.camera import Camera
from xpr.errors import UserError, expect_shape
from xpr.lens import Lens, OpenCV, OpenCVFisheye, Orthographic, Pinhole
from xpr.math import normalize
from xpr.methods.gaussian import Gaussian
from xpr.methods.gaussian3d import splat
from xpr.pipeline.capacity import Capacity
from xpr.pipeline.order import project
from xpr.pipeline.render import Output, render
from xpr.pipeline.settings import Settings
from xpr.shutter import ORDERS, SHUTTERS
from xpr.types import Array, Primitive, Projected

GLOBAL = 4  # gsplat's RollingShutterType.GLOBAL
RENDER_MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")

# gsplat's arguments that xpr does not offer: the only value taken, and what to do instead.
FIXED = {
    "sparse_grad": (False, "Gradients are dense arrays here."),
    "absgrad": (False, "Density control here (MCMC) does not use it."),
    "distributed": (False, "Shard with jax.jit over a mesh instead."),
    "covars": (None, "Give quats and scales."),
    "with_ut": (False, "The unscented transform is a method of its own, not an option."),
    "with_eval3d": (False, "Evaluation along the ray is a method of its own, not an option."),
    "ftheta_coeffs": (None, "Use camera_model='fisheye' with radial_coeffs."),
}
# Arguments that choose a memory layout or a kernel in gsplat and cannot change the image.
LAYOUT = ("packed", "segmented", "channel_chunk")


class PhysicalGaussian(Primitive):
    """A Gaussian whose fields are what gsplat takes. Attributes as in `rasterization`.

    color is [3], or [K, 3] spherical harmonics where `is_sh`. Static: the last four.
    """

    mean: Array
    quat: Array
    scale: Array
    opacity: Array
    color: Array
    is_sh: bool = struct.field(pytree_node=False, default=False)
    eps2d: float = struct.field(pytree_node=False, default=0.3)
    antialiased: bool = struct.field(pytree_node=False, default=False)
    radius_clip: float = struct.field(pytree_node=False, default=0.0)

    def project(self, camera: Camera) -> Projected:
        """The ellipse of 3DGS; culled where its radius is at most `radius_clip` px."""
        color = self.color
        if self.is_sh:
            direction = normalize(self.mean - camera.position)
            color = sh.color(color, direction)
        gaussian = Gaussian(self.mean, self.quat, self.scale, self.opacity, color)
        projected = splat(gaussian, camera, eps2d=self.eps2d, antialiased=self.antialiased)
        small = jnp.all(jnp.ceil(projected.extent) <= self.radius_clip)
        return projected._replace(extent=jnp.where(small, 0, projected.extent))


def rasterization(  # noqa: PLR0917 - gsplat's order
    means: Array,
    quats: Array,
    scales: Array,
    opacities: Array,
    colors: Array,
    viewmats: Array,
    Ks: Array,
    width: int,
    height: int,
    *,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    tile_size: int | None = None,
    backgrounds: Array | None = None,
    render_mode: str = "RGB",
    rasterize_mode: str = "classic",
    camera_model: str = "pinhole",
    radial_coeffs: Array | None = None,
    tangential_coeffs: Array | None = None,
    thin_prism_coeffs: Array | None = None,
    rolling_shutter: Any = GLOBAL,
    viewmats_rs: Array | None = None,
    capacity: Capacity | None = None,
    backend: str = "auto",
    **others: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Rasterise 3D Gaussians, as `gsplat.rasterization` does.

    Args:
      means: [N, 3] world units.
      quats: [N, 4] (w, x, y, z), any norm.
      scales: [N, 3] standard deviations, linear.
      opacities: [N] in [0, 1].
      colors: [N, D] or [C, N, D]; with `sh_degree` [N, K, 3] or [C, N, K, 3].
      viewmats: [C, 4, 4] camera-from-world, OpenCV axes.
      Ks: [C, 3, 3] px.
      width: px.
      height: px.
      near_plane: what is closer is culled, world units.
      far_plane: what is farther is culled.
      radius_clip: px; splats of at most this radius are culled.
      eps2d: px^2 added to the projected variance.
      sh_degree: the degree to evaluate; K may hold more coefficients.
      tile_size: px; the measured one of the platform if None.
      backgrounds: [C, D]; black if None.
      render_mode: RGB, D (accumulated depth), ED (expected depth), RGB+D or RGB+ED.
      rasterize_mode: "classic" or "antialiased".
      camera_model: "pinhole", "ortho" or "fisheye".
      radial_coeffs: [C, 6] or [C, 4] for a pinhole (OpenCV's k1-k6), [C, 4] for a fisheye.
      tangential_coeffs: [C, 2], pinhole.
      thin_prism_coeffs: [C, 4], pinhole.
      rolling_shutter: gsplat's enumeration or its number (4 is a global shutter), or one of
        `xpr.shutter.SHUTTERS`.
      viewmats_rs: [C, 4, 4] poses at the end of the exposure, for a rolling shutter.
      capacity: needed under `jax.jit`; see `xpr.render`.
      backend: see `xpr.render`.
      **others: gsplat's `packed`, `segmented` and `channel_chunk` are accepted (they choose a
        memory layout there and cannot change the image); the rest only at the value that means
        "off".

    Returns:
      render_colors [C, H, W, X], render_alphas [C, H, W, 1], and a dict: means2d [C, N, 2], radii
      [C, N, 2] (int32, 0 where culled), depths [C, N], conics [C, N, 3], opacities [C, N] (after
      antialiasing), width, height, tile_size, n_cameras, overflow.

    Raises:
      UserError: an argument that is not supported, or a wrong shape or mode.
    """
    _refuse(others)
    _choose("render_mode", render_mode, RENDER_MODES)
    _choose("rasterize_mode", rasterize_mode, ("classic", "antialiased"))
    n, views = len(means), len(viewmats)
    _check_arrays(means, quats, scales, opacities, viewmats, Ks)
    lens, distortion = _lens(camera_model, radial_coeffs, tangential_coeffs, thin_prism_coeffs)
    cameras = Camera(
        viewmats, Ks, distortion, width=width, height=height, lens=lens,
        near=near_plane, far=far_plane, viewmat_end=viewmats_rs, shutter=_shutter(rolling_shutter),
    )  # fmt: skip
    settings = Settings.for_this_machine()
    if tile_size is not None:
        settings = dataclasses.replace(settings, tile_size=tile_size)
    per_view = _colors(colors, n, views, sh_degree)
    is_color = per_view[0].shape[-1] == 3

    def scene_of(color: Array) -> PhysicalGaussian:
        return PhysicalGaussian(
            means, quats, scales, opacities, color if is_color else jnp.zeros((n, 3), means.dtype),
            is_sh=sh_degree is not None, eps2d=eps2d, radius_clip=radius_clip,
            antialiased=rasterize_mode == "antialiased",
        )  # fmt: skip

    def view(cameras: Camera, color: Array) -> Output:
        return render(
            scene_of(color), cameras, features=None if is_color else color,
            capacity=capacity, backend=backend, settings=settings,
        )  # fmt: skip

    if len(per_view) == 1:
        output = view(cameras, per_view[0])
    else:
        each = [jax.tree.map(lambda leaf, i=i: leaf[i], cameras) for i in range(views)]
        parts = [view(one, color) for one, color in zip(each, per_view, strict=True)]
        output = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    meta = _meta(scene_of(per_view[0]), cameras) | {
        "width": width,
        "height": height,
        "tile_size": settings.tile_size,
        "n_cameras": views,
        "overflow": output.overflow,
    }
    return _channels(output, render_mode, backgrounds), output.alpha[..., None], meta


def _channels(output: Output, mode: str, backgrounds: Array | None) -> Array:
    color = output.color if output.features is None else output.features
    if backgrounds is not None:
        expect_shape("backgrounds", backgrounds, (color.shape[0], color.shape[-1]))
        color = color + (1 - output.alpha[..., None]) * backgrounds[:, None, None]
    parts = {"RGB": color, "D": output.depth[..., None], "ED": output.expected_depth[..., None]}
    return jnp.concatenate([parts[name] for name in mode.split("+")], axis=-1)


def _colors(colors: Array, n: int, views: int, sh_degree: int | None) -> list[Array]:
    """One array for all views, or one a view."""
    one = ("N", "K", 3) if sh_degree is not None else ("N", "D")
    batched = len(colors.shape) == len(one) + 1
    expect_shape("colors", colors, (views, n, *one[1:]) if batched else (n, *one[1:]))
    if sh_degree is not None:
        used = sh.coefficients(sh_degree)
        if not 0 <= sh_degree <= sh.MAX_DEGREE or colors.shape[-2] < used:
            raise UserError(
                f"sh_degree is {sh_degree} with {colors.shape[-2]} coefficients, expected a degree "
                f"from 0 to {sh.MAX_DEGREE} with at least (degree + 1)^2 coefficients."
            )
        colors = colors[..., :used, :]
    return list(colors) if batched else [colors]


def _lens(
    model: str, radial: Array | None, tangential: Array | None, prism: Array | None
) -> tuple[Lens, Array | None]:
    _choose("camera_model", model, ("pinhole", "ortho", "fisheye"))
    given = [c for c in (radial, tangential, prism) if c is not None]
    if model == "fisheye":
        if tangential is not None or prism is not None:
            raise UserError("camera_model 'fisheye' takes radial_coeffs [C, 4] only.")
        return OpenCVFisheye(), radial
    if not given:
        return (Pinhole() if model == "pinhole" else Orthographic()), None
    if model == "ortho":
        raise UserError("camera_model 'ortho' takes no distortion coefficients.")

    def or_zero(coefficients: Array | None, length: int) -> Array:
        if coefficients is None:
            return jnp.zeros((len(given[0]), length), given[0].dtype)
        missing = length - coefficients.shape[-1]
        return jnp.pad(coefficients, ((0, 0), (0, missing)))

    k, p, s = or_zero(radial, 6), or_zero(tangential, 2), or_zero(prism, 4)
    return OpenCV(), jnp.concatenate([k[:, :2], p, k[:, 2:], s], axis=-1)


def _shutter(kind: Any) -> str:
    if kind in SHUTTERS:
        return kind
    number = getattr(kind, "value", kind)
    if number not in range(len(ORDERS) + 1):
        raise UserError(
            f"rolling_shutter is {kind!r}, expected gsplat's enumeration or one of {', '.join(SHUTTERS)}."
        )
    return [*ORDERS, "global"][number]


def _meta(scene: PhysicalGaussian, cameras: Camera) -> dict[str, Any]:
    projected = jax.vmap(lambda camera: project(scene, camera))(cameras)
    record, seen = projected.splat, jnp.all(projected.extent > 0, axis=-1, keepdims=True)
    return {
        "means2d": projected.center,
        "radii": jnp.where(seen, jnp.ceil(projected.extent), 0).astype(jnp.int32),
        "depths": projected.depth,
        "conics": jnp.stack(list(record.conic), axis=-1),  # pyright: ignore[reportAttributeAccessIssue]
        "opacities": jnp.exp(record.log_opacity),  # pyright: ignore[reportAttributeAccessIssue]
    }


def _check_arrays(
    means: Array, quats: Array, scales: Array, opacities: Array, viewmats: Array, Ks: Array
) -> None:
    n, hint = len(means), "Batches of scenes go through jax.vmap."
    expect_shape("means", means, ("N", 3), hint)
    expect_shape("quats", quats, (n, 4), hint)
    expect_shape("scales", scales, (n, 3), hint)
    expect_shape("opacities", opacities, (n,), hint)
    expect_shape("viewmats", viewmats, ("C", 4, 4), "Give one view as viewmats[None].")
    expect_shape("Ks", Ks, (len(viewmats), 3, 3), "One matrix a view.")


def _refuse(others: dict[str, Any]) -> None:
    for name, value in others.items():
        if name in LAYOUT:
            continue
        if name not in FIXED:
            raise UserError(f"rasterization takes no argument {name!r}.")
        elif value is not FIXED[name][0]:
            wanted, remedy = FIXED[name]
            raise UserError(f"{name} is not supported, expected {wanted!r}. {remedy}")


def _choose(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{name} is {value!r}, expected one of {', '.join(known)}.")
