"""The .splat format: 32 bytes a splat, no header, no spherical harmonics.

Position and linear scale as three float32 each, RGBA as bytes, the quaternion (w, x, y, z) as
bytes q * 128 + 128. Whoever streams such a file wants the most important splats first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xpr import sh
from xpr.errors import DataError, UserError
from xpr.files import atomic_write
from xpr.io.contents import read_all
from xpr.io.quantize import logit_of_byte, to_bytes, unit_quats
from xpr.io.table import SplatTable

ROW = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("quat", "u1", 4)])


def read_splat(path: Path) -> SplatTable:
    """The splats of a .splat file.

    Raises:
      DataError: its size is no multiple of 32 bytes, or it is empty.
      OSError: the file cannot be opened.
    """
    data = read_all(path)
    if len(data) % ROW.itemsize:
        raise DataError(
            f"{path} has {len(data):,} bytes, expected a multiple of {ROW.itemsize}: it is "
            "truncated or no .splat file."
        )
    rows = np.frombuffer(data, ROW)
    with np.errstate(divide="ignore", invalid="ignore"):  # such splats are dropped with a count
        log_scale = np.log(rows["scale"])
    return SplatTable(
        mean=rows["mean"].astype(np.float32),
        quat=((rows["quat"].astype(np.float32) - 128) / 128),
        log_scale=log_scale,
        logit_opacity=logit_of_byte(rows["rgba"][:, 3]),
        sh0=((rows["rgba"][:, None, :3] / 255 - 0.5) / sh.C0).astype(np.float32),
        shN=np.empty((len(rows), 0, 3), np.float32),
    ).finite()


def write_splat(table: SplatTable, path: Path) -> None:
    """Write the splats, the most important (opacity times volume) first.

    Raises:
      UserError: no splats; without a header the file could not say so.
      OSError: the folder does not exist or cannot be written.
    """
    if not len(table):
        raise UserError(f"{path}: there are no splats to write, and .splat cannot say so.")
    importance = np.log(np.maximum(table.opacity, 1e-9)) + table.log_scale.sum(axis=1)
    table = table.select(np.argsort(-importance, kind="stable"))
    rows = np.empty(len(table), ROW)
    rows["mean"] = table.mean
    rows["scale"] = np.exp(table.log_scale)
    rows["rgba"][:, :3] = to_bytes(0.5 + sh.C0 * table.sh0[:, 0])
    rows["rgba"][:, 3] = to_bytes(table.opacity)
    rows["quat"] = np.clip(np.rint(unit_quats(table.quat) * 128 + 128), 0, 255)
    with atomic_write(path) as temporary:
        temporary.write_bytes(rows.tobytes())
