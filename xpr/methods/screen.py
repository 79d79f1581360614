"""Boxes on the image plane around a few world-space points: what the ray methods share."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.math import normalize
from xpr.types import Array

CORNERS = 8  # of a polygon around a circle
NOTHING = 1e-12  # world units: a distance from the pinhole's plane to divide by


class Landing(NamedTuple):
    """Where points land.

    Attributes:
      pixels: [n, 2] px; meaningless where not `seen`.
      seen: [n] bool, whether the point can have an image.
    """

    pixels: Array
    seen: Array

    def within(self, camera: Camera, margin: float) -> Array:
        """Which points are seen inside the picture, grown by `margin` of its size. [n] bool."""
        size = jnp.array([camera.width, camera.height], self.pixels.dtype)
        inside = (self.pixels > -margin * size) & (self.pixels < (1 + margin) * size)
        return self.seen & jnp.all(inside, axis=-1)


def land(points: Array, camera: Camera) -> Landing:
    """Project world points [n, 3]."""

    def one(point: Array) -> tuple[Array, Array]:
        there = camera.to_camera(point)
        seen = camera.sees(there)
        return camera.to_pixel(jnp.where(seen, there, jnp.array([0, 0, 1], there.dtype))), seen

    return Landing(*jax.vmap(one)(points))


def box(pixels: Array, landing: Landing, camera: Camera) -> tuple[Array, Array]:
    """Centre and half size (px) of the box around `pixels` [m, 2].

    It is the whole picture where a point of `landing` is unseen: what reaches behind the camera may
    show anywhere.
    """
    low, high = jnp.min(pixels, axis=0), jnp.max(pixels, axis=0)
    size = jnp.array([camera.width, camera.height], pixels.dtype)
    whole = jnp.all(landing.seen)
    low, high = jnp.where(whole, low, 0), jnp.where(whole, high, size)
    return 0.5 * (low + high), 0.5 * (high - low)


def place(mean: Array, points: Array, camera: Camera) -> tuple[Array, Array, Array]:
    """What `Projected` holds beside the record: centre, extent and depth.

    Args:
      mean: [3] where the primitive is, world units; it is culled where the camera cannot see that.
      points: [n, 3] world units; all that is visible lies in their convex hull.
      camera: any lens.

    Returns:
      centre and half size of the points' box (px), and the depth of the mean.
    """
    if camera.lens.pinhole and camera.viewmat_end is None:
        center, extent = _cut_box(points, camera)
    else:
        landing = land(points, camera)
        center, extent = box(landing.pixels, landing, camera)
    there = camera.to_camera(mean)
    return center, jnp.where(camera.sees(there), extent, 0), camera.sort_key(mean)


def _cut_box(points: Array, camera: Camera) -> tuple[Array, Array]:
    """`box` of what lies in front of a pinhole of the convex hull of world points [n, 3].

    A segment from a point ahead at x/z to one behind the pinhole, which x/z mirrors, leaves the
    picture to the right if the mirror image is the left one of the two.
    """
    there = jax.vmap(camera.to_camera)(points)
    z = jnp.where(jnp.abs(there[:, 2:]) < NOTHING, NOTHING, there[:, 2:])
    pixels = jax.vmap(camera.to_pixel)(jnp.concatenate([there[:, :2], z], axis=1))
    behind = z < 0
    low = jnp.min(jnp.where(behind, jnp.inf, pixels), axis=0)
    high = jnp.max(jnp.where(behind, -jnp.inf, pixels), axis=0)
    left, right = (behind & (pixels > low)).any(axis=0), (behind & (pixels < high)).any(axis=0)
    size = jnp.array([camera.width, camera.height], pixels.dtype)
    known = jnp.all(jnp.isfinite(pixels))
    low = jnp.where(left | ~known, -size, jnp.clip(low, -size, 2 * size))
    high = jnp.where(right | ~known, 2 * size, jnp.clip(high, -size, 2 * size))
    return 0.5 * (low + high), 0.5 * (high - low)


def outline(mean: Array, rotation: Array, axes: Array, camera: Camera) -> Array:
    """[8, 3] world points whose image surrounds that of an ellipsoid.

    In the frame in which it is a ball, its outline is a circle around the line of sight, wider than
    the ball as the camera is near; the points are an octagon around that circle. Strict where the
    lens keeps lines straight. Not finite if the camera is within the ellipsoid.

    Args:
      mean: [3] the centre, world units.
      rotation: [3, 3] world-from-local.
      axes: [3] half axes, world units.
      camera: any lens.
    """
    camera = camera.seeing(mean)
    there = camera.to_camera(mean)
    there = jnp.where(camera.sees(there), there, jnp.array([0, 0, 1], there.dtype))
    # Along the line of sight a point stays on its pixel.
    sight = jnp.cross(*jax.jacfwd(camera.to_pixel)(there)) @ camera.viewmat[:3, :3]
    ahead = normalize(sight @ rotation / axes)
    apart = (camera.position - mean) @ rotation / axes
    radius = jax.lax.rsqrt(1 - 1 / apart.dot(apart))
    right = normalize(jnp.cross(ahead, jnp.eye(3, dtype=ahead.dtype)[jnp.argmin(jnp.abs(ahead))]))
    angle = jnp.arange(CORNERS) * (2 * math.pi / CORNERS)
    ring = jnp.outer(jnp.cos(angle), right) + jnp.outer(jnp.sin(angle), jnp.cross(ahead, right))
    return mean + ring * (radius / math.cos(math.pi / CORNERS)) * axes @ rotation.T


def place_ellipsoid(
    mean: Array, rotation: Array, axes: Array, camera: Camera
) -> tuple[Array, Array, Array]:
    """`place` for what lies in an ellipsoid. Arguments as for `outline`."""
    return place(mean, outline(mean, rotation, axes, camera), camera)
