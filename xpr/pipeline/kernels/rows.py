"""Mapped functions as operations of a JAX program, on several threads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from xpr.camera import Camera
from xpr.pipeline.kernels import foreign, mapping
from xpr.pipeline.kernels.hoist import hoist
from xpr.pipeline.kernels.mapping import Map
from xpr.pipeline.kernels.program import Entry, Program, compiled
from xpr.pipeline.kernels.values import LANES
from xpr.pipeline.kernels.workers import clear, pack, run
from xpr.pipeline.order import Order
from xpr.pipeline.settings import Settings
from xpr.types import Array, Primitive

PyTree = Any  # a jax.tree_util.PyTreeDef
Function = Callable[[list[Array]], list[Array]]
Shapes = tuple[tuple[tuple[int, ...], ...], ...]

_ENTRIES: dict[tuple[str, str], Entry] = {}


class Rows(struct.PyTreeNode):
    """Which rows are mapped: `index[:count]`; what is beyond is zero."""

    index: Array
    count: Array


class Saved(struct.PyTreeNode):
    """What the forward pass leaves to the backward pass."""

    own: tuple[Array, ...]
    shared: tuple[Array, ...]
    rows: Rows
    of_shared: bool = struct.field(pytree_node=False)


class Task:
    """A map and its number of threads; equal to itself only."""

    def __init__(self, mapped: Map, threads: int) -> None:
        self.mapped, self.threads, self.digest = mapped, threads, mapped.digest()


def each(
    function: Callable[[Primitive, Camera], Any],
    scene: Primitive,
    camera: Camera,
    order: Order | None,
) -> Any:
    """See `xpr.pipeline.order.each`; None where no kernel can be made (`Map.why_not`)."""
    (own, scene_tree), (shared, camera_tree) = jax.tree.flatten(scene), jax.tree.flatten(camera)
    if any(x.dtype != jnp.float32 for x in (*own, *shared)):
        return None
    shapes = tuple(x.shape[1:] for x in own), tuple(x.shape for x in shared)
    traced = _traced(function, scene_tree, camera_tree, shapes, Settings.for_this_machine().loops)
    if traced is None:
        return None
    task, before, outputs = traced
    n = len(own[0])
    rows = Rows(jnp.arange(n, dtype=jnp.int32), jnp.int32(n))
    if order is not None:
        rows = Rows(order.index, jnp.sum(order.valid, dtype=jnp.int32))
    planes: Any = apply(task, tuple(own), tuple(before(shared)), rows)
    return outputs.unflatten(_unpacked(planes, task.mapped))


@functools.lru_cache(maxsize=64)
def _traced(
    function: Callable[..., Any], scene: PyTree, camera: PyTree, shapes: Shapes, threads: int
) -> tuple[Task, Function, PyTree] | None:
    """Traced once: the map, what makes its shared numbers, and the tree of its outputs.

    None where no kernel can be made.
    """
    outputs: list[Any] = []

    def flat(own: list[Array], shared: list[Array]) -> list[Array]:
        result = function(scene.unflatten(own), camera.unflatten(shared))
        leaves, outputs[:] = jax.tree.flatten(result)[0], [jax.tree.structure(result)]
        return leaves

    one, shared = ([jax.ShapeDtypeStruct(x, jnp.float32) for x in group] for group in shapes)
    before, inside = hoist(flat, one, shared)
    mapped = Map.of(inside, one, jax.eval_shape(before, shared))
    return None if mapped.why_not() is not None else (Task(mapped, threads), before, outputs[0])


def _unpacked(planes: Array, mapped: Map) -> list[Array]:
    """[M, V] as the outputs, [V, ...] each."""
    leaves, at = [], 0
    for aval in mapped.forward.out_avals:
        block = planes[at : at + aval.size]
        at += aval.size
        leaf = block[0] if aval.shape == () else block.T.reshape(-1, *aval.shape)
        leaves.append(leaf.astype(aval.dtype) if aval.dtype != bool else leaf > 0.5)
    return leaves


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def apply(task: Task, own: tuple[Array, ...], shared: tuple[Array, ...], rows: Rows) -> Any:
    """The outputs' numbers as planes [M, V] for V rows of `own`."""
    return _forward(task, own, shared, rows)


