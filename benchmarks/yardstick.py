"""A renderer to compare with, given by path: hand-written for this CPU, for 3DGS alone.

Its folder holds splatref.py, which builds and binds splatref.cpp.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.case import target
from benchmarks.workloads import Workload
from xpr.errors import UserError
from xpr.methods.gaussian3d import Gaussian3D

# OpenMP reads them when it is loaded. A waiting thread must not spin: others want its core.
OPENMP = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores", "OMP_WAIT_POLICY": "passive"}


class Yardstick:
    """The built library. It has a thread of its own, since OpenMP binds its caller to one core."""

    def __init__(self, folder: Path, threads: int) -> None:
        """Build it in a temporary folder and load it.

        Raises:
          UserError: the folder holds no splatref.py.
        """
        source = folder / "splatref.py"
        if not source.is_file():
            raise UserError(f"{folder} holds no splatref.py, expected the yardstick's folder.")
        os.environ.update(OPENMP)
        spec = importlib.util.spec_from_file_location("splatref", source)
        assert spec is not None and spec.loader is not None
        self._module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        self._threads, self._own = threads, ThreadPoolExecutor(1)
        with tempfile.TemporaryDirectory() as built:
            self._library = self._module.load(self._module.build(built))

    def functions(
        self, workload: Workload
    ) -> tuple[Callable[[], np.ndarray], Callable[[], list[np.ndarray]]]:
        """The workload's image, and the gradients of its parameters, as functions to time.

        Raises:
          UserError: it is not made of Gaussians with harmonics of degree 3.
        """
        arrays, truth = stored(workload), target(workload.camera)
        drawn = self._module.SplatRef(self._library, arrays, threads=self._threads)

        def both() -> list[np.ndarray]:
            drawn.forward()
            return drawn.backward_l1(truth)

        return (
            lambda: self._own.submit(drawn.forward).result(),
            lambda: self._own.submit(both).result(),
        )


def stored(workload: Workload) -> dict[str, np.ndarray]:
    """The workload as the yardstick reads it: unit quaternions, sizes and opacities themselves.

    Raises:
      UserError: as `Yardstick.functions`.
    """
    scene, camera = workload.scene, workload.camera
    if not isinstance(scene, Gaussian3D) or scene.shN.shape[1] != 15:
        raise UserError(
            f"{workload.name} cannot be measured by the yardstick, which expects Gaussians with "
            "harmonics of degree 3. Leave out --yardstick."
        )
    given = {
        "means": scene.mean,
        "quats": scene.quat / np.linalg.norm(scene.quat, axis=1, keepdims=True),
        "scales": np.exp(scene.log_scale),
        "opacities": jax.nn.sigmoid(scene.logit_opacity),
        "sh": np.concatenate([scene.sh0, scene.shN], axis=1),
        "viewmat": camera.viewmat,
        "K": camera.K,
        "width": camera.width,
        "height": camera.height,
    }
    return {name: np.asarray(value) for name, value in given.items()}
