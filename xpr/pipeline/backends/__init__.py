"""Backends, each one module with `why_not`, `each` (projecting), `pair` (binning) and `composite`."""

from __future__ import annotations

import importlib
from types import ModuleType

from xpr.errors import UserError
from xpr.pipeline.frame import Request

AUTO = ("cpu", "pallas", "xla", "reference")  # the first without a reason against it is taken


def choose(request: Request, backend: str) -> ModuleType:
    """The module of a named backend, or of the first one that can ("auto").

    Raises:
      UserError: no such backend, or the named one cannot and says why.
    """
    if backend not in (*AUTO, "auto"):
        raise UserError(f"unknown backend {backend!r}; known: auto, {', '.join(AUTO)}.")
    for name in AUTO if backend == "auto" else (backend,):
        module = importlib.import_module(f"xpr.pipeline.backends.{name}")
        reason = module.why_not(request)
        if reason is None:
            return module
        if name == backend:
            raise UserError(f"backend {name!r} cannot render this: {reason}")
    raise AssertionError("the reference backend takes anything")
