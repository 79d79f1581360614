"""Keeping up to date what primitives keep of the training views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from xpr.camera import Camera
from xpr.types import Primitive

P = TypeVar("P", bound=Primitive)


def stacked(cameras: Iterable[Camera]) -> tuple[Camera, ...]:
    """One batch (leading axis C) of all the cameras that are alike but for their numbers."""
    alike: dict[Any, list[Camera]] = {}
    for camera in cameras:
        alike.setdefault(jax.tree.structure(camera), []).append(camera)
    return tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *some) for some in alike.values())


@jax.jit
def refreshed(scene: P, cameras: tuple[Camera, ...]) -> P:
    """A scene [N] after `Primitive.refreshed` with these batches."""
    return jax.vmap(lambda primitive: primitive.refreshed(cameras))(scene)
