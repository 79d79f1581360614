"""A `scan` of a jaxpr, as the versions of JAX describe it."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax.extend import core


class Loop(NamedTuple):
    """Its parts.

    Attributes:
      body: closed jaxpr of constants, carry, rows -> carry, rows.
      constants: how many inputs are the same each time.
      carried: how many go from step to step.
      length: steps.
      reverse: whether the last row comes first.
    """

    body: Any
    constants: int
    carried: int
    length: int
    reverse: bool

    @classmethod
    def of(cls, params: Any) -> Loop:
        """From the equation's parameters."""
        if "num_consts" in params:
            constants, carried = params["num_consts"], params["num_carry"]
        else:  # from JAX 0.12 on
            constants, carried, _ = (len(list(part)) for part in params["ft_in"].unpack())
        return cls(closed(params["jaxpr"]), constants, carried, params["length"], params["reverse"])


def closed(jaxpr: Any) -> Any:
    """A jaxpr with its constants, of which an open one has none."""
    return jaxpr if hasattr(jaxpr, "consts") else core.ClosedJaxpr(jaxpr, ())
