"""How far one step moves the numbers of a camera's correction.

Turning a camera and shifting it move the picture almost alike, a coefficient far less than a focal
length. Adam takes each number for itself, so it crawls along what two of them have in common. It is
therefore given whitened numbers (after Park et al. 2023, CamP): a unit of each moves the picture by
the same root mean square, whatever the others do.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xpr.camera import Camera
from xpr.train import refine
from xpr.train.refine import Correction, Place
from xpr.types import Array

GRID = 5  # pixels along each side of the picture that is looked at
NEARNESS = (0.25, 0.75, 1.25, 1.75)  # extents over the distance of what is seen
DAMPING = 0.1  # of each number's own effect: none is moved much further to undo another


def strides(
    parts: Sequence[str], cameras: Sequence[Camera], extent: float, reach: float, steps: float
) -> Correction:
    """What turns Adam's direction for a row of a correction into its first step.

    Args:
      parts: that are refined.
      cameras: of the training views, [V], with G bodies.
      extent: of the scene, world units.
      reach: how far each number can carry the picture in all steps together, root mean square, in
        its longer side.
      steps: photos that are seen over the run.

    Returns:
      [V, 6, 6], [G, 4, 4] and [G, n, n]; zero for coefficients that are not `refine.stated`.
    """
    body, stated = refine.bodies(cameras), refine.stated(cameras)
    share = np.bincount(body) / len(cameras)
    slopes = [_slopes(cameras[row], extent, stated[i]) for i, row in enumerate(_first(body))]
    table: dict[str, Array | None] = dict.fromkeys(refine.PARTS)
    for part in parts:
        white = np.stack([whitened(slope[part]) for slope in slopes])
        rate = np.array([_first_rate(reach, steps * s) for s in share])
        if part == "poses":
            white, rate = white[body], np.array(_first_rate(reach, steps / len(cameras)))
        table[part] = jnp.asarray(white * rate[..., None, None], jnp.float32)
    return Correction(**table)


def left(step: Array, steps: ArrayLike) -> Array:
    """What is left of the strides: less by the same at every step, nothing after the last. [].

    The positions' rate falls at once to a tenth. Cameras must still move when the scene is sharp
    enough to tell them where to, and before that long strides only make them wander.
    """
    return 1 - step / steps


def _first_rate(reach: float, visits: float) -> float:
    """What `visits` steps, of which `left` is left, sum up to `reach`; each is about one rate."""
    return 2 * reach / max(visits, 1)


def whitened(slope: np.ndarray) -> np.ndarray:
    """The symmetric [n, n] that undoes [M, n]: its columns move the M points equally far.

    A number without any effect gets none.
    """
    effect = slope.T @ slope / len(slope)
    effect += DAMPING * np.diag(np.diag(effect))
    values, axes = np.linalg.eigh(effect)
    felt = values > 1e-9 * values.max()
    inverse = np.where(felt, 1 / np.sqrt(np.where(felt, values, 1)), 0)
    return np.asarray(axes * inverse @ axes.T, np.float32)


def _first(body: np.ndarray) -> list[int]:
    """The row of the first camera of every body."""
    return [int(np.argmax(body == i)) for i in range(body.max() + 1)]


def _slopes(camera: Camera, extent: float, stated: np.ndarray) -> dict[str, np.ndarray]:
    """What every number of each part does to the picture, [M, n], in its longer sides."""
    size = jnp.float32(extent)
    still = camera.replace(viewmat=jnp.eye(4), viewmat_end=None, shutter="global")
    table = _seen(jax.tree.map(jnp.asarray, still), size)
    poses, intrinsics, distortion = (np.asarray(x, np.float64) for x in table)
    width = distortion.shape[-1]
    return {
        "poses": poses,
        "intrinsics": intrinsics,
        "distortion": np.pad(distortion, ((0, 0), (0, len(stated) - width))) * stated,
    }


@jax.jit
def _seen(camera: Camera, extent: Array) -> tuple[Array, Array, Array]:
    x, y = ((jnp.arange(GRID) + 0.5) * n / GRID for n in (camera.width, camera.height))
    pixels = jnp.stack(jnp.meshgrid(x, y), axis=-1).reshape(-1, 2)
    rays = camera.rays(pixels)
    origin, direction = jnp.stack([*rays.origin], -1), jnp.stack([*rays.direction], -1)
    points = origin + direction * extent / jnp.array(NEARNESS)[:, None, None]
    lit = jnp.tile(camera.covers(pixels), len(NEARNESS))
    coefficients = 0 if camera.distortion is None else camera.distortion.shape[-1]
    place = Place(jnp.int32(0), jnp.int32(0))

    def picture(correction: Correction) -> Array:
        moved = refine.corrected(camera, correction, place, extent)
        where = jax.vmap(lambda point: moved.to_pixel(moved.to_camera(point)))(
            points.reshape(-1, 3)
        )
        return where / max(camera.width, camera.height)

    none = Correction(jnp.zeros((1, 6)), jnp.zeros((1, 4)), jnp.zeros((1, coefficients)))
    slope = jax.jacfwd(picture)(none)
    kept = jnp.repeat(lit, 2)[:, None]
    flat = (jnp.reshape(s, (kept.shape[0], s.shape[-1])) for s in jax.tree.leaves(slope))
    poses, intrinsics, distortion = (jnp.where(kept, s, 0) for s in flat)
    return poses, intrinsics, distortion
