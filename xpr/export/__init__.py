"""Compiled functions in a file: rendered anywhere that has jax, without xpr.

A file is a zip of StableHLO functions (`jax.export`), a manifest, and the scene's arrays where they
stay arguments. docs/export.md shows how to run one with jax and numpy alone.
"""

from xpr.export.read import Compiled as Compiled, load as load
from xpr.export.write import PLATFORMS as PLATFORMS, save as save
