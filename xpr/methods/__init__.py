"""Rendering methods, found by name, by file or by module."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import pathlib
from types import ModuleType

from xpr.errors import UserError
from xpr.types import Primitive

BUILTIN = {
    "3dgs": "xpr.methods.gaussian3d:Gaussian3D",
    "3dgut": "xpr.methods.gaussian3d_ut:Gaussian3DUT",
    "linprim": "xpr.methods.octahedron:Octahedron",
    "linprim-tetrahedron": "xpr.methods.tetrahedron:Tetrahedron",
}


def names() -> dict[str, str]:
    """Every known method, as name -> "module:Class". Imports none of them."""
    found = {e.name: e.value for e in importlib.metadata.entry_points(group="xpr.methods")}
    return {**found, **BUILTIN}


def load(spec: str) -> type[Primitive]:
    """The primitive class that `spec` names.

    Args:
      spec: a known name ("3dgs"), a module ("my_pkg.surfel:Surfel") or a file
        ("./surfel.py:Surfel", or "./surfel.py" where it defines one primitive).

    Raises:
      UserError: no such method, or what it names is no `Primitive`.
    """
    target, _, attribute = names().get(spec, spec).rpartition(":")
    if spec.endswith(".py"):
        target, attribute = spec, ""
    if not target:
        raise UserError(_unknown(spec))
    module = _import(target)
    found = _only_primitive(module, spec) if not attribute else getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, Primitive)):
        raise UserError(
            f"method {spec!r}: {attribute!r} in {target!r} is {found!r}, expected a subclass of "
            "xpr.Primitive."
        )
    return found


def _only_primitive(module: ModuleType, spec: str) -> type[Primitive]:
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Primitive)
        and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        listed = ", ".join(c.__name__ for c in own) or "none"
        raise UserError(
            f"method {spec!r} defines {len(own)} primitives ({listed}), expected one. "
            f"Name it: '{spec}:Class'."
        )
    return own[0]


def _unknown(spec: str) -> str:
    close = difflib.get_close_matches(spec, names(), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    known = ", ".join(sorted(names()))
    return (
        f"unknown method {spec!r}; known: {known}.{hint} A file is given as './surfel.py:Surfel'."
    )


def _import(target: str) -> ModuleType:
    """The module of a name or a file. Whatever stops it is the author's to mend."""
    file = pathlib.Path(target).resolve()
    if target.endswith(".py") and not file.is_file():
        raise UserError(f"method file {str(file)!r} does not exist. Check its spelling.")
    try:
        return _run(file) if target.endswith(".py") else importlib.import_module(target)
    except Exception as error:
        raise UserError(
            f"method {target!r} cannot be imported: {type(error).__name__}: {error}. Import it in "
            "Python to see where."
        ) from error


def _run(file: pathlib.Path) -> ModuleType:
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module
