"""Checkpoints: whole or absent, the last three kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import orbax.checkpoint as ocp

from xpr.errors import DataError
from xpr.train.config import VERSION
from xpr.train.state import P, TrainState

KEPT = 3


class Checkpoints:
    """The checkpoints of one run. A context manager.

    Orbax writes each into a temporary folder that it renames at the end, so a run killed at any
    moment resumes from the last complete one.
    """

    def __init__(self, folder: Path):
        """Open the folder, making it where it is missing."""
        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEPT, enable_async_checkpointing=False, cleanup_tmp_directories=True
        )
        self._folder = folder
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

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
        """
        step = int(state.step)
        if step == self.latest:
            return
        meta = {"version": VERSION, "leaves": _layout(state), "beside": beside}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(_plain(state)), meta=ocp.args.JsonSave(meta)
            ),
        )

    def restore(self, template: TrainState[P]) -> tuple[TrainState[P], dict[str, Any]]:
        """The last complete checkpoint.

        Args:
          template: a state of the same method, cap and harmonics.

        Returns:
          The state and what was saved beside it.

        Raises:
          DataError: there is none, or it belongs to another version, method or size.
        """
        step = self.latest
        if step is None:
            raise DataError(
                f"{self._folder} holds no complete checkpoint. Remove the run and train anew."
            )
        meta = self._restore(step, meta=ocp.args.JsonRestore())["meta"]
        self._check(step, meta, template)
        wanted = jax.tree.map(ocp.utils.to_shape_dtype_struct, _plain(template))
        found = self._restore(step, state=ocp.args.StandardRestore(wanted))["state"]
        return found.replace(key=jax.random.wrap_key_data(found.key)), meta["beside"]

    def _restore(self, step: int, **items: Any) -> Mapping[str, Any]:
        return self._manager.restore(step, args=ocp.args.Composite(**items))

    def _check(self, step: int, meta: dict[str, Any], template: TrainState[P]) -> None:
        where = f"the checkpoint of step {step} in {self._folder}"
        if meta.get("version") != VERSION:
            raise DataError(
                f"{where} is of version {meta.get('version')}, expected {VERSION}. Train anew."
            )
        have, want = meta["leaves"], _layout(template)
        for name in sorted(have.keys() | want.keys()):
            if have.get(name) != want.get(name):
                raise DataError(
                    f"{where} has {name} as {have.get(name)}, expected {want.get(name)}. Resume "
                    "with the method, cap and sh_degree of its config.json."
                )


def _plain(state: TrainState[P]) -> TrainState[P]:
    return state.replace(key=jax.random.key_data(state.key))


def _layout(state: TrainState[P]) -> dict[str, str]:
    """Every leaf's shape and type, by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(_plain(state))[0]
    return {jax.tree_util.keystr(path): str(jax.typeof(leaf)) for path, leaf in leaves}
