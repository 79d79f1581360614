"""An anisotropic 3D Gaussian: what 3DGS and 3DGUT optimise alike, before either draws it."""

from __future__ import annotations

import abc
import functools
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.math import logit
from xpr.methods.appearance import bands, harmonics, view_color
from xpr.types import Array, Primitive

MIN_SPACING = 1e-7  # duplicate points still get a finite log-scale


class Gaussian(NamedTuple):
    """One Gaussian in physical units, with its colour already that of one view.

    Attributes:
      mean: [3] world units.
      quat: [4] (w, x, y, z), any norm.
      scale: [3] standard deviations in world units.
      opacity: [] in [0, 1].
      color: [3] linear RGB.
    """

    mean: Array
    quat: Array
    scale: Array
    opacity: Array
    color: Array


class RawGaussian(Primitive, abc.ABC):
    """Its parameters as the optimiser sees them, and how it trains; subclasses say how it looks.

    Attributes:
      mean: [3] world units.
      quat: [4] (w, x, y, z), any norm.
      log_scale: [3] log of the standard deviations in world units.
      logit_opacity: [].
      sh0: [1, 3] constant spherical-harmonic coefficient of the colour.
      shN: [K - 1, 3] the higher coefficients, K = (degree + 1)^2.
    """

    rotation_field: ClassVar[str] = "quat"

    mean: Array
    quat: Array
    log_scale: Array
    logit_opacity: Array
    sh0: Array
    shN: Array

    def seen_from(self, camera: Camera) -> Gaussian:
        """The Gaussian in physical units, coloured for this camera."""
        color = view_color(self.sh0, self.shN, self.mean, camera)
        scale, opacity = jnp.exp(self.log_scale), jax.nn.sigmoid(self.logit_opacity)
        return Gaussian(self.mean, self.quat, scale, opacity, color)

    @classmethod
    @functools.partial(jax.jit, static_argnums=0, static_argnames="sh_degree")
    def from_points(  # pyright: ignore[reportIncompatibleMethodOverride] (jax.jit's type)
        cls, points: Array, colors: Array, spacing: Array, *, key: Array, sh_degree: int = 3
    ) -> Self:
        """Round Gaussians as wide as the spacing, of opacity 0.1. See `Primitive.from_points`."""
        del key
        n = len(points)
        sh0, shN = harmonics(colors, sh_degree)
        return cls(
            mean=points,
            quat=jnp.zeros((n, 4)).at[:, 0].set(1),
            log_scale=jnp.tile(jnp.log(jnp.maximum(spacing, MIN_SPACING))[:, None], 3),
            logit_opacity=jnp.full(n, logit(jnp.array(0.1))),
            sh0=sh0,
            shN=shN,
        )

    @classmethod
    def learning_rates(cls, extent: float) -> Self:
        """The rates of the original code; positions move in proportion to the scene."""
        return cls(
            mean=1.6e-4 * extent,  # pyright: ignore[reportArgumentType]
            quat=1e-3,  # pyright: ignore[reportArgumentType]
            log_scale=5e-3,  # pyright: ignore[reportArgumentType]
            logit_opacity=5e-2,  # pyright: ignore[reportArgumentType]
            sh0=2.5e-3,  # pyright: ignore[reportArgumentType]
            shN=2.5e-3 / 20,  # pyright: ignore[reportArgumentType]
        )

    def active(self, degree: Array) -> Self:
        """With the harmonics above `degree` left out."""
        return self.replace(shN=bands(self.shN, degree))
