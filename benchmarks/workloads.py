"""Scenes to measure: seeded ones of any size, stored ones, trained ones; of any method."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from xpr.cli.sources import is_run, scene_in
from xpr.errors import UserError
from xpr.math import logit
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train.config import TrainConfig
from xpr.types import Primitive

METHODS = ("3dgs", "3dgut", "linprim", "linprim-tetrahedron")
LARGE = 10_000  # splats of a seeded cloud whose sizes are those of `cloud`
NEARLY = 1e-6  # opacities stay so far away from 0 and 1, whose logits are infinite


class Workload(NamedTuple):
    """A scene and a view of it.

    Attributes:
      name: in tables.
      scene: of Gaussians, or of what it was trained as.
      camera: one view.
    """

    name: str
    scene: Primitive
    camera: xpr.Camera


def workload(name: str) -> Workload:
    """A stored workload, a run folder, or a seeded cloud: SPLATS@SIZE or SPLATS@WIDTHxHEIGHT.

    The splats of a cloud shrink as they grow in number, as in training, from 10,000 on.

    Raises:
      UserError: none of them.
    """
    if seeded := re.fullmatch(r"(\d+)@(\d+)(?:x(\d+))?", name):
        n, width, height = (int(word) for word in seeded.groups(seeded[2]))
        shrink = (LARGE / max(n, LARGE)) ** (1 / 3)
        return Workload(name, cloud(n, shrink), view(width, height))
    return load(Path(name))


def load(path: Path) -> Workload:
    """A stored workload (.npz) or the first held-out view of a run folder.

    Raises:
      UserError: neither.
    """
    if path.suffix == ".npz" and path.is_file():
        return _stored(path)
    if not is_run(path):
        raise UserError(
            f"{path} is neither a workload (.npz), a folder made by xpr train nor SPLATS@SIZE."
        )
    config = TrainConfig.load(path / "config.json")
    dataset = xpr.data.load(config.data, downscale=config.downscale)
    camera = dataset.views[dataset.test[0]].camera
    scene: Any = scene_in(path)
    return Workload(path.name, scene, jax.tree.map(jnp.asarray, camera))


def _stored(path: Path) -> Workload:
    with np.load(path) as file:
        stored = dict(file)
    opacity = jnp.clip(jnp.asarray(stored["opacities"]), NEARLY, 1 - NEARLY)
    scene = Gaussian3D(
        mean=jnp.asarray(stored["means"]),
        quat=jnp.asarray(stored["quats"]),
        log_scale=jnp.log(jnp.asarray(stored["scales"])),
        logit_opacity=logit(opacity),
        sh0=jnp.asarray(stored["sh"][:, :1]),
        shN=jnp.asarray(stored["sh"][:, 1:]),
    )
    camera = xpr.Camera(
        jnp.asarray(stored["viewmat"]),
        jnp.asarray(stored["K"]),
        width=int(stored["width"]),
        height=int(stored["height"]),
    )
    return Workload(path.stem, scene, camera)


def as_method(scene: Primitive, name: str) -> Primitive:
    """The scene with every Gaussian as a primitive of another built-in method that hides as much.

    Raises:
      UserError: it holds no Gaussians.
    """
    method: Any = xpr.methods.load(name)
    if type(scene) is method:
        return scene
    if not isinstance(scene, Gaussian3D):
        raise UserError(
            f"a scene of {type(scene).__name__} cannot be shown by {name!r}, expected Gaussians."
        )
    fields = {key: getattr(scene, key) for key in ("mean", "quat", "logit_opacity", "sh0", "shN")}
    if hasattr(method, "distances"):
        across = jnp.exp(scene.log_scale)
        mean = jnp.mean(across, axis=1, keepdims=True)
        axes = across if method.distances == across.shape[1] else jnp.tile(mean, method.distances)
        still = jnp.zeros(len(axes), axes.dtype)
        return method(**fields, log_distance=jnp.log(method.breadth() * axes), filter=still)
    return method(**fields, log_scale=scene.log_scale)


def cloud(n: int, shrink: float = 1) -> Gaussian3D:
    """Anisotropic Gaussians in a unit cube, small enough to be many and large enough to overlap.

    Args:
      n: how many.
      shrink: multiplies their sizes.
    """
    random = np.random.default_rng(n)
    scale = np.exp(random.uniform(np.log(0.01), np.log(0.03), (n, 1)))
    scale = scale * np.exp(random.normal(0, 0.5, (n, 3)))
    fields = {
        "mean": random.uniform(-0.5, 0.5, (n, 3)),
        "quat": random.standard_normal((n, 4)),
        "log_scale": np.log(shrink * scale),
        "logit_opacity": random.normal(0, 1.5, n),
        "sh0": random.uniform(-1.7, 1.7, (n, 1, 3)),
        "shN": random.normal(0, 0.08, (n, 15, 3)),
    }
    arrays: Any = {name: jnp.asarray(x, jnp.float32) for name, x in fields.items()}
    return Gaussian3D(**arrays)


def view(width: int, height: int | None = None) -> xpr.Camera:
    """A picture of the cube from 1.4 away, 50 degrees at its shorter side; square by default."""
    height = width if height is None else height
    focal = 0.5 * min(width, height) / np.tan(np.radians(25))
    K = jnp.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]], jnp.float32)
    viewmat = jnp.eye(4).at[2, 3].set(1.4)
    return xpr.Camera(viewmat, K, width=width, height=height)
