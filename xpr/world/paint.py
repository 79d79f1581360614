"""Textures of low to moderate frequency: functions of the local point, smooth everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Paint = Callable[[np.ndarray], np.ndarray]  # local points [M, 3] -> colours [M, 3] in 0..1


def rgb(code: str) -> np.ndarray:
    """[3] in 0..1 from "rrggbb"."""
    return np.array(list(bytes.fromhex(code)), np.float32) / 255


def smoothstep(x: np.ndarray) -> np.ndarray:
    """0 below 0, 1 above 1, a cubic between them."""
    x = np.clip(x, 0, 1)
    return x * x * (3 - 2 * x)


def mix(a: np.ndarray, b: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Colours [M, 3] from `a` (share 0) to `b` (share 1); `share` is [M]."""
    return a + (b - a) * share[..., None]


def plain(color: str) -> Paint:
    """One colour."""
    return lambda p: np.broadcast_to(rgb(color), p.shape)


def stripes(a: str, b: str, *, along: tuple[float, float, float], waves: float) -> Paint:
    """Soft stripes across the direction `along`, `waves` of them from one side to the other."""

    def paint(p: np.ndarray) -> np.ndarray:
        axis = np.array(along, np.float32) / np.linalg.norm(along)
        return mix(rgb(a), rgb(b), _soft(np.sin(np.pi * waves * (p @ axis.astype(np.float32)))))

    return paint


def swirl(a: str, b: str, *, waves: float, twist: float) -> Paint:
    """Stripes around the vertical axis that wind with the height."""

    def paint(p: np.ndarray) -> np.ndarray:
        angle = np.arctan2(p[..., 1], p[..., 0])
        # Towards the poles all stripes meet: they fade into their mean there.
        strength = smoothstep(2.5 * np.hypot(p[..., 0], p[..., 1]))
        wave = strength * np.sin(waves * angle + twist * p[..., 2])
        return mix(rgb(a), rgb(b), _soft(wave))

    return paint


def dots(ground: str, dot: str, *, waves: float) -> Paint:
    """Round spots on a cubic lattice."""

    def paint(p: np.ndarray) -> np.ndarray:
        near = np.prod(np.cos(np.pi * waves * p), axis=-1)
        return mix(rgb(ground), rgb(dot), smoothstep(4 * np.abs(near) - 1))

    return paint


def checks(a: str, b: str, *, waves: tuple[float, float, float]) -> Paint:
    """Squares, or cubes: half as long along each axis as a wave of it; 0 for no change along it."""

    def paint(p: np.ndarray) -> np.ndarray:
        # Each factor is squared off by itself, so that the corners stay square.
        factors = 2 * _soft(np.cos(np.pi * p * np.array(waves, np.float32))) - 1
        return mix(rgb(a), rgb(b), 0.5 + 0.5 * np.prod(factors, axis=-1))

    return paint


def _soft(wave: np.ndarray) -> np.ndarray:
    """A wave in -1..1 squared off to 0..1, with edges about a tenth of a period wide."""
    return smoothstep(0.5 + 1.6 * wave)
