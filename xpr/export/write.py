"""Writes exported files."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export

from xpr.camera import Camera
from xpr.errors import UserError
from xpr.export.manifest import FORMAT, FRAMES, MANIFEST, SCENE, UNITS, VERSION
from xpr.files import atomic_write
from xpr.pipeline.capacity import Capacity
from xpr.pipeline.render import plan, render
from xpr.train.loss import photometric_loss
from xpr.types import Array, Primitive, count

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
BACKEND = "xla"  # the one that every platform has

Inputs = dict[str, Any]


def save(
    scene: Primitive,
    cameras: Sequence[Camera],
    path: str | Path,
    *,
    sizes: Sequence[tuple[int, int]] = (),
    platforms: Sequence[str] = PLATFORMS,
    baked: bool = True,
    gradient: bool = False,
) -> dict[str, Any]:
    """Compile the rendering of a scene to StableHLO and write it to one file.

    Args:
      scene: N primitives.
      cameras: views of one lens; buffers are sized for them, and the first is the manifest's
        example, at the first size. Other views may need more: the output `overflow` then says so.
      path: the file.
      sizes: width and height of each function; that of the first camera if none.
      platforms: among `PLATFORMS`.
      baked: whether the scene is part of the functions, or an argument that the file holds.
      gradient: whether to add the value and gradient of the image loss.

    Returns:
      The manifest.

    Raises:
      UserError: no cameras or primitives, different lenses, a rolling shutter, or an unknown
        platform.
      OSError: the folder does not exist or cannot be written.
    """
    _check(scene, cameras, platforms)
    names, leaves, rebuild = _taken_apart(scene)
    functions, contents = [], {}
    sizes = sizes or [(cameras[0].width, cameras[0].height)]
    for width, height in sizes:
        views = [camera.resized(width, height) for camera in cameras]
        capacity = plan(scene, views)
        for kind, function in _functions(rebuild, views[0], capacity, gradient).items():
            inputs = _inputs(views[0], {} if baked else dict(zip(names, leaves, strict=True)))
            if kind == "gradient":
                inputs["target"] = jnp.zeros((height, width, 3), jnp.float32)
            function = _baking(function, dict(zip(names, leaves, strict=True)), baked)
            exported = jax_export.export(jax.jit(function), platforms=platforms)(inputs)
            name = f"{kind}_{width}x{height}"
            contents[f"{name}.bin"] = bytes(exported.serialize())
            entry = {"name": name, "kind": kind, "width": width, "height": height}
            entry |= {"file": f"{name}.bin", "capacity": dataclasses.asdict(capacity)}
            entry |= {"inputs": _described(inputs), "outputs": _described(_nested(exported))}
            functions.append(entry)
    if not baked:
        contents[SCENE] = _archived(dict(zip(names, leaves, strict=True)))
    manifest = _manifest(scene, cameras[0].resized(*sizes[0]), platforms, baked)
    manifest["functions"] = functions
    manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    with atomic_write(Path(path)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, data in {MANIFEST: json.dumps(manifest, indent=1).encode(), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return manifest


def _check(scene: Primitive, cameras: Sequence[Camera], platforms: Sequence[str]) -> None:
    if not cameras or not count(scene):
        raise UserError("an export needs at least one camera and one primitive.")
    lenses = {type(camera.lens).__name__ for camera in cameras}
    if len(lenses) > 1:
        raise UserError(f"the cameras have the lenses {', '.join(sorted(lenses))}, expected one.")
    if any(camera.viewmat_end is not None for camera in cameras):
        raise UserError(
            "an exported function takes one pose, but a camera has a rolling shutter. Export it "
            "frozen: camera.at(0.5)."
        )
    unknown = [name for name in platforms if name not in PLATFORMS]
    if unknown or not platforms:
        raise UserError(
            f"unknown platform {unknown[0] if unknown else ''!r}, expected some of "
            f"{', '.join(PLATFORMS)}."
        )


def _taken_apart(
    scene: Primitive,
) -> tuple[list[str], list[Array], Callable[[Inputs], Primitive]]:
    """A scene's leaves with their names, and how to put them together again."""
    found, tree = jax.tree.flatten_with_path(scene)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in found]
    return (
        names,
        [jnp.asarray(leaf) for _, leaf in found],
        lambda parts: jax.tree.unflatten(tree, [parts[name] for name in names]),
    )


