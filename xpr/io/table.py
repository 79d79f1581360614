"""What every splat file holds, as plain arrays: the meeting point of the formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xpr import sh

FIELDS = ("mean", "quat", "log_scale", "logit_opacity", "sh0", "shN")


@dataclasses.dataclass(frozen=True)
class SplatTable:
    """Raw 3DGS parameters of N splats, float32, in the order of the file.

    Attributes:
      mean: [N, 3] world units.
      quat: [N, 4] as (w, x, y, z), of any norm.
      log_scale: [N, 3] logarithm of the standard deviations in world units.
      logit_opacity: [N].
      sh0: [N, 1, 3] the constant term of the colour.
      shN: [N, K - 1, 3] the higher spherical harmonics, K = (degree + 1)^2.
      antialiased: whether it was trained with the antialiased (mip) opacity.
      axes: where x, y and z point, a letter each of Right/Left, Up/Down, Forward/Back. RDF is
        COLMAP's custom and xpr's own; `xpr.io.frames` turns tables between axes.
      notes: what was odd about the file, one short sentence each.
    """

    mean: np.ndarray
    quat: np.ndarray
    log_scale: np.ndarray
    logit_opacity: np.ndarray
    sh0: np.ndarray
    shN: np.ndarray
    antialiased: bool = False
    axes: str = "RDF"
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def sh_degree(self) -> int:
        """The degree of the colour's spherical harmonics, 0 to 4."""
        return sh.degree_of(1 + self.shN.shape[1])

    @property
    def opacity(self) -> np.ndarray:
        """[N] in [0, 1]."""
        # The logistic function by its symmetric form, which cannot overflow.
        return 0.5 * (1.0 + np.tanh(0.5 * self.logit_opacity))

    def select(self, rows: np.ndarray) -> SplatTable:
        """The splats that `rows` (a mask, or indices in the wanted order) names."""
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in FIELDS})

    def noted(self, *notes: str) -> SplatTable:
        """With more notes."""
        return dataclasses.replace(self, notes=(*self.notes, *notes))

    def truncated(self, degree: int) -> SplatTable:
        """Without the spherical harmonics above `degree`; a lower degree stays."""
        return dataclasses.replace(self, shN=self.shN[:, : sh.coefficients(degree) - 1])

    def extended(self, degree: int) -> SplatTable:
        """With zeros for the spherical harmonics up to `degree` that it lacks."""
        missing = max(0, sh.coefficients(degree) - 1 - self.shN.shape[1])
        return dataclasses.replace(self, shN=np.pad(self.shN, [(0, 0), (0, missing), (0, 0)]))

    def finite(self) -> SplatTable:
        """Without the splats that hold a NaN or an infinity, which are counted in `notes`."""
        keep = np.ones(len(self), bool)
        for name in FIELDS:
            values = getattr(self, name)
            keep &= np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        if keep.all():
            return self
        dropped = f"dropped {np.sum(~keep):,} of {len(self):,} splats with non-finite values"
        return self.select(keep).noted(dropped)


def joined(tables: Sequence[SplatTable]) -> SplatTable:
    """Tables of one kind of axes, one behind the other; SH degrees grow to the highest."""
    if not tables:
        return _none()
    degree = max(table.sh_degree for table in tables)
    padded = [table.extended(degree) for table in tables]
    fields = {name: np.concatenate([getattr(t, name) for t in padded]) for name in FIELDS}
    antialiased = any(table.antialiased for table in tables)
    whole = dataclasses.replace(padded[0], **fields)
    notes = tuple(note for table in tables for note in table.notes)
    return dataclasses.replace(whole, antialiased=antialiased, notes=notes)


def _none() -> SplatTable:
    shapes = ((0, 3), (0, 4), (0, 3), (0,), (0, 1, 3), (0, 0, 3))
    mean, quat, log_scale, opacity, sh0, shN = (np.empty(shape, np.float32) for shape in shapes)
    return SplatTable(mean, quat, log_scale, opacity, sh0, shN)
