"""Reads exported files, which may come from anyone."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export as jax_export

from xpr.errors import DataError, UserError
from xpr.export.manifest import FORMAT, KINDS, MANIFEST, SCENE, VERSION
from xpr.io.fields import Fields
from xpr.io.parts import Parts, archive

LARGEST_SIDE = 1 << 16  # px


class Function(NamedTuple):
    """One function of a file.

    Attributes:
      run: from one dict of arrays to another; compiled on its first call.
      inputs: the shape and type of each array that it takes.
    """

    run: Callable[[dict[str, Any]], dict[str, Any]]
    inputs: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The functions of an exported file.

    Attributes:
      manifest: all that the file says of itself.
      functions: by kind ("render", "gradient") and size (width, height).
      scene: the arrays of a scene that is an argument; empty where it is baked in.
    """

    manifest: dict[str, Any]
    functions: dict[tuple[str, tuple[int, int]], Function]
    scene: dict[str, np.ndarray]

    def render(
        self, viewmat: Any, K: Any, *, size: tuple[int, int] | None = None, **more: Any
    ) -> dict[str, jax.Array]:
        """color [H, W, 3], alpha [H, W], depth [H, W] and overflow [] of one view.

        Args:
          viewmat: [4, 4] camera-from-world, OpenCV axes.
          K: [3, 3] px.
          size: width and height; may be left out where the file has one.
          **more: `distortion`, `background` [3] (black if not given), and `scene`, arrays like
            the attribute.

        Raises:
          UserError: another size, or arguments that the function does not take.
        """
        return self._call("render", size, {"viewmat": viewmat, "K": K, **more})

    def value_and_gradient(
        self, viewmat: Any, K: Any, target: Any, *, size: tuple[int, int] | None = None, **more: Any
    ) -> dict[str, Any]:
        """The loss [] against `target` [H, W, 3], and its gradient by the names of the arguments.

        Arguments otherwise as for `render`.

        Raises:
          UserError: as `render`, or the file has no gradient.
        """
        return self._call("gradient", size, {"viewmat": viewmat, "K": K, "target": target, **more})

    def _call(self, kind: str, size: tuple[int, int] | None, given: dict[str, Any]) -> Any:
        sizes = [found for name, found in self.functions if name == kind]
        if size is None and len(sizes) == 1:
            size = sizes[0]
        if size is None or size not in sizes:
            listed = ", ".join(f"{w} x {h}" for w, h in sizes) or "none"
            raise UserError(f"no {kind} function of size {size}; the file has: {listed}.")
        function = self.functions[kind, size]
        given = {"background": np.zeros(3)} | given
        if self.scene:
            given = {"scene": self.scene} | given
        odd = sorted(set(given) ^ set(function.inputs))
        if odd:
            raise UserError(
                f"the {kind} function takes {', '.join(sorted(function.inputs))}; missing or too many: "
                f"{', '.join(odd)}."
            )
        try:
            typed = jax.tree.map(lambda want, x: np.asarray(x, want.dtype), function.inputs, given)
            return function.run(typed)
        except (ValueError, TypeError) as error:
            raise UserError(f"the {kind} function cannot take these arguments: {error}") from error


def load(path: str | Path) -> Compiled:
    """The compiled functions of an exported file.

    Nothing of the file runs but its functions, when they are called: no Python objects are
    unpickled, and functions that would call into the host process are refused.

    Raises:
      DataError: no such file, another version, or damaged.
      OSError: the file cannot be opened.
    """
    path = Path(path)
    parts = archive(path)
    manifest = Fields.parse(path, MANIFEST, parts.read(MANIFEST))
    if manifest.text("format", "") != FORMAT:
        raise DataError(f"{path} is no exported function: its manifest does not name {FORMAT!r}.")
    manifest.integer("version", least=VERSION, most=VERSION)
    functions = {}
    for entry in manifest.objects("functions"):
        kind = entry.text("kind")
        if kind not in KINDS:
            raise entry.wrong("kind", f"one of {', '.join(KINDS)}")
        width, height = (entry.integer(n, least=1, most=LARGEST_SIDE) for n in ("width", "height"))
        data = _sound(parts, manifest, entry.text("file"))
        functions[kind, (width, height)] = _function(path, data)
    if not functions:
        raise DataError(f"{path} holds no functions.")
    baked = manifest.object("scene").flag("baked")
    scene = {} if baked else _scene(path, _sound(parts, manifest, SCENE))
    return Compiled(manifest.values, functions, scene)


def _sound(parts: Parts, manifest: Fields, name: str) -> bytes:
    """A part whose checksum is right."""
    data = parts.read(name)
    if manifest.object("sha256").text(name, "") != hashlib.sha256(data).hexdigest():
        raise DataError(f"{parts.path}: the part {name!r} is damaged: its checksum differs.")
    return data


def _function(path: Path, data: bytes) -> Function:
    try:
        function = jax_export.deserialize(bytearray(data))
        module = function.mlir_module()
        (inputs,), _ = jax.tree.unflatten(function.in_tree, function.in_avals)
        inputs = dict(inputs)
    except Exception as error:  # whatever a flatbuffer that somebody forged makes of the reader
        told = f"{type(error).__name__}: {error}"[:200]
        raise DataError(f"{path}: a function cannot be read: {told}.") from error
    if "custom_call" in module:
        raise DataError(f"{path}: a function calls into the host process: refused.")
    return Function(jax.jit(function.call), inputs)


def _scene(path: Path, data: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return dict(stored)
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(f"{path}: the scene's arrays are damaged: {error}.") from error
