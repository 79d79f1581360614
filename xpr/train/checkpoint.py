"""Checkpoints: whole or absent, the last three kept."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import orbax.checkpoint as ocp

from xpr.errors import DataError
from xpr.io.contents import told
from xpr.io.fields import Fields
from xpr.train.config import VERSION
from xpr.train.seal import check_seal, seal
from xpr.train.state import P, TrainState

KEPT = 3
ALIVE = ".alive"  # the leaf whose length is the cap


class Checkpoints:
    """The checkpoints of one run. A context manager.

    Orbax writes each into a temporary folder that it renames at the end, so a run killed at any
    moment resumes from the last complete one.
    """

    def __init__(self, folder: Path):
        """Open the folder, making it where it is missing.

        Raises:
          DataError: it cannot be made, or what orbax tells of its checkpoints is damaged.
        """
        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEPT, enable_async_checkpointing=False, cleanup_tmp_directories=True
        )
        self._folder = folder
        self._manager, why = _attempted(
            lambda: ocp.CheckpointManager(folder.absolute(), options=options)
        )
        if why:
            raise DataError(
                f"{folder} holds a damaged checkpoint: {why}. Remove the last one's folder: the "
                "run goes on from the one before it."
            )

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """Open the folder of a run that is to go on.

        Raises:
          DataError: there is none; it is not made.
        """
        if not folder.is_dir():
            raise DataError(f"{folder} does not exist: the run has no checkpoint. Train anew.")
        return cls(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.close()

    @property
    def latest(self) -> int | None:
        """The step of the last complete checkpoint; None without one."""
        return self._manager.latest_step()

    def save(self, state: TrainState[P], beside: dict[str, Any]) -> None:
        """Write the state, unless its step is there already.

        Args:
          state: of the run.
          beside: what else the host must know to go on, as JSON.

        Raises:
          OSError: it cannot be written, on a full disk for instance; the others stay whole.
        """
        step = int(state.step)
        if step == self.latest:
            return
        meta = {"version": VERSION, "leaves": _layout(state), "beside": beside}
        state_args = ocp.args.StandardSave(_stored(_plain(state)))
        items = ocp.args.Composite(state=state_args, meta=ocp.args.JsonSave(meta))
        _, why = _attempted(lambda: self._manager.save(step, args=items))
        if why:
            raise OSError(
                f"{self._folder}: the checkpoint of step {step} cannot be written: {why}. Those "
                "before it are whole."
            )
        seal(self._folder / str(step))

    def check_cap(self, cap: int) -> None:
        """Refuse a state of another size than `cap` slots, before that many are reserved.

        Raises:
          DataError: as `restore`.
        """
        step, meta = self._meta()
        self._check(step, meta, {ALIVE: f"bool[{cap}]"}, [ALIVE])

    def restore(self, template: TrainState[P]) -> tuple[TrainState[P], Fields]:
        """The last complete checkpoint.

        Args:
          template: a state of the same method, cap and harmonics.

        Returns:
          The state and what was saved beside it.

        Raises:
          DataError: there is none, it is damaged, or it belongs to another version, method or size.
        """
        step, meta = self._meta()
        want = _layout(template)
        self._check(step, meta, want, sorted(meta.object("leaves").values.keys() | want.keys()))
        plain = _plain(template)
        wanted = jax.tree.map(ocp.utils.to_shape_dtype_struct, _stored(plain))
        found = self._restore(step, state=ocp.args.StandardRestore(wanted))["state"]
        state = jax.tree.map(lambda leaf, have: leaf if have is None else have, plain, found)
        return state.replace(key=jax.random.wrap_key_data(state.key)), meta.object("beside")

    def _meta(self) -> tuple[int, Fields]:
        """The last step, and what was saved beside its state."""
        step = self.latest
        if step is None:
            raise DataError(
                f"{self._folder} holds no complete checkpoint. Remove the run and train anew."
            )
        try:
            check_seal(self._folder / str(step))
        except ValueError as error:  # a name that no file can have is one as well
            raise self._damaged(step, str(error).rstrip(".")) from error
        meta = self._restore(step, meta=ocp.args.JsonRestore())["meta"]
        if not isinstance(meta, dict):
            raise self._damaged(step, f"its meta is {told(meta)}, expected an object")
        return step, Fields(self._folder / str(step), "meta", meta)

    def _restore(self, step: int, **items: Any) -> Mapping[str, Any]:
        found, why = _attempted(
            lambda: self._manager.restore(step, args=ocp.args.Composite(**items))
        )
        if why:
            raise self._damaged(step, why)
        return found

    def _damaged(self, step: int, why: str) -> DataError:
        return DataError(
            f"{self._folder / str(step)} is damaged: {why}. Remove this folder: the run goes on "
            "from the checkpoint before it."
        )

    def _check(self, step: int, meta: Fields, want: dict[str, str], names: list[str]) -> None:
        """The version, and the shape and type of the leaves of these names."""
        where = f"the checkpoint of step {step} in {self._folder}"
        version, have = meta.values.get("version"), meta.object("leaves").values
        if version != VERSION:
            raise DataError(
                f"{where} is of version {told(version)}, expected {VERSION}. Train anew."
            )
        for name in names:
            if have.get(name) != want.get(name):
                raise DataError(
                    f"{where} has {told(name)} as {told(have.get(name))}, expected "
                    f"{want.get(name)}. Resume with the method, cap and sh_degree of its config.json."
                )


def _attempted(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """What a call of orbax returns; or None, and why it failed.

    Damage and full disks show as any error of orbax, tensorstore or json. They leave coroutines
    behind, and Python would print the end of each.
    """
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        try:
            return call(), None
        except Exception as error:
            why = f"{type(error).__name__}: {told(error)}"
        gc.collect()
        return None, why
    finally:
        sys.unraisablehook = hook


def _plain(state: TrainState[P]) -> TrainState[P]:
    return state.replace(key=jax.random.key_data(state.key))


def _stored(state: TrainState[P]) -> TrainState[P]:
    """Without the leaves that hold no number, which orbax refuses: no harmonics at degree 0."""
    return jax.tree.map(lambda leaf: leaf if leaf.size else None, state)


def _layout(state: TrainState[P]) -> dict[str, str]:
    """Every leaf's shape and type, by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(_plain(state))[0]
    return {jax.tree_util.keystr(path): str(jax.typeof(leaf)) for path, leaf in leaves}
