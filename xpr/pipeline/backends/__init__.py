"""Backends, each one module with `why_not`, `each` (projecting), `pair` (binning) and `composite`."""

from __future__ import annotations

import importlib
from types import ModuleType

from xpr.errors import UserError
from xpr.pipeline.frame import Request

AUTO = ("cpu", "xla", "reference")  # the first without a reason against it is taken
REORDERING = ("xla", "reference")  # those that can put hits in the order of their distance


def choose(request: Request, backend: str) -> ModuleType:
    """The module of a named backend, or of the first one that can ("auto").

    Raises:
      UserError: no such backend, or the named one cannot and says why.
    """
    if backend not in (*AUTO, "auto"):
        raise UserError(f"unknown backend {backend!r}; known: auto, {', '.join(AUTO)}.")
    for name in AUTO if backend == "auto" else (backend,):
        module = importlib.import_module(f"xpr.pipeline.backends.{name}")
        reason = _keeps_order(request, name) or module.why_not(request)
        if reason is None:
            return module
        if name == backend:
            raise UserError(f"backend {name!r} cannot render this: {reason}")
    raise AssertionError("the reference backend takes anything")


def _keeps_order(request: Request, name: str) -> str | None:
    if not request.anatomy.blend.reorder or name in REORDERING:
        return None
    return f"it keeps the order of the centres. Use one of: {', '.join(REORDERING)}."
