"""Compiled programs on disk: what one process has compiled, the next one loads."""

from __future__ import annotations

import logging
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

logger = logging.getLogger("xpr.cache")

VARIABLE = "XPR_CACHE"  # a folder, or one of OFF
OFF = ("", "0", "off", "none")
SHORTEST = 0.0  # seconds: what compiles faster is not kept. A run begins with sixty small programs


def folder(environment: Mapping[str, str], system: str = sys.platform) -> Path | None:
    """Where compiled programs are kept: by default in the user's cache folder. None: nowhere.

    Machines have a folder each, since a program for one processor may not run on another.

    Args:
      environment: variables of the process.
      system: as `sys.platform` names it.
    """
    asked = environment.get(VARIABLE)
    if asked is not None:
        return None if asked.lower() in OFF else Path(asked)
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or tempfile.gettempdir())
    if system == "win32":
        base = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif system == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "xpr" / (platform.node() or "machine")


def turn_on() -> None:
    """Keep compiled programs from now on, unless JAX already does or the user wants none.

    A folder that cannot be written is no error: then everything is compiled anew.
    """
    place = folder(os.environ)
    if place is None or jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        logger.info("compiled programs are not kept: %s", error)
        return
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    # JAX decides at its first compilation; it may have compiled something already.
    compilation_cache.reset_cache()
