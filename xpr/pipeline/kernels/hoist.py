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

Function = Callable[[list[Any], list[Any]], list[Any]]


class Step(NamedTuple):
    """An operation that stays in the kernel, from slots to slots."""

    run: Callable[..., Sequence[Any]]
    reads: list[int]
    writes: list[int]


def hoist(function: Function, own: list[Any], shared: list[Array]) -> tuple[Function, list[Array]]:
    """The part of a function that depends on the row, and what it takes of the other part.

    Args:
      function: of lists of arrays: of one row, and of all rows.
      own: shapes of one row.
      shared: the arrays of all rows.

    Returns:
      a function of one row's arrays and of the second result, float32 arrays that are made of
      `shared`. Gradients pass through both; what nobody reads is in neither.
    """
    closed = jax.make_jaxpr(function)(own, shared)
    walk = _Walk()
    rows = [walk.slot(OWN) for _ in own]
    steps, outputs = walk.through(closed, [*rows, *(walk.slot(SHARED, x) for x in shared)])
    steps = _read(steps, outputs)
    wanted = dict.fromkeys([*outputs, *(slot for step in steps for slot in step.reads)])
    taken = [slot for slot in wanted if walk.level[slot] == SHARED]
    kinds = [jnp.result_type(walk.known[slot]) for slot in taken]

    def inside(own: list[Any], numbers: list[Any]) -> list[Any]:
        given = [_unpacked(x, kind) for x, kind in zip(numbers, kinds, strict=True)]
        return _run(steps, dict(zip([*rows, *taken], [*own, *given], strict=True)), outputs)

    return inside, [_packed(walk.known[slot]) for slot in taken]


class _Walk:
    """Along a jaxpr: what no row has a part in is computed on the way, the rest becomes steps.

    Attributes:
      level: of every slot.
      known: the values of those that are not of the row.
    """

    def __init__(self) -> None:
        self.level: dict[int, int] = {}
        self.known: dict[int, Any] = {}
        self._count = itertools.count()

    def slot(self, level: int, value: Any = None) -> int:
        """A new one."""
        slot = next(self._count)
        self.level[slot] = level
        if level != OWN:
            self.known[slot] = value
        return slot

    def through(self, closed: Any, given: list[int]) -> tuple[list[Step], list[int]]:
        """The steps that are left of a closed jaxpr, and the slots of its outputs."""
        jaxpr, steps = closed.jaxpr, []
        place = dict(zip(jaxpr.invars, given, strict=True))

        def fixed(value: Any) -> int:
            slot = self.slot(FIXED, value)
            steps.append(Step(lambda: [value], [], [slot]))
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

    def _equation(
        self, equation: Any, reads: list[int], run: Callable[..., list[Any]]
    ) -> tuple[list[Step], list[int]]:
        level = max((self.level[slot] for slot in reads), default=FIXED)
        params, name = equation.params, equation.primitive.name
        if level == OWN and name in CALLS:
            return self.through(params["jaxpr"], reads)
        values: list[Any] = [None] * len(equation.outvars)
        if level == OWN and name == "scan" and "num_consts" in params:
            run, reads = self._loop(params, reads)
        elif level != OWN:
            values = run(*(self.known[slot] for slot in reads))
        writes = [self.slot(level, value) for value in values]
        return [] if level == SHARED else [Step(run, reads, writes)], writes

    def _loop(self, params: Any, reads: list[int]) -> tuple[Callable[..., Any], list[int]]:
        """A loop without what is the same each time, and what it reads."""
        constants, carried = params["num_consts"], params["num_carry"]
        moving = [self.slot(OWN) for _ in reads[constants:]]
        steps, outputs = self.through(params["jaxpr"], [*reads[:constants], *moving])
        steps = _read(steps, outputs)
        made = {*moving, *(slot for step in steps for slot in step.writes)}
        read = dict.fromkeys([*outputs, *(slot for step in steps for slot in step.reads)])
        around = [slot for slot in read if slot not in made]
        options = {key: params[key] for key in ("length", "reverse", "unroll")}

        def run(*values: Any) -> list[Any]:
            start, fixed = values[: len(moving)], values[len(moving) :]
            outside = dict(zip(around, fixed, strict=True))

            def body(carry: Any, rows: Any) -> tuple[list[Any], list[Any]]:
                known = outside | dict(zip(moving, [*carry, *rows], strict=True))
                found = _run(steps, known, outputs)
                return found[:carried], found[carried:]

            last, stacked = jax.lax.scan(
                body, list(start[:carried]), list(start[carried:]), **options
            )
            return [*last, *stacked]

        return run, [*reads[constants:], *around]


def _alone(jaxpr: Any, equation: Any) -> Callable[..., list[Any]]:
    """One equation of a jaxpr as a function of all that it reads."""
    variables = [not isinstance(atom, core.Literal) for atom in equation.invars]
    read = list(itertools.compress(equation.invars, variables))
    parts = {"constvars": [], "invars": read, "outvars": equation.outvars, "eqns": [equation]}
    function = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr.replace(**parts), ()))
    return lambda *values: function(*itertools.compress(values, variables))


def _run(steps: list[Step], known: dict[int, Any], outputs: list[int]) -> list[Any]:
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
