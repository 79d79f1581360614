"""Changes of frame: means, quaternions, log-scales and spherical harmonics turn together."""

from __future__ import annotations

import dataclasses

import numpy as np

from xpr import sh
from xpr.errors import UserError
from xpr.io.table import SplatTable

WORLD = "RDF"  # x right, y down, z forward, by COLMAP's custom: the axes of scenes in xpr
RIGID = 1e-4  # how far from orthogonal the linear part of a similarity may be

DIRECTIONS = {
    **dict(zip("RDF", np.eye(3), strict=True)),
    **dict(zip("LUB", -np.eye(3), strict=True)),
}


def axes_matrix(source: str, target: str) -> np.ndarray:
    """[3, 3] that takes coordinates along the axes `source` to those along `target`.

    Axes are three letters, as in `SplatTable.axes`.
    """
    world_from_source, world_from_target = (
        np.stack([DIRECTIONS[letter] for letter in axes], axis=1) for axes in (source, target)
    )
    return world_from_target.T @ world_from_source


def to_axes(table: SplatTable, axes: str) -> SplatTable:
    """The same scene with its coordinates along other axes."""
    if table.axes == axes:
        return table
    turn = np.eye(4)
    turn[:3, :3] = axes_matrix(table.axes, axes)
    return dataclasses.replace(transformed(table, turn), axes=axes)


def transformed(table: SplatTable, matrix: np.ndarray) -> SplatTable:
    """The scene moved by a similarity: a camera moved likewise sees the same image.

    Args:
      table: the splats.
      matrix: [4, 4] new-world-from-old: a rotation or reflection times a scale, and a shift.

    Raises:
      UserError: any other matrix; shear would need more than a quaternion and three scales.
    """
    turn, scale, shift = _similarity(np.asarray(matrix, np.float64))
    coefficients = np.concatenate([table.sh0, table.shN], axis=1)
    coefficients = sh.rotation(turn, table.sh_degree) @ coefficients.astype(np.float64)
    fields = {
        "mean": scale * table.mean @ turn.T + shift,
        "quat": _turned(table.quat, turn),
        "log_scale": table.log_scale + np.log(scale),
        "sh0": coefficients[:, :1],
        "shN": coefficients[:, 1:],
    }
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
        fields = {name: values.astype(np.float32) for name, values in fields.items()}
    return dataclasses.replace(table, **fields)


def _similarity(matrix: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """The orthogonal part [3, 3], the scale and the shift [3] of a similarity."""
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise UserError(f"a change of frame has shape {matrix.shape}, expected 4x4 finite numbers.")
    linear = matrix[:3, :3]
    scale = np.abs(np.linalg.det(linear)) ** (1 / 3)
    rigid = scale > 0 and np.allclose(linear @ linear.T / scale**2, np.eye(3), atol=RIGID)
    if not rigid or not np.allclose(matrix[3], [0, 0, 0, 1]):
        raise UserError(
            "the change of frame is no similarity: splats can be turned, mirrored, moved and scaled "
            "alike in all directions; expected rows [s R | t] and a last row 0 0 0 1."
        )
    u, _, vt = np.linalg.svd(linear)
    turn = u @ vt
    exact = np.rint(linear / scale)
    return (exact if np.allclose(turn, exact, atol=1e-12) else turn), scale, matrix[:3, 3]


def _turned(quats: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The quaternions [N, 4] wxyz after `turn`; their norms stay.

    An ellipsoid looks the same from behind: what a reflection M does to it, the rotation -M does,
    and a flip F of axes makes of the rotation R just as well F R F, whose numbers are R's own.
    """
    from scipy.spatial.transform import Rotation

    handed = np.linalg.det(turn)
    if np.array_equal(np.abs(turn), np.eye(3)):
        return quats * np.append(1.0, np.rint(handed) * np.diag(turn))
    x, y, z, w = Rotation.from_matrix(turn * handed).as_quat()
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    return quats.astype(np.float64) @ left.T
