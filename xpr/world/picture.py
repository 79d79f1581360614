"""The world seen through any camera."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from xpr.camera import Camera
from xpr.world.scene import trace

SAMPLES = 3  # rays a pixel along each axis


def picture(camera: Camera, samples: int = SAMPLES) -> np.ndarray:
    """What a camera sees of the world, exactly: every pixel the mean of the rays through it.

    Args:
      camera: any lens and shutter, within the world's dome and outside its solids.
      samples: rays a pixel along each axis.

    Returns:
      [H, W, 3] in 0..1; black where no light reaches the image.
    """
    height, width = camera.height, camera.width
    y, x = (np.mgrid[: height * samples, : width * samples] + 0.5) / samples
    pixels = jnp.asarray(np.stack([x, y], axis=-1), jnp.float32)
    camera = jax.tree.map(jnp.asarray, camera)
    rays, lit = camera.rays(pixels), camera.covers(pixels)
    origins, directions = (
        np.stack([np.asarray(a) for a in v], axis=-1) for v in (rays.origin, rays.direction)
    )
    color = trace(origins, directions) * np.asarray(lit)[..., None]
    return color.reshape(height, samples, width, samples, 3).mean(axis=(1, 3))
