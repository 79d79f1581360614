"""What every splat file holds, as plain arrays: the meeting point of the formats."""

from __future__ import annotations

import dataclasses

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
      notes: what was odd about the file, one short sentence each.
    """

    mean: np.ndarray
    quat: np.ndarray
    log_scale: np.ndarray
    logit_opacity: np.ndarray
    sh0: np.ndarray
    shN: np.ndarray
    antialiased: bool = False
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

    def finite(self) -> SplatTable:
        """Without the splats that hold a NaN or an infinity, which are counted in `notes`."""
        keep = np.ones(len(self), bool)
        for name in FIELDS:
            values = getattr(self, name)
            keep &= np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        if keep.all():
            return self
        dropped = f"dropped {np.sum(~keep):,} of {len(self):,} splats with non-finite values"
        kept = {name: getattr(self, name)[keep] for name in FIELDS}
        return dataclasses.replace(self, **kept, notes=(*self.notes, dropped))
