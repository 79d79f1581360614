"""The analytic world of the demo, and its ray tracer: the exact colour along any ray.

A studio: solids on a checkered floor that fades into a plain backdrop, one sun, light from the
sky. z is up, the floor is z = 0, everything of interest lies within one unit of the origin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xpr.world.paint import checks, dots, mix, plain, rgb, smoothstep, stripes, swirl
from xpr.world.solids import NEAREST, Box, Solid, Sphere

FLOOR_RADIUS = 1.7
FADE = (0.75, 1.55)  # distances from the origin between which the floor turns into the backdrop
DOME_RADIUS = 4.0  # of the backdrop, a sphere around the origin; cameras stay inside
CHUNK = 1 << 15  # rays at a time: their arrays stay in the cache

SUN = np.array([0.42, -0.48, 0.77], np.float32) / np.float32(1.0006)
SUN_COLOR, SKY_COLOR = rgb("fff0d8") * 0.78, rgb("d8e4ff") * 0.56
SHINE, SHARPNESS = 0.18, 24
HORIZON, ZENITH = rgb("e9e4dc"), rgb("9dbfe3")

FLOOR = checks("d9d3c7", "8d97a6", waves=(3, 3, 0))


def _at(x: float, y: float, z: float) -> np.ndarray:
    return np.array([x, y, z], np.float32)


SOLIDS: tuple[Solid, ...] = (
    Sphere(_at(0.02, 0.06, 0.28), swirl("e4573d", "f6dcc0", waves=5, twist=4.5), 0.28),
    Sphere(_at(-0.42, -0.30, 0.17), dots("1f8a8c", "f2efe2", waves=1.15), 0.17),
    Sphere(_at(0.20, -0.46, 0.11), stripes("f3b63c", "fbe6b0", along=(1, 0.4, 2), waves=2), 0.11),
    Sphere(_at(0.56, -0.22, 0.09), plain("c9486d"), 0.09),
    Box(
        _at(0.47, 0.24, 0.21),
        checks("3566ad", "a9cbee", waves=(1, 1, 2)),
        _at(0.14, 0.14, 0.21),
        0.45,
    ),
    Box(
        _at(-0.40, 0.36, 0.09),
        stripes("8a5a34", "c79862", along=(1, 0.25, 0.6), waves=3),
        _at(0.22, 0.15, 0.09),
        -0.35,
    ),
    Sphere(_at(-0.42, 0.36, 0.29), stripes("5b3f8c", "cdb6ec", along=(0, 0.3, 1), waves=3), 0.11),
)


def trace(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The colour seen along rays.

    Args:
      origins: [..., 3] world units, within `DOME_RADIUS` of the world's origin, outside solids.
      directions: [..., 3] of any length; broadcast against `origins`.

    Returns:
      [..., 3] float32 in 0..1, as written to pictures (no linearisation).
    """
    return _by_chunks(_shade, origins, directions)


def first_hit(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The points [..., 3] of the world that rays hit first, as `trace` sees them."""

    def points(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        distance, _ = _nearest(origins, directions)
        return origins + distance[:, None] * directions

    return _by_chunks(points, origins, directions)


def _by_chunks(
    f: Callable[[np.ndarray, np.ndarray], np.ndarray], origins: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    origins, directions = np.broadcast_arrays(origins, directions)
    shape = directions.shape
    origins = origins.astype(np.float32).reshape(-1, 3)
    directions = directions.astype(np.float32).reshape(-1, 3)
    directions = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    out = np.empty_like(directions)
    for start in range(0, len(out), CHUNK):
        part = slice(start, start + CHUNK)
        out[part] = f(origins[part], directions[part])
    return out.reshape(shape)


def _nearest(origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance [M] to what a ray hits first, and which it is: a solid, then floor, then backdrop."""
    hits = [solid.hit(origins, directions) for solid in SOLIDS]
    hits += [_hit_floor(origins, directions), _hit_dome(origins, directions)]
    which = np.argmin(hits, axis=0)
    return np.min(hits, axis=0), which


def _hit_floor(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    down = directions[:, 2] < -1e-6
    t = -origins[:, 2] / np.where(down, directions[:, 2], -1)
    x, y = origins[:, 0] + t * directions[:, 0], origins[:, 1] + t * directions[:, 1]
    return np.where(down & (t > NEAREST) & (x * x + y * y < FLOOR_RADIUS**2), t, np.inf)


def _hit_dome(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    b = np.sum(origins * directions, axis=-1)
    c = np.sum(origins * origins, axis=-1) - DOME_RADIUS**2
    return -b + np.sqrt(np.maximum(b * b - c, 0))


def _shade(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    distance, which = _nearest(origins, directions)
    points = origins + distance[:, None] * directions
    color = mix(HORIZON, ZENITH, smoothstep(points[:, 2] / DOME_RADIUS))
    for index, solid in enumerate(SOLIDS):
        (seen,) = np.nonzero(which == index)
        normals, albedo = solid.surface(points[seen])
        color[seen] = _light(points[seen], normals, albedo, directions[seen], own=solid)
    (seen,) = np.nonzero(which == len(SOLIDS))
    color[seen] = _floor(points[seen], directions[seen])
    return np.clip(color, 0, 1)


def _floor(points: np.ndarray, directions: np.ndarray) -> np.ndarray:
    up = np.broadcast_to(_at(0, 0, 1), points.shape)
    lit = _light(points, up, FLOOR(points), directions, own=None, shine=0)
    near, far = FADE
    away = (np.hypot(points[:, 0], points[:, 1]) - near) / (far - near)
    return mix(lit, HORIZON, smoothstep(away))


def _light(
    points: np.ndarray,
    normals: np.ndarray,
    albedo: np.ndarray,
    directions: np.ndarray,
    *,
    own: Solid | None,
    shine: float = SHINE,
) -> np.ndarray:
    """Matte reflection of sun and sky, with a mild highlight, at points of the solid `own`."""
    others = [solid for solid in SOLIDS if solid is not own]
    facing = normals @ SUN
    # The floor blocks the lower half of the sky from what faces down.
    sky = 0.7 + 0.3 * normals[:, 2]
    sun = smoothstep(facing / 0.1) * np.maximum(facing, 0)
    for solid in others:
        sky = sky * solid.skylight(points, normals)
        sun = sun * solid.sunlight(points, SUN)
    halfway = SUN - directions
    halfway = halfway / np.linalg.norm(halfway, axis=-1, keepdims=True)
    glint = np.maximum(np.sum(normals * halfway, axis=-1), 0) ** SHARPNESS
    light = sun[:, None] * SUN_COLOR + sky[:, None] * SKY_COLOR
    return albedo * light + (shine * glint * np.minimum(sun, 1))[:, None]
