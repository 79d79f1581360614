"""What of a function does not depend on the primitive: computed once, before the kernel runs.

The pose half way through the exposure and a lens's valid range are the same for all primitives. XLA
computes them, those inside of loops as well, and the kernel takes the results.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core

from xpr.types import Array

FIXED, SHARED, OWN = range(3)  # a constant, of the shared numbers alone, of the row
CALLS = ("jit", "pjit", "closed_call")

Arrays = list[Any]
Run = Callable[..., Sequence[Any]]


class Step(NamedTuple):
    """An operation, from slots to slots."""

    run: Run
    reads: list[int]
    writes: list[int]


class Slot(NamedTuple):
    """Where a value is kept: whose it is, and its dtype."""

    level: int
    dtype: Any


def hoist(
    function: Callable[[Arrays, Arrays], Arrays], own: Arrays, shared: Arrays
) -> tuple[Callable[[Arrays], Arrays], Callable[[Arrays, Arrays], Arrays]]:
    """A function in two parts. What nobody reads is in neither.

    Args:
      function: of lists of arrays: of one row, and of those that all rows share.
      own: shapes of the former.
      shared: shapes of the latter.

    Returns:
      the part of the shared arrays alone, whose results are float32; and a function of one row's
      arrays and of these results, which is the whole one. Both are differentiable.
    """
    walk = _Walk()
    rows, numbers = (
        [walk.slot(level, x.dtype) for x in group]
        for level, group in ((OWN, own), (SHARED, shared))
    )
    steps, outputs = walk.through(jax.make_jaxpr(function)(own, shared), [*rows, *numbers])
    steps = _read(steps, outputs)
    wanted = dict.fromkeys([*outputs, *(slot for step in steps for slot in step.reads)])
    taken = [slot for slot in wanted if walk.slots[slot].level == SHARED]
    early = _read(walk.early, taken)

    def before(shared: Arrays) -> Arrays:
        found = _run(early, dict(zip(numbers, shared, strict=True)), taken)
        return [_packed(jnp.asarray(x)) for x in found]

    def inside(own: Arrays, found: Arrays) -> Arrays:
        kinds = [walk.slots[slot].dtype for slot in taken]
        given = [_unpacked(x, kind) for x, kind in zip(found, kinds, strict=True)]
        return _run(steps, dict(zip([*rows, *taken], [*own, *given], strict=True)), outputs)

    return before, inside


class _Walk:
    """Along a jaxpr: what no row has a part in comes early.

    Attributes:
      slots: all of them.
      early: the steps of what is shared and of constants.
    """

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.early: list[Step] = []

    def slot(self, level: int, dtype: Any) -> int:
        """A new one."""
        self.slots.append(Slot(level, dtype))
        return len(self.slots) - 1

    def through(self, closed: Any, given: list[int]) -> tuple[list[Step], list[int]]:
        """The steps of a closed jaxpr that are not early, or constants, and its outputs."""
        jaxpr, steps = closed.jaxpr, []
        place = dict(zip(jaxpr.invars, given, strict=True))

        def fixed(value: Any) -> int:
            slot = self.slot(FIXED, jnp.result_type(value))
            steps.extend(self._placed(Step(lambda: [value], [], [slot]), FIXED))
            return slot

        def read(atom: Any) -> int:
            return fixed(atom.val) if isinstance(atom, core.Literal) else place[atom]

        place |= {v: fixed(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}
        for equation in jaxpr.eqns:
            reads = [read(atom) for atom in equation.invars]
            more, results = self._equation(equation, reads, _alone(jaxpr, equation))
            steps += more
            place |= dict(zip(equation.outvars, results, strict=True))
        return steps, [read(atom) for atom in jaxpr.outvars]

    def _placed(self, step: Step, level: int) -> list[Step]:
        """What of a step is not early. A constant is both: it costs nothing."""
        if level != OWN:
            self.early.append(step)
        return [step] if level != SHARED else []

    def _equation(self, equation: Any, reads: list[int], run: Run) -> tuple[list[Step], list[int]]:
        level = max((self.slots[slot].level for slot in reads), default=FIXED)
        params, name = equation.params, equation.primitive.name
        if level == OWN and name in CALLS:
            return self.through(params["jaxpr"], reads)
        if level == OWN and name == "scan" and "num_consts" in params:
            run, reads = self._loop(params, reads)
        writes = [self.slot(level, v.aval.dtype) for v in equation.outvars]
        return self._placed(Step(run, reads, writes), level), writes

    def _loop(self, params: Any, reads: list[int]) -> tuple[Run, list[int]]:
        """A loop without what is the same each time, and what it reads."""
        constants, carried = params["num_consts"], params["num_carry"]
        moving = [self.slot(OWN, self.slots[slot].dtype) for slot in reads[constants:]]
        steps, outputs = self.through(params["jaxpr"], [*reads[:constants], *moving])
        steps = _read(steps, outputs)
        made = {*moving, *(slot for step in steps for slot in step.writes)}
        read = dict.fromkeys([*outputs, *(slot for step in steps for slot in step.reads)])
        around = [slot for slot in read if slot not in made]
        options = {key: params[key] for key in ("length", "reverse", "unroll")}

        def run(*values: Any) -> Arrays:
            start, fixed = list(values[: len(moving)]), values[len(moving) :]
            outside = dict(zip(around, fixed, strict=True))

            def body(carry: Any, rows: Any) -> tuple[Arrays, Arrays]:
                known = outside | dict(zip(moving, [*carry, *rows], strict=True))
                found = _run(steps, known, outputs)
                return found[:carried], found[carried:]

            last, stacked = jax.lax.scan(body, start[:carried], start[carried:], **options)
            return [*last, *stacked]

        return run, [*reads[constants:], *around]


def _alone(jaxpr: Any, equation: Any) -> Run:
    """One equation of a jaxpr as a function of all that it reads."""
    variables = [not isinstance(atom, core.Literal) for atom in equation.invars]
    read = list(itertools.compress(equation.invars, variables))
    parts = {"constvars": [], "invars": read, "outvars": equation.outvars, "eqns": [equation]}
    function = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr.replace(**parts), ()))
    return lambda *values: function(*itertools.compress(values, variables))


def _run(steps: list[Step], known: dict[int, Any], outputs: list[int]) -> Arrays:
    for step in steps:
        values = step.run(*(known[slot] for slot in step.reads))
        known |= dict(zip(step.writes, values, strict=True))
    return [known[slot] for slot in outputs]


def _read(steps: list[Step], outputs: list[int]) -> list[Step]:
    """The steps whose results somebody reads."""
    wanted, kept = set(outputs), []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.writes):
            kept.append(step)
            wanted |= set(step.reads)
    return kept[::-1]


def _packed(value: Array) -> Array:
    """As float32: truth values as 0 and 1, integers bit by bit."""
    if jnp.issubdtype(value.dtype, jnp.integer):
        return jax.lax.bitcast_convert_type(value.astype(jnp.int32), jnp.float32)
    return value.astype(jnp.float32)


def _unpacked(value: Array, kind: Any) -> Array:
    if jnp.issubdtype(kind, jnp.integer):
        value = jax.lax.bitcast_convert_type(value, jnp.int32)
    return value.astype(kind)
