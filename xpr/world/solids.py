"""Solids of the analytic world: where a ray hits them and what they look like there.

Every method works on blocks of rays or points [M, 3] at once, world units, z up.
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np

from xpr.world.paint import Paint, smoothstep

NEAREST = 1e-4  # a hit closer than that is the surface the ray starts from
PENUMBRA = 0.12  # width of a shadow's edge per unit of distance to what casts it


@dataclasses.dataclass(frozen=True)
class Solid(abc.ABC):
    """Something that blocks light.

    Attributes:
      center: [3].
      paint: its colours, as a function of the local point, in units of its size.
    """

    center: np.ndarray
    paint: Paint

    @property
    @abc.abstractmethod
    def reach(self) -> float:
        """Radius of a ball that blocks about as much of the sky."""

    @abc.abstractmethod
    def hit(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Distance [M] along unit directions to the surface seen from outside, else infinity."""

    @abc.abstractmethod
    def sunlight(self, points: np.ndarray, sun: np.ndarray) -> np.ndarray:
        """The share [M] of the sun that it lets through to `points`; `sun` [3] points there."""

    @abc.abstractmethod
    def surface(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normals [M, 3] and colours [M, 3] at points on the surface."""

    def skylight(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """The share [M] of the sky that it leaves open, as if it were a ball of radius `reach`."""
        offset = self.center - points
        squared = np.maximum(np.sum(offset * offset, axis=-1), self.reach**2)
        facing = np.maximum(np.sum(offset * normals, axis=-1) / np.sqrt(squared), 0)
        return 1 - facing * self.reach**2 / squared


@dataclasses.dataclass(frozen=True)
class Sphere(Solid):
    """A ball. Attributes: radius."""

    radius: float

    @property
    def reach(self) -> float:
        """Its radius."""
        return self.radius

    def hit(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """The nearer root of |o + t d - c| = r."""
        offset = origins - self.center
        b = np.sum(offset * directions, axis=-1)
        inside = b * b - np.sum(offset * offset, axis=-1) + self.radius**2
        t = -b - np.sqrt(np.maximum(inside, 0))
        return np.where((inside > 0) & (t > NEAREST), t, np.inf)

    def sunlight(self, points: np.ndarray, sun: np.ndarray) -> np.ndarray:
        """How far the ray to the sun passes from the ball, against the width of the penumbra."""
        offset = self.center - points
        along = offset @ sun
        squared = np.sum(offset * offset, axis=-1) - along * along
        gap = np.sqrt(np.maximum(squared, 0)) - self.radius
        width = PENUMBRA * np.maximum(along, 1e-3)
        return np.where(along > 0, smoothstep(gap / width + 0.5), 1)

    def surface(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The normal is the local point itself."""
        local = (points - self.center) / self.radius
        return local, self.paint(local)


@dataclasses.dataclass(frozen=True)
class Box(Solid):
    """A box standing upright. Attributes: half [3] edge lengths; yaw, its turn about z (rad)."""

    half: np.ndarray
    yaw: float

    @property
    def reach(self) -> float:
        """Radius of the ball of equal volume."""
        return float((6 / np.pi * np.prod(self.half)) ** (1 / 3))

    def hit(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Slabs: the last entry, if it comes before the first exit."""
        enter, leave = self._slabs(origins, directions)
        return np.where((enter < leave) & (enter > NEAREST), enter, np.inf)

    def sunlight(self, points: np.ndarray, sun: np.ndarray) -> np.ndarray:
        """The gap between last entry and first exit, against the width of the penumbra."""
        enter, leave = self._slabs(points, sun)
        width = PENUMBRA * np.maximum(leave, 1e-3)
        return np.where(leave > NEAREST, smoothstep((enter - leave) / width + 0.5), 1)

    def surface(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The normal of the face that the point lies on."""
        local = ((points - self.center) @ self._axes.T) / self.half
        face = np.argmax(np.abs(local), axis=-1)
        sign = np.sign(np.take_along_axis(local, face[:, None], axis=-1))
        return sign * self._axes[face], self.paint(local)

    @property
    def _axes(self) -> np.ndarray:
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], np.float32)

    def _slabs(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        offset = (origins - self.center) @ self._axes.T
        slope = directions @ self._axes.T
        inverse = 1 / np.where(np.abs(slope) < 1e-8, 1e-8, slope)
        a, b = (-self.half - offset) * inverse, (self.half - offset) * inverse
        return np.minimum(a, b).max(axis=-1), np.maximum(a, b).min(axis=-1)
