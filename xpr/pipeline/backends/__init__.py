"""Backends, each one module with `why_not` and the stages that it may do its own way."""

from __future__ import annotations

import importlib
from types import ModuleType

from xpr.errors import UserError
from xpr.pipeline.frame import Request

# The first without a reason against it is taken.
AUTO = ("cpu", "pallas", "xla", "reference")
REORDERING = ("xla", "reference")  # those that can put hits in the order of their distance


def choose(request: Request, backend: str) -> ModuleType:
    """The module of a named backend, or of the first one that can ("auto").

    Raises:
      UserError: no such backend, or the named one cannot and says why.
    """
    if backend not in (*AUTO, "auto"):
        raise UserError(f"unknown backend {backend!r}; known: auto, {', '.join(AUTO)}.")
    _check_reorder(request)
    for name in AUTO if backend == "auto" else (backend,):
        module = importlib.import_module(f"xpr.pipeline.backends.{name}")
        reason = _cannot_reorder(request, name) or module.why_not(request)
        if reason is None:
            return module
        if name == backend:
            raise UserError(f"backend {name!r} cannot render this: {reason}")
    raise AssertionError("the reference backend takes anything")


def _check_reorder(request: Request) -> None:
    if request.blend.reorder and not request.anatomy.has_distance:
        name = request.splat
        raise UserError(
            f"{name}.blend asks for hits in the order of their distance (reorder="
            f"{request.blend.reorder}), but {name}.evaluate() returns none that varies along "
            "the ray. Return Hit(alpha, color, depth), or leave out reorder."
        )


def _cannot_reorder(request: Request, name: str) -> str | None:
    if request.blend.reorder and name not in REORDERING:
        return f"it keeps the order of the centres (use one of {', '.join(REORDERING)})."
    return None
