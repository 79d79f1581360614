"""What `render` takes: arrays of any kind come in, checked arrays of one dtype go on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.errors import UserError, expect_shape
from xpr.types import Array, Primitive, count


def admit(scene: Primitive, camera: Camera) -> tuple[Primitive, Camera]:
    """The scene and the camera as arrays of one dtype, the scene's.

    Leaves may be NumPy arrays of any precision: data loaders make such cameras.

    Raises:
      UserError: neither a scene nor a camera, unequal leading axes, a wrong shape or dtype.
    """
    _expect_type("scene", scene, Primitive, "Build one of xpr.methods, e.g. Gaussian3D.from_points")
    _expect_type("camera", camera, Camera, "Stack several with jax.tree.map over jnp.stack")
    scene = jax.tree.map(jnp.asarray, scene)
    _check_lengths(scene)
    dtype = dtype_of(scene)
    scene = jax.tree.map(lambda leaf: leaf.astype(dtype) if _is_floating(leaf) else leaf, scene)
    camera = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), camera)
    _check_camera(camera)
    return scene, camera


def admit_extras(
    scene: Primitive,
    camera: Camera,
    background: Array | None,
    features: Array | None,
    alive: Array | None,
) -> tuple[Array, Array | None, Array | None]:
    """The optional arguments of `render`, for an admitted scene and camera.

    Returns:
      The background, black if None; the features and `alive`, if any.

    Raises:
      UserError: a wrong shape.
    """
    dtype, n = dtype_of(scene), count(scene)
    background = jnp.zeros(3, dtype) if background is None else jnp.asarray(background, dtype)
    if camera.viewmat.ndim == 3 and background.ndim == 2:
        expect_shape("background", background, (len(camera.viewmat), 3), "One RGB per camera.")
    else:
        expect_shape("background", background, (3,), "Linear RGB.")
    if features is not None:
        features = jnp.asarray(features, dtype)
        expect_shape("features", features, (n, "F"), "One row per primitive.")
    if alive is not None:
        alive = jnp.asarray(alive).astype(bool)
        expect_shape("alive", alive, (n,), "One truth value per primitive.")
    return background, features, alive


def dtype_of(scene: Primitive) -> Any:
    """The dtype that a scene is rendered in: the widest of its floating leaves.

    Raises:
      UserError: half precision.
    """
    dtype = jnp.result_type(*(x.dtype for x in jax.tree.leaves(scene) if _is_floating(x)))
    if jnp.finfo(dtype).bits < 32:
        raise UserError(
            f"the scene is {dtype}, expected float32 or float64: half precision cannot tell pixels "
            "apart. Cast it: jax.tree.map(lambda x: x.astype('float32'), scene)."
        )
    return dtype


def _is_floating(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _expect_type(name: str, value: Any, kind: type, remedy: str) -> None:
    if not isinstance(value, kind):
        raise UserError(
            f"{name} is a {type(value).__name__}, expected an xpr.{kind.__name__}. {remedy}."
        )


def _check_lengths(scene: Primitive) -> None:
    shapes = {
        jax.tree_util.keystr(path): leaf.shape
        for path, leaf in jax.tree_util.tree_flatten_with_path(scene)[0]
    }
    if len({shape[:1] for shape in shapes.values()} | {()}) != 2:
        listed = ", ".join(f"{name[1:]} {shape}" for name, shape in shapes.items())
        raise UserError(
            f"the scene's leaves have no common leading axis N ({listed}). "
            "A single primitive is a scene with N = 1."
        )


def _check_camera(camera: Camera) -> None:
    one = camera
    if camera.viewmat.ndim == 3:
        lead = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(camera)}
        if len(lead) != 1:
            raise UserError(
                f"a batch of cameras has leading axes {sorted(lead)}, expected one length C on "
                "viewmat, K and distortion alike."
            )
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), camera)
    one.check()
