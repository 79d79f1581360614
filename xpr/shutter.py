"""Rolling shutters: when a line of the image is exposed, and where the camera is then."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from xpr.math import rotation_exp, rotation_log

# The axis of the image along which the lines follow each other, and whether towards larger pixels.
ORDERS = {
    "top_to_bottom": (1, True),
    "left_to_right": (0, True),
    "bottom_to_top": (1, False),
    "right_to_left": (0, False),
}
SHUTTERS = ("global", *ORDERS)


def exposed(shutter: str, pixel: Array, width: int, height: int) -> Array:
    """When a pixel [2] (px) is exposed, from 0 for the first line to 1 for the last. [].

    A line is exposed as one, so the moment has no gradient. 0 for a global shutter.
    """
    if shutter == "global":
        return jnp.zeros((), pixel.dtype)
    axis, forward = ORDERS[shutter]
    last = max((width, height)[axis] - 1, 1)
    share = jnp.clip(jnp.floor(pixel[axis]), 0, last) / last
    return share if forward else 1 - share


def pose_at(start: Array, end: Array, time: Array | float) -> Array:
    """The pose between two [4, 4] world-to-camera poses, at a share of the way.

    The rotation turns evenly about one axis (slerp), the translation of the matrix is
    interpolated linearly: 3DGUT's convention, also gsplat's.
    """
    turn = rotation_log(end[:3, :3] @ start[:3, :3].T)
    rotation = rotation_exp(time * turn) @ start[:3, :3]
    return (start + time * (end - start)).at[:3, :3].set(rotation)
