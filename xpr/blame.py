"""What an author's code raised, in words: which function, on which line, and what to do."""

from __future__ import annotations

import traceback
from pathlib import Path

import jax

from xpr.errors import UserError
from xpr.types import Primitive


def blame(error: Exception, method: type[Primitive]) -> str:
    """One sentence or two about an exception that came out of a method's file."""
    return f"{_place(error, method)}{_what(error)}"


def _what(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        return (
            "it needs the value of an array while compiling (an `if`, a `while`, float() or int()). "
            "Use jnp.where(condition, a, b); what never changes in a run is a static field."
        )
    told = str(error).strip().splitlines()
    return f"{type(error).__name__}: {told[0] if told else 'no message'}"


def _place(error: Exception, method: type[Primitive]) -> str:
    """The innermost frame in the file of the method or of a class that it builds on."""
    projects = [vars(c)["project"] for c in method.__mro__ if "project" in vars(c)]
    files = {f.__code__.co_filename for f in projects} - {Primitive.project.__code__.co_filename}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    if not frames:
        return ""
    return f"{frames[-1].name}() at {Path(frames[-1].filename).name}:{frames[-1].lineno}: "
