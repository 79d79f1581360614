"""What a lens is."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from xpr.errors import UserError
from xpr.math import safe_norm

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Lens(abc.ABC):
    """A camera model without its intrinsic matrix. Frozen, without arrays: static.

    Attributes:
      coefficients: names of the distortion coefficients, in order.
      perspective: whether straight lines stay (nearly) straight and z > 0 is the visible side;
        3DGS then limits its linearisation to the field of view.
      pinhole: whether it maps every point to x/z, y/z.
      sees_behind: whether points with z < 0 have an image beside those with z > 0.
      central: whether all rays leave one point, the camera's centre.
    """

    coefficients: ClassVar[tuple[str, ...]] = ()
    perspective: ClassVar[bool] = True
    pinhole: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = False
    central: ClassVar[bool] = True

    @abc.abstractmethod
    def project(self, point: Array, k: Array) -> Array:
        """[3] in the camera frame -> [2] on the normalised image plane."""

    @abc.abstractmethod
    def unproject(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """[2] on the image plane -> the ray's origin [3] and unit direction [3], camera frame.

        Finite everywhere, also where the lens has no ray.
        """

    @abc.abstractmethod
    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Whether `point` [3] is far enough and within the lens's valid range. [] bool."""

    @abc.abstractmethod
    def covers(self, xy: Array, k: Array) -> Array:
        """Whether light reaches the place [2] on the image plane. [] bool."""

    def check(self, k: Array | None) -> None:
        """Refuse a wrong number of coefficients.

        Raises:
          UserError: naming the coefficients that this lens takes.
        """
        have = 0 if k is None else k.shape[-1]
        if have != len(self.coefficients):
            names = ", ".join(self.coefficients) or "none"
            raise UserError(
                f"camera.distortion has {have} coefficients, {type(self).__name__} expects "
                f"{len(self.coefficients)} ({names}). Fill absent ones with zero."
            )


def from_centre(direction: Array) -> tuple[Array, Array]:
    """The ray that leaves the camera's centre along `direction` [3], not zero: origin, unit."""
    return jnp.zeros_like(direction), direction / safe_norm(direction)
