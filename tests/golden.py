"""Reading the golden values: float64 from independent implementations."""

import jax
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


EPS = 1e-7  # gsplat's fisheye adds it to radii and squares: 5e-7 in an image


@jax.custom_jvp
def gsplat_fisheye(point):
    """The equidistant fisheye as gsplat rounds it."""
    r = jnp.sqrt(point[0] ** 2 + point[1] ** 2) + EPS
    return point[:2] * jnp.arctan2(r, point[2] + EPS) / r


@gsplat_fisheye.defjvp
def _(primals, tangents):
    """Its Jacobian is not the derivative of its image: another 1e-7 sits in x^2."""
    x, y, z = primals[0]
    along = jnp.array([[x * x + EPS, x * y], [x * y, y * y]])
    across = jnp.array([[y * y, -x * y], [-x * y, x * x + EPS]])
    s, r = x * x + EPS + y * y, jnp.sqrt(x * x + y * y) + EPS
    radial = along / s * z / (s + z * z) + across / s * jnp.arctan2(r, z) / r
    jacobian = jnp.concatenate([radial, -primals[0][:2, None] / (s + z * z)], axis=1)
    return gsplat_fisheye(primals[0]), jacobian @ tangents[0]


class GsplatFisheye(OpenCVFisheye):
    """Our fisheye with gsplat's roundings, to compare the rest to full precision."""

    def project(self, point, k):
        return gsplat_fisheye(point)
