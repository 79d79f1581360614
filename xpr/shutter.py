"""Rolling shutters: when a line of the image is exposed, and where the camera is then."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from xpr.math import cross_matrix, rotation_log, turn_weights

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


class Sweep(NamedTuple):
    """The way between two [4, 4] world-to-camera poses.

    The rotation turns evenly about one axis (slerp), the translation of the matrix is
    interpolated linearly: 3DGUT's convention, also gsplat's. So a pose, and where it takes a
    point, is a sum of parts that do not depend on the time.

    Attributes:
      start: [4, 4].
      turn: [3] rotation vector of the whole way, in the camera's frame.
      once: [3, 3] the start's rotation, crossed with `turn`.
      twice: [3, 3] the same, crossed again.
      change: [4, 4] from start to end, of all but the rotation, which is zero.
    """

    start: Array
    turn: Array
    once: Array
    twice: Array
    change: Array

    @classmethod
    def between(cls, start: Array, end: Array) -> Sweep:
        """From one pose to another."""
        turn = rotation_log(end[:3, :3] @ start[:3, :3].T)
        cross = cross_matrix(turn)
        once = cross @ start[:3, :3]
        return cls(start, turn, once, cross @ once, (end - start).at[:3, :3].set(0))

    def _weights(self, time: Array | float) -> tuple[Array, Array]:
        once, twice = turn_weights(self.turn @ self.turn * time**2)
        return time * once, time**2 * twice

    def pose(self, time: Array | float) -> Array:
        """[4, 4] at a share of the way."""
        once, twice = self._weights(time)
        turned = once * self.once + twice * self.twice
        return self.start + time * self.change + jnp.pad(turned, (0, 1))

    def path(self, point: Array) -> Callable[[Array], Array]:
        """Where `point` [3] in the world is in the camera's frame [3], at a share of the way."""
        there = self.start[:3, :3] @ point + self.start[:3, 3]
        once, twice = self.once @ point, self.twice @ point

        def at(time: Array) -> Array:
            first, second = self._weights(time)
            return there + time * self.change[:3, 3] + first * once + second * twice

        return at
