"""Backends of the compositing stage, each one module with `why_not` and `composite`."""

from __future__ import annotations

import importlib

from xpr.errors import UserError
from xpr.pipeline.frame import Frame, Layers

AUTO = ("xla", "reference")  # the first without a reason against it is taken
REORDERING = ("xla", "reference")  # those that can put hits in the order of their distance


def composite(frame: Frame, backend: str) -> Layers:
    """Composite with a named backend, or with the first one that can ("auto").

    Raises:
      UserError: no such backend, or the named one cannot and says why.
    """
    if backend not in (*AUTO, "auto"):
        raise UserError(f"unknown backend {backend!r}; known: auto, {', '.join(AUTO)}.")
    _check_reorder(frame)
    for name in AUTO if backend == "auto" else (backend,):
        module = importlib.import_module(f"xpr.pipeline.backends.{name}")
        reason = _cannot_reorder(frame, name) or module.why_not(frame)
        if reason is None:
            return module.composite(frame)
        if name == backend:
            raise UserError(f"backend {name!r} cannot render this: {reason}")
    raise AssertionError("the reference backend takes anything")


def _check_reorder(frame: Frame) -> None:
    if frame.splats.blend.reorder and not frame.anatomy.has_distance:
        name = type(frame.splats).__name__
        raise UserError(
            f"{name}.blend asks for hits in the order of their distance (reorder="
            f"{frame.splats.blend.reorder}), but {name}.evaluate() returns none that varies along "
            "the ray. Return Hit(alpha, color, depth), or leave out reorder."
        )


def _cannot_reorder(frame: Frame, name: str) -> str | None:
    if frame.splats.blend.reorder and name not in REORDERING:
        return f"it keeps the order of the centres (use one of {', '.join(REORDERING)})."
    return None
