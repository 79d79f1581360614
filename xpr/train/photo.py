"""A photo as the loss sees it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from xpr.camera import Camera
from xpr.train.refine import Place
from xpr.types import Array


class Photo(NamedTuple):
    """One view on its way to the device.

    Attributes:
      camera: the view.
      image: [H, W, 3 or 4] uint8; a fourth channel is straight alpha.
      mask: [H, W] bool, False = ignore; None keeps all.
      place: its rows in the cameras' corrections; None where cameras are not refined.
    """

    camera: Camera
    image: Array | np.ndarray
    mask: Array | np.ndarray | None = None
    place: Place | None = None

    def over(self, background: Array) -> Array:
        """[H, W, 3] in [0, 1], over a background [3] where the photo is transparent."""
        values = jnp.asarray(self.image, background.dtype) / 255
        if self.image.shape[-1] == 3:
            return values
        alpha = values[..., 3:]
        return values[..., :3] * alpha + background * (1 - alpha)

    @property
    def transparent(self) -> bool:
        """Whether a background shows through."""
        return self.image.shape[-1] == 4


def flat(value: float) -> Array:
    """[3] a grey background: 0 is black, 1 white."""
    return jnp.full(3, value, jnp.float32)