def _functions(
    rebuild: Callable[[Inputs], Primitive], view: Camera, capacity: Capacity, gradient: bool
) -> dict[str, Callable[[Inputs], dict[str, Any]]]:
    """What is exported for one size: functions from one dict of arrays to another."""

    def image(inputs: Inputs) -> dict[str, Any]:
        camera = view.replace(
            viewmat=inputs["viewmat"], K=inputs["K"], distortion=inputs.get("distortion")
        )
        output = render(
            rebuild(inputs["scene"]),
            camera,
            capacity=capacity,
            background=inputs["background"],
            backend=BACKEND,
        )
        full = output.overflow.any
        layers = {"color": output.color, "alpha": output.alpha, "depth": output.depth}
        return layers | {"overflow": full}

    def loss(inputs: Inputs, target: Array) -> tuple[Array, Array]:
        output = image(inputs)
        return photometric_loss(output["color"], target), output["overflow"]

    def value_and_gradient(inputs: Inputs) -> dict[str, Any]:
        inputs = dict(inputs)
        target = inputs.pop("target")
        (value, full), slopes = jax.value_and_grad(loss, has_aux=True)(inputs, target)
        return {"loss": value, "gradient": slopes, "overflow": full}

    return {"render": image} | ({"gradient": value_and_gradient} if gradient else {})


def _baking(
    function: Callable[[Inputs], dict[str, Any]], leaves: Inputs, baked: bool
) -> Callable[[Inputs], dict[str, Any]]:
    """`function` with the scene as constants, whose gradient nobody can use; or as it is."""
    if not baked:
        return function

    def constant(inputs: Inputs) -> dict[str, Any]:
        outputs = function({**inputs, "scene": leaves})
        if "gradient" in outputs:
            del outputs["gradient"]["scene"]
        return outputs

    return constant


def _inputs(view: Camera, scene: Inputs) -> Inputs:
    """One call's arguments: those of the example view."""
    arrays = {"viewmat": view.viewmat, "K": view.K, "background": np.zeros(3)}
    if view.distortion is not None:
        arrays["distortion"] = view.distortion
    inputs: Inputs = {name: jnp.asarray(value, jnp.float32) for name, value in arrays.items()}
    return inputs | ({"scene": scene} if scene else {})


def _nested(exported: jax_export.Exported) -> dict[str, Any]:
    return jax.tree.unflatten(exported.out_tree, exported.out_avals)


def _described(arrays: dict[str, Any]) -> dict[str, Any]:
    """Shape, type and unit of each array, by its name."""
    described = {}
    for name, value in arrays.items():
        if isinstance(value, dict):
            described[name] = {"unit": UNITS.get(name, ""), "of": _described(value)}
        else:
            described[name] = {"shape": list(value.shape), "dtype": str(value.dtype)}
            described[name] |= {"unit": UNITS[name]} if name in UNITS else {}
    return described


def _archived(leaves: Inputs) -> bytes:
    stream, arrays = io.BytesIO(), {name: np.asarray(leaf) for name, leaf in leaves.items()}
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def _manifest(
    scene: Primitive, view: Camera, platforms: Sequence[str], baked: bool
) -> dict[str, Any]:
    example = {"viewmat": view.viewmat, "K": view.K, "distortion": view.distortion}
    return {
        "format": FORMAT,
        "version": VERSION,
        "platforms": list(platforms),
        "scene": {"method": type(scene).__name__, "count": count(scene), "baked": baked},
        "lens": {"name": type(view.lens).__name__, "coefficients": list(view.lens.coefficients)},
        "frames": FRAMES,
        "versions": {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")},
        "example": {
            "width": view.width,
            "height": view.height,
            "background": [0.0, 0.0, 0.0],
            **{name: np.asarray(v).tolist() for name, v in example.items() if v is not None},
        },
    }
