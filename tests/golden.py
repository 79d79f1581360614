"""Reading the golden values: float64 from independent implementations."""

import jax.numpy as jnp
import numpy as np

from xpr.lens import OpenCVFisheye


def load(shared, name, dtype=jnp.float64):
    """An archive as a dict; floats as arrays of `dtype`, the rest as they are."""
    with np.load(shared / "golden" / f"{name}.npz") as archive:
        return {
            key: jnp.asarray(value, dtype) if value.dtype.kind == "f" and value.ndim else value
            for key, value in archive.items()
        }


def relative(found, expected):
    """The largest error, over the largest expected value."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.abs(found - expected).max() / np.abs(expected).max()


def absolute(found, expected):
    """The largest error."""
    return np.abs(np.asarray(found, np.float64) - np.asarray(expected, np.float64)).max()


class GsplatFisheye(OpenCVFisheye):
    """gsplat adds 1e-7 in its fisheye formulas, 5e-7 in the image; with it, so do we."""

    def distort(self, point, k):
        r = jnp.sqrt(point[0] ** 2 + point[1] ** 2) + 1e-7
        return point[:2] * jnp.arctan2(r, point[2] + 1e-7) / r
