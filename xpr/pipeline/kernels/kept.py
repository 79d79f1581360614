"""Machine code on disk, beside the programs that JAX keeps: one process compiles, the next loads."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import jax

from xpr.files import atomic_write

logger = logging.getLogger("xpr.pipeline")

CHECK = hashlib.sha256().digest_size  # bytes before the code: its checksum


def kept(source: str, make: Callable[[], bytes]) -> bytes:
    """What `make` returns, or what it returned to an earlier process for the same source.

    Where JAX keeps no programs (`xpr.cache`), or not on this machine, or the folder cannot be
    written, it is made anew; so is a damaged file.

    Args:
      source: all that the code depends on, the processor and the compiler included.
      make: compiles it.
    """
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if folder is None or "://" in folder:
        return make()
    path = Path(folder) / "kernels" / hashlib.sha256(source.encode()).hexdigest()
    try:
        whole = path.read_bytes()
        check, code = whole[:CHECK], whole[CHECK:]
        if hashlib.sha256(code).digest() == check:
            return code
    except OSError:
        pass
    code = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial:
            partial.write_bytes(hashlib.sha256(code).digest() + code)
    except OSError as error:
        logger.info("a kernel is not kept: %s", error)
    return code