def _forward(task: Task, own: tuple[Array, ...], shared: tuple[Array, ...], rows: Rows) -> Array:
    mapped, visible = task.mapped, len(rows.index)
    result = jax.ShapeDtypeStruct((mapped.width, _padded(visible)), jnp.float32)
    name = f"xpr_map_{task.digest}_{task.threads}"
    job = functools.partial(_run_forward, task)
    (planes,) = foreign.call(name, job, [result], *own, *shared, rows.index, rows.count)
    return planes[:, :visible]


def _remember(task: Task, own: Any, shared: Any, rows: Any) -> tuple[Array, Saved]:
    of_shared = any(x.perturbed for x in shared)
    own, shared = (tuple(x.value for x in group) for group in (own, shared))
    rows = Rows(rows.index.value, rows.count.value)
    return _forward(task, own, shared, rows), Saved(own, shared, rows, of_shared)


def _backward(task: Task, saved: Saved, cotangents: Any) -> tuple[Any, Any, None]:
    visible = len(saved.rows.index)
    if isinstance(cotangents, jax.custom_derivatives.SymbolicZero):
        cotangents = jnp.zeros(cotangents.shape)
    cotangents = jnp.pad(cotangents, ((0, 0), (0, _padded(visible) - visible)))
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*saved.own, *saved.shared)]
    name = f"xpr_unmap{saved.of_shared:d}_{task.digest}_{task.threads}"
    job = functools.partial(_run_backward, task, saved.of_shared)
    operands = (*saved.own, *saved.shared, saved.rows.index, saved.rows.count, cotangents)
    grads = foreign.call(name, job, results, *operands)
    n = len(saved.own)
    return tuple(grads[:n]), tuple(grads[n:]), None


apply.defvjp(_remember, _backward, symbolic_zeros=True)


def _padded(rows: int) -> int:
    return -(-rows // LANES) * LANES


def _entry(task: Task, kind: str) -> Entry:
    key = (task.digest, kind)
    if key not in _ENTRIES:
        name = f"map_{kind.replace(' ', '_')}"
        _ENTRIES[key] = compiled(name, task.digest, lambda: _program(task, kind, name).text())
    return _ENTRIES[key]


def _program(task: Task, kind: str, name: str) -> Program:
    if kind == "forward":
        return mapping.forward(task.mapped, name)
    return mapping.backward(task.mapped, name, of_shared=kind == "backward to shared")


def _ranges(count: int, threads: int) -> list[tuple[int, int]]:
    """Equal shares of the blocks."""
    edges = np.linspace(0, -(-count // LANES), threads + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


def _run_forward(task: Task, *arrays: np.ndarray) -> None:
    *given, index, number, planes = arrays
    count = int(number)
    if count:
        packs = [
            pack([*span, count, index, *given, planes, planes.shape[1]])
            for span in _ranges(count, task.threads)
        ]
        run(_entry(task, "forward"), packs)
    planes[:, count:] = 0


def _run_backward(task: Task, of_shared: bool, *arrays: np.ndarray) -> None:
    n, k = len(task.mapped.own), len(task.mapped.shared)
    given, (index, number, cotangents) = arrays[: n + k], arrays[n + k : n + k + 3]
    own, shared = arrays[n + k + 3 : 2 * n + k + 3], arrays[2 * n + k + 3 :]
    count = int(number)
    for gradient in shared:
        gradient[...] = 0
    if count < len(index) or any(len(gradient) > count for gradient in own):
        clear(own, task.threads)
    if count == 0:
        return
    sums = np.zeros((task.threads, sum(x.size for x in shared) + 16), np.float32)
    packs = [
        pack([*span, count, index, *given, cotangents, cotangents.shape[1], mine, *own])
        for span, mine in zip(_ranges(count, task.threads), sums, strict=True)
    ]
    run(_entry(task, "backward to shared" if of_shared else "backward"), packs)
    whole = sums.sum(axis=0)
    for gradient in shared:
        gradient[...] = whole[: gradient.size].reshape(gradient.shape)
        whole = whole[gradient.size :]
