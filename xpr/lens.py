"""Lenses: how a point in front of the camera lands on the normalised image plane, and back.

A lens is a small frozen class without arrays, hence static under `jax.jit`; its coefficients are
an array of the camera and have gradients. The intrinsic matrix K then maps the normalised plane
to pixels. Formulas: OpenCV's `calib3d` and `fisheye` modules.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp

from xpr.errors import UserError
from xpr.math import safe_norm

Array = jax.Array

NEWTON_STEPS = 12  # doubles the digits each time; float64 needs seven from a sane start


@dataclasses.dataclass(frozen=True)
class Lens(abc.ABC):
    """A camera model without its intrinsic matrix.

    Attributes:
      coefficients: names of the distortion coefficients, in order.
      perspective: whether straight lines stay (nearly) straight and z > 0 is the visible side;
        3DGS then limits its linearisation to the field of view.
      sees_behind: whether points with z < 0 have an image beside those with z > 0.
    """

    coefficients: ClassVar[tuple[str, ...]] = ()
    perspective: ClassVar[bool] = True
    sees_behind: ClassVar[bool] = False

    @abc.abstractmethod
    def distort(self, point: Array, k: Array) -> Array:
        """[3] in the camera frame -> [2] on the normalised image plane."""

    @abc.abstractmethod
    def undistort(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """[2] on the image plane -> the ray's origin [3] and unit direction [3], camera frame."""

    @abc.abstractmethod
    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Whether `point` [3] is far enough and within the lens's valid range. [] bool."""

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


class Pinhole(Lens):
    """A perspective camera without distortion."""

    def distort(self, point: Array, k: Array) -> Array:
        """x/z, y/z."""
        return point[:2] / point[2]

    def undistort(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """Rays leave the camera's centre."""
        return _from_centre(jnp.append(xy, 1))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near


class Orthographic(Lens):
    """Parallel rays along z: size on the screen does not depend on depth."""

    perspective: ClassVar[bool] = False

    def distort(self, point: Array, k: Array) -> Array:
        """x, y; K's focal lengths are px per world unit."""
        return point[:2]

    def undistort(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """Rays leave the plane z = 0."""
        zero = jnp.zeros_like(xy[:1])
        return jnp.append(xy, zero), jnp.concatenate([zero, zero, zero + 1])

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front of the near plane."""
        return point[2] > near


class OpenCV(Lens):
    """OpenCV's pinhole with rational radial, tangential and thin-prism distortion."""

    coefficients: ClassVar[tuple[str, ...]] = (
        *("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"),
        *("s1", "s2", "s3", "s4"),
    )

    def distort(self, point: Array, k: Array) -> Array:
        """The distorted x/z, y/z."""
        return self._bend(point[:2] / point[2], k)

    def undistort(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """The inverse by Newton's method."""
        straight = invert(lambda guess, k: self._bend(guess, k), xy, k, start=xy)
        return _from_centre(jnp.append(straight, 1))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """In front, and where the radial polynomial still grows: beyond it there is no image."""
        z = jnp.where(point[2] > near, point[2], 1)
        growth = jax.vmap(jax.grad(lambda r: r * self._radial(r * r, k)))
        limit = first_fold(growth, jnp.linspace(0.0, 8.0, 257, dtype=point.dtype))
        return (point[2] > near) & (safe_norm(point[:2] / z) < limit)

    def _radial(self, r2: Array, k: Array) -> Array:
        k1, k2, _, _, k3, k4, k5, k6 = k[:8]
        over = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        return over / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))

    def _bend(self, xy: Array, k: Array) -> Array:
        x, y = xy
        p1, p2, (s1, s2, s3, s4) = k[2], k[3], k[8:]
        r2 = x * x + y * y
        radial = self._radial(r2, k)
        return jnp.stack(
            [
                x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + r2 * (s1 + s2 * r2),
                y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + r2 * (s3 + s4 * r2),
            ]
        )


class OpenCVFisheye(Lens):
    """OpenCV's fisheye: the image radius is a polynomial of the angle to the axis.

    Points beside and behind the camera's plane are seen as far as the polynomial grows.
    """

    coefficients: ClassVar[tuple[str, ...]] = ("k1", "k2", "k3", "k4")
    perspective: ClassVar[bool] = False
    sees_behind: ClassVar[bool] = True

    def distort(self, point: Array, k: Array) -> Array:
        """theta (1 + k1 theta^2 + ...) away from the axis."""
        r = safe_norm(point[:2])
        aside = r > 1e-9 * jnp.abs(point[2])
        theta = jnp.arctan2(jnp.where(aside, r, 0), jnp.where(aside, point[2], 1))
        scale = self._radius(theta, k) / jnp.where(aside, r, 1)
        return point[:2] * jnp.where(aside, scale, 1 / jnp.where(aside, 1, point[2]))

    def undistort(self, xy: Array, k: Array) -> tuple[Array, Array]:
        """The inverse by Newton's method on the angle."""
        r = safe_norm(xy)
        theta = invert(
            lambda guess, k: self._radius(guess, k), r[None], k, start=jnp.minimum(r, 3.0)[None]
        )[0]
        tiny = r < 1e-9
        sideways = jnp.where(tiny, 1, jnp.sin(theta) / jnp.where(tiny, 1, r))
        return jnp.zeros(3, xy.dtype), jnp.append(xy * sideways, jnp.cos(theta))

    def sees(self, point: Array, k: Array, near: float) -> Array:
        """Far enough from the centre, and at an angle where the polynomial still grows."""
        growth = jax.vmap(jax.grad(lambda theta: self._radius(theta, k)))
        limit = first_fold(growth, jnp.linspace(0.0, jnp.pi, 257, dtype=point.dtype))
        theta = jnp.arctan2(safe_norm(point[:2]), point[2])
        return (safe_norm(point) > near) & (theta < limit)

    def _radius(self, theta: Array, k: Array) -> Array:
        t2 = theta * theta
        k1, k2, k3, k4 = k
        return theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))


def first_fold(growth: Callable[[Array], Array], grid: Array) -> Array:
    """The largest grid value up to which `growth`, the slope of a radius, stays positive. []."""
    folded = jnp.cumsum(growth(grid) <= 0) > 0
    return jax.lax.stop_gradient(jnp.max(jnp.where(folded, 0, grid)))


def invert(f: Callable[[Array, Array], Array], y: Array, k: Array, *, start: Array) -> Array:
    """x [n] with f(x, k) = y [n], by Newton's method, differentiable in y and k.

    The search itself is not differentiated; one last step from the solution, with the slope held
    fixed, carries the exact first derivatives (the implicit function theorem).
    """

    def step(x: Array, y: Array, k: Array) -> Array:
        slope = jax.lax.stop_gradient(jax.jacfwd(f)(jax.lax.stop_gradient(x), k))
        return x - _solve(slope, f(x, k) - y)

    fixed = jax.lax.stop_gradient
    x = jax.lax.fori_loop(
        0, NEWTON_STEPS, lambda _, x: step(x, fixed(y), fixed(k)), fixed(start), unroll=False
    )
    return step(fixed(x), y, k)


def _solve(m: Array, v: Array) -> Array:
    """m^-1 v for [1, 1] or [2, 2] matrices; a singular one moves nothing."""
    if len(v) == 1:
        det, adjugate = m[0, 0], jnp.ones_like(m)
    else:
        det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        adjugate = jnp.array([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]])
    return jnp.where(det == 0, 0, adjugate @ v / jnp.where(det == 0, 1, det))


def _from_centre(direction: Array) -> tuple[Array, Array]:
    return jnp.zeros_like(direction), direction / safe_norm(direction)
