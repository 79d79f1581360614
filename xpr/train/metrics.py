"""How close a picture is to the truth, and what it cost."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from xpr.train.loss import masked_mean

STATUS = Path("/proc/self/status")

Array = jax.Array

PSNR_MAX = 100.0  # dB, of equal pictures


def psnr(render: Array, target: Array, mask: Array | np.ndarray | None = None) -> Array:
    """Peak signal-to-noise ratio in dB, [], at most `PSNR_MAX`.

    Args:
      render: [H, W, C]; clipped to [0, 1], as a screen would.
      target: [H, W, C] in [0, 1].
      mask: [H, W] bool, False = ignore. Of all pixels if None.
    """
    error = masked_mean((jnp.clip(render, 0, 1) - target) ** 2, mask)
    return -10 * jnp.log10(jnp.maximum(error, 10 ** (-PSNR_MAX / 10)))


def rounded(image: Array) -> Array:
    """The image as an 8-bit file would hold it, in [0, 1]."""
    return jnp.round(jnp.clip(image, 0, 1) * 255) / 255


def peak_memory() -> int:
    """The largest amount of main memory that this process has held so far, in bytes.

    On Linux as the kernel counts it for the process itself: `ru_maxrss` starts from what the
    parent held. 0 on Windows, where the standard library does not tell.
    """
    if STATUS.exists():
        lines = STATUS.read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
