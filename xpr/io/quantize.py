"""The few ways in which splat files pack numbers into bytes."""

from __future__ import annotations

import numpy as np

LARGEST_KEPT = np.sqrt(0.5)  # no component but the largest of a unit quaternion exceeds it


def to_levels(unit: np.ndarray, levels: int | np.ndarray) -> np.ndarray:
    """Values in [0, 1] as the nearest of `levels` + 1 integers from 0 on; clipped. uint32."""
    return np.rint(np.clip(unit, 0, 1) * levels).astype(np.uint32)


def to_bytes(unit: np.ndarray) -> np.ndarray:
    """Values in [0, 1] as the nearest byte; clipped."""
    return to_levels(unit, 255).astype(np.uint8)


def logit_of_byte(opacity: np.ndarray) -> np.ndarray:
    """The logit of an opacity stored as a byte, float32.

    The outermost bytes stand for opacities within a quarter of a step, so that logits are finite
    and the byte comes back on writing.
    """
    p = np.clip(opacity.astype(np.float64), 0.25, 254.75)
    return np.log(p / (255 - p)).astype(np.float32)


def unit_quats(quats: np.ndarray) -> np.ndarray:
    """Quaternions [N, 4] of norm 1, float64; zero becomes the identity (w first)."""
    quats = quats.astype(np.float64)  # in which the square of a float32 cannot overflow
    norm = np.linalg.norm(quats, axis=1, keepdims=True)
    identity = np.array([1.0, 0, 0, 0])
    return np.where(norm > 0, quats / np.where(norm > 0, norm, 1), identity)


def drop_largest(quats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which component of unit quaternions [N, 4] is largest, and the other three [N, 3] in order.

    The sign is chosen so that the largest is positive.
    """
    largest = np.argmax(np.abs(quats), axis=1)
    signs = np.sign(np.take_along_axis(quats, largest[:, None], axis=1))
    others = np.arange(4) != largest[:, None]
    return largest, (quats * signs)[others].reshape(-1, 3)


def restore_largest(largest: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The unit quaternions [N, 4] of `drop_largest`, float32."""
    quats = np.empty((len(others), 4))
    mask = np.arange(4) != largest[:, None]
    quats[mask] = others.ravel()
    quats[~mask] = np.sqrt(np.maximum(0, 1 - np.sum(np.square(others, dtype=float), axis=1)))
    return quats.astype(np.float32)


def morton_order(means: np.ndarray) -> np.ndarray:
    """Indices [N] along a Z-shaped curve through space: neighbours in it are near each other."""
    if not len(means):
        return np.empty(0, np.intp)
    low, high = means.min(axis=0), means.max(axis=0)
    cells = to_levels((means - low) / np.where(high > low, high - low, 1), 1023)
    code = np.zeros(len(means), np.uint32)
    for bit in range(10):
        for axis in range(3):
            code |= ((cells[:, axis] >> bit) & 1) << np.uint32(3 * bit + axis)
    return np.argsort(code, kind="stable")
