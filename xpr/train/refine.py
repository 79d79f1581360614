"""Refining the cameras together with the scene: poses, intrinsics and distortion.

A correction belongs to a training view (pose) or to a body, which is what photos with the same
intrinsics were taken with. It starts at zero. A row moves only when one of its photos is seen, by
Adam with one second moment a row: in whitened numbers (`xpr.train.strides`) the gradient leads
straight to the goal, and a number that the photo hardly tells is not blown up to the size of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from xpr.camera import Camera
from xpr.errors import UserError
from xpr.math import rotation_exp
from xpr.types import Array

PARTS = ("poses", "intrinsics", "distortion")
FAST, SLOW, EPS = 0.5, 0.9, 1e-15  # Adam's; a view is seen too seldom for a longer memory


class Correction(struct.PyTreeNode):
    """What is added to the cameras, or any number per entry of it; None where a part is fixed.

    Attributes:
      poses: [V, 6] a small motion in each camera's frame: turn (rad), then shift (in extents).
      intrinsics: [G, 4] logarithms of what stretches the two focal lengths, then shift of the
        principal point (in widths and heights).
      distortion: [G, n] of the coefficients.
    """

    poses: Array | None
    intrinsics: Array | None
    distortion: Array | None


class Refinement(struct.PyTreeNode):
    """The corrections of a run with their Adam moments.

    Attributes:
      correction: now.
      mu: first moments.
      nu: second moments, [V, 1] or [G, 1]: of each row the mean.
      seen: how often each row was moved, [V, 1] or [G, 1].
    """

    correction: Correction
    mu: Correction
    nu: Correction
    seen: Correction


class Place(NamedTuple):
    """The rows of one photo: its view's [] and its body's [], int."""

    view: Array | np.ndarray
    body: Array | np.ndarray


def parts_of(text: str) -> tuple[str, ...]:
    """The parts that a setting such as "poses,distortion" names.

    Raises:
      UserError: it names something else.
    """
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [part for part in parts if part not in PARTS]:
        raise UserError(
            f"optimize names {unknown[0]!r}, expected some of {', '.join(PARTS)}, separated by "
            "commas."
        )
    return parts


def bodies(cameras: Sequence[Camera]) -> np.ndarray:
    """[V] the body of each camera: those with equal size, lens, K and distortion share one."""
    known: dict[tuple, int] = {}
    found = []
    for camera in cameras:
        values = (np.asarray(camera.K), np.asarray(camera.distortion))
        key = (camera.lens, camera.width, camera.height, *(value.tobytes() for value in values))
        found.append(known.setdefault(key, len(known)))
    return np.array(found, np.int32)


def start(parts: Sequence[str], cameras: Sequence[Camera]) -> Refinement | None:
    """Corrections of zero for these views; None where no part is to be refined.

    Raises:
      UserError: the distortion of lenses that state no coefficient.
    """
    if not parts:
        return None
    views, groups = len(cameras), int(bodies(cameras).max()) + 1
    width = stated(cameras).shape[1]
    if "distortion" in parts and not width:
        raise UserError(
            "optimize names distortion, but no camera of the dataset states a coefficient that is "
            "not zero. Leave it out, or state the lens's model with a first guess."
        )
    shapes = {"poses": (views, 6), "intrinsics": (groups, 4), "distortion": (groups, width)}
    named = {part: jnp.zeros(shapes[part]) if part in parts else None for part in PARTS}
    zero = Correction(**named)
    rows = jax.tree.map(lambda x: jnp.zeros((len(x), 1)), zero)
    return Refinement(zero, zero, rows, rows)


def stated(cameras: Sequence[Camera]) -> np.ndarray:
    """[G, n] bool: which coefficients of each body the dataset states, that is, gives not as zero.

    Only these are refined: an OpenCV lens has room for more than photos can tell apart.
    """
    each = dict(zip(bodies(cameras).tolist(), cameras, strict=True))
    given = [np.ravel(np.asarray(each[i].distortion, np.float64)) for i in range(len(each))]
    given = [np.nan_to_num(row) for row in given]  # None, a lens without, becomes one zero
    width = max(len(row) for row in given)
    table = np.stack([np.pad(row != 0, (0, width - len(row))) for row in given])
    return table if table.any() else table[:, :0]


def corrected(camera: Camera, correction: Correction, place: Place, extent: Array) -> Camera:
    """A camera with the corrections of its rows.

    Args:
      camera: as the dataset has it.
      correction: of all views and bodies.
      place: which rows are this camera's.
      extent: [] of the scene, world units.
    """
    if correction.poses is not None:
        motion = correction.poses[place.view]
        move = jnp.eye(4, dtype=motion.dtype).at[:3, :3].set(rotation_exp(motion[:3]))
        move = move.at[:3, 3].set(motion[3:] * extent)
        end = camera.viewmat_end
        camera = camera.replace(
            viewmat=move @ camera.viewmat, viewmat_end=None if end is None else move @ end
        )
    if correction.intrinsics is not None:
        row = correction.intrinsics[place.body]
        K = jnp.asarray(camera.K)
        K = K.at[:2, :2].multiply(jnp.exp(row[:2])[:, None])
        size = jnp.array([camera.width, camera.height], K.dtype)
        camera = camera.replace(K=K.at[:2, 2].add(row[2:] * size))
    if correction.distortion is not None and camera.distortion is not None:
        row = correction.distortion[place.body][: camera.distortion.shape[-1]]
        camera = camera.replace(distortion=camera.distortion + row)
    return camera


def descend(
    state: Refinement, gradient: Correction, places: Sequence[Place], strides: Correction
) -> Refinement:
    """One step of Adam on the rows of the photos that were seen; the others stay as they are.

    Args:
      state: before the step.
      gradient: like the corrections.
      places: of the photos.
      strides: [rows, n, n] of each part, see `xpr.train.strides`. Adam sees the numbers that they
        multiply.
    """
    rows = {part: [getattr(p, "view" if part == "poses" else "body") for p in places]
            for part in PARTS}  # fmt: skip
    visited = Correction(**{
        part: None if (seen := getattr(state.seen, part)) is None
        else jnp.zeros_like(seen, bool).at[jnp.stack(rows[part])].set(True)
        for part in PARTS
    })  # fmt: skip

    def chosen(new: Correction, old: Correction) -> Correction:
        return jax.tree.map(jnp.where, visited, new, old)

    def blend(share: float, old: Correction, new: Correction) -> Correction:
        return jax.tree.map(lambda a, b: share * a + (1 - share) * b, old, new)

    finite = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0), gradient)
    finite = jax.tree.map(_along, strides, finite)
    mu = chosen(blend(FAST, state.mu, finite), state.mu)
    squares = jax.tree.map(lambda g: jnp.mean(g**2, axis=-1, keepdims=True), finite)
    nu = chosen(blend(SLOW, state.nu, squares), state.nu)
    seen = jax.tree.map(lambda n, now: n + now, state.seen, visited)

    def moved(x: Array, m: Array, v: Array, n: Array, stride: Array) -> Array:
        n = jnp.maximum(n, 1)
        direction = m / (1 - FAST**n) / (jnp.sqrt(v / (1 - SLOW**n)) + EPS)
        return x - _along(stride, direction)

    after = jax.tree.map(moved, state.correction, mu, nu, seen, strides)
    return Refinement(chosen(after, state.correction), mu, nu, seen)


def _along(stride: Array, direction: Array) -> Array:
    """[rows, n, n] symmetric times [rows, n]."""
    return jnp.einsum("rij,rj->ri", stride, direction)
