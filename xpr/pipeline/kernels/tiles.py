"""The walk of a tile over its splats, nearest first: what both directions of compositing share.

A tile is cut into strips as wide as a register, a strip into its rows: one row of a strip, a group, is
what one instruction works on. Groups outside a splat's box are passed over, and so are those whose
pixels are all done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from llvmlite import ir

from xpr.pipeline.anatomy import Anatomy
from xpr.pipeline.bin import BOX_MARGIN
from xpr.pipeline.kernels.emit import emit_scalars, unknown_primitive
from xpr.pipeline.kernels.program import (
    Program,
    bits,
    load,
    load_lanes,
    long,
    take_one,
    widest,
)
from xpr.pipeline.kernels.values import (
    FLOAT,
    INT,
    LONG,
    Builder,
    Value,
    as_lanes,
    constant,
    convert,
    splat,
    vector,
)
from xpr.types import Array, Blend, Ray, Vec2, Vec3

LARGEST_TILE = 16  # px: the groups of a tile are the bits of one integer
BOX = 4  # floats at the end of a record: low x, low y, high x, high y


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a kernel is made for. Static.

    Attributes:
      anatomy: of the record.
      blend: the method's rule.
      tile_size: px.
      constants: channels that are constant over a splat.
      central: whether all rays have one origin.
    """

    anatomy: Anatomy
    blend: Blend
    tile_size: int
    constants: int
    central: bool = False

    @property
    def leaves(self) -> int:
        """Leaves of a record that alpha or a varying channel depends on."""
        return sum(self.anatomy.read)

    @property
    def record(self) -> int:
        """Floats of a record: leaves, constant channels, box."""
        return self.leaves + self.constants + BOX

    @property
    def varying(self) -> int:
        """Channels that vary over a splat."""
        return len(self.anatomy.varying)

    @property
    def groups(self) -> int:
        """Groups of a tile."""
        return self.tile_size * self.tile_size // self.lanes

    @property
    def lanes(self) -> int:
        """Pixels of a group."""
        return min(self.tile_size, widest())


class Response(NamedTuple):
    """A method's response to a ray and the way back, as jaxprs over scalars.

    Attributes:
      forward: leaves, pixel x and y, origin, direction -> alpha, varying channels, residuals.
      outputs: how many of those are alpha and channels.
      backward: residuals, cotangents of alpha and channels -> those of leaves, origin, direction.
    """

    forward: Any
    outputs: int
    backward: Any

    @classmethod
    def of(cls, anatomy: Anatomy) -> Response:
        """Trace it."""
        scalar: Any = jax.ShapeDtypeStruct((), jnp.float32)
        inputs = [scalar] * (sum(anatomy.read) + 8)
        pulls: list[Any] = []

        def forward(*values: Array) -> list[Array]:
            *leaves, x, y = values[:-6]

            def respond(leaves: list[Array], world: tuple[Vec3, Vec3]) -> list[Array]:
                ray = Ray(Vec2(x, y), *world)
                alpha, channels = anatomy.respond(anatomy.unpack(leaves), ray)
                return [alpha, *channels]

            world = (Vec3(*values[-6:-3]), Vec3(*values[-3:]))
            outputs, pull = jax.vjp(respond, leaves, world)
            residuals, treedef = jax.tree.flatten(pull)
            pulls[:] = [treedef, [jax.ShapeDtypeStruct(r.shape, r.dtype) for r in residuals]]
            return [*outputs, *residuals]

        traced = jax.make_jaxpr(forward)(*inputs)
        treedef, residuals = pulls

        def backward(residuals: list[Array], cotangents: list[Array]) -> list[Array]:
            return jax.tree.leaves(jax.tree.unflatten(treedef, residuals)(cotangents))

        outputs = 1 + len(anatomy.varying)
        back = jax.make_jaxpr(backward)(residuals, [scalar] * outputs)
        return cls(traced, outputs, back)

    def unknown_primitive(self) -> str | None:
        """A primitive that the kernels have no instructions for, if there is one."""
        return unknown_primitive(self.forward) or unknown_primitive(self.backward)


class Group(NamedTuple):
    """Where the walk is.

    Attributes:
      index: of the group in its tile, strip after strip.
      x: px of its pixel centres, lanes.
      y: px of its row, a scalar.
      pixel: place of its first pixel in a plane.
    """

    index: Value
    x: Value
    y: Value
    pixel: Value


class Walk:
    """The loops over tiles, splats and groups, for a body that the caller writes."""

    def __init__(self, program: Program, shape: Shape, view: SimpleNamespace) -> None:
        self.program, self.b, self.shape, self.view = program, program.b, shape, view
        self.alive = program.variable(LONG, long(0))
        self._corner = [program.variable(LONG, long(0)) for _ in range(2)]

    @contextmanager
    def tiles(self) -> Iterator[Value]:
        """The tiles that `order` lists, taken in turn by whoever is free."""
        b, view = self.b, self.view
        turn = self.program.variable(LONG, long(0))

        def more() -> Value:
            i = take_one(b, view.counter)
            b.store(i, turn)
            return b.icmp_signed("<", i, view.count)

        with self.program.repeat(more):
            tile = b.sext(load(b, view.order, b.load(turn)), LONG)
            size = long(self.shape.tile_size)
            b.store(b.mul(b.srem(tile, view.columns), size), self._corner[0])
            b.store(b.mul(b.sdiv(tile, view.columns), size), self._corner[1])
            b.store(long(0), self.alive)
            yield tile

    @contextmanager
    def splats(self, tile: Value, last: Value) -> Iterator[tuple[Value, Value]]:
        """The tile's splats until all of its pixels are done: each one's number and its record.

        Args:
          tile: its number.
          last: variable, which counts the splats that were visited.
        """
        b, view = self.b, self.view
        end = b.sext(load(b, view.ends, tile), LONG)
        b.store(b.sext(load(b, view.starts, tile), LONG), last)

        def more() -> Value:
            lit = b.icmp_signed("!=", b.load(self.alive), long(0))
            return b.and_(lit, b.icmp_signed("<", b.load(last), end))

        with self.program.repeat(more):
            pair = b.load(last)
            number = b.sext(load(b, view.ids, pair), LONG)
            yield number, b.gep(view.records, [b.mul(number, long(self.shape.record))])
            b.store(b.add(pair, long(1)), last)

    def group(self, strip: Value, row: Value) -> Group:
        """The group of a strip and a row."""
        b, lanes = self.b, self.shape.lanes
        corner = [b.load(place) for place in self._corner]
        left = b.add(corner[0], b.mul(strip, long(self.shape.lanes)))
        down = b.add(corner[1], row)
        index = b.add(b.mul(strip, long(self.shape.tile_size)), row)
        x = b.fadd(splat(b, convert(b, left, "f"), lanes), vector([i + 0.5 for i in range(lanes)]))
        y = b.fadd(convert(b, down, "f"), ir.Constant(FLOAT, 0.5))
        return Group(index, x, y, b.add(b.mul(down, self.view.stride), left))

    @contextmanager
    def groups(self) -> Iterator[Group]:
        """All groups of the tile."""
        strips = long(self.shape.tile_size // self.shape.lanes)
        with (
            self.program.loop(long(0), strips) as strip,
            self.program.loop(long(0), long(self.shape.tile_size)) as row,
        ):
            yield self.group(strip, row)

    @contextmanager
    def groups_in_box(self, record: Value) -> Iterator[Group]:
        """The living groups of the tile that the box of a splat (address of its record) meets."""
        b, size, end = self.b, self.shape.tile_size, self.shape.record
        low_x, low_y, high_x, high_y = (load(b, record, long(end - i)) for i in range(BOX, 0, -1))
        x, y = (b.load(place) for place in self._corner)
        rows = self._range(low_y, high_y, y, 1, size)
        strips = self._range(low_x, high_x, x, self.shape.lanes, size // self.shape.lanes)
        with (
            self.program.loop(*strips) as strip,
            self.program.loop(*rows) as row,
        ):
            group = self.group(strip, row)
            bit = b.and_(b.lshr(b.load(self.alive), group.index), long(1))
            with b.if_then(b.icmp_signed("!=", bit, long(0))):
                yield group

    def _range(
        self, low: Value, high: Value, corner: Value, step: int, count: int
    ) -> tuple[Value, Value]:
        """Which of `count` parts of `step` px have a pixel centre within [low, high]."""
        b, start = self.b, convert(self.b, corner, "f")
        # The first pixel centre of a part is at 0.5, its last at step - 0.5.
        first = b.fsub(b.fsub(low, start), ir.Constant(FLOAT, step - 0.5 + BOX_MARGIN))
        last = b.fsub(b.fsub(high, start), ir.Constant(FLOAT, 0.5 - BOX_MARGIN))
        inverse = ir.Constant(FLOAT, 1 / step)
        begin = _whole(b, "ceil", b.fmul(first, inverse), count)
        end = _whole(b, "floor", b.fadd(b.fmul(last, inverse), ir.Constant(FLOAT, 1)), count)
        return begin, end

    def rest(self, group: Group, transmittance: Value) -> None:
        """Keep a group from now on only if one of its pixels is not done."""
        b = self.b
        lit = bits(b, b.fcmp_ordered(">", transmittance, constant(transmittance, 0)))
        with b.if_then(b.icmp_signed("==", lit, long(0))):
            gone = b.not_(b.shl(long(1), group.index))
            b.store(b.and_(b.load(self.alive), gone), self.alive)

    def begin(self, group: Group) -> Value:
        """The transmittance before the first splat: 1, or 0 at pixels outside the image."""
        b = self.b
        right = splat(b, convert(b, self.view.width, "f"), self.shape.lanes)
        inside = b.fcmp_ordered("<", group.x, right)
        above = b.fcmp_ordered("<", group.y, convert(b, self.view.height, "f"))
        one, zero = constant(group.x, 1), constant(group.x, 0)
        start = b.select(b.and_(inside, splat(b, above, self.shape.lanes)), one, zero)
        lit = bits(b, b.fcmp_ordered(">", start, zero))
        bit = b.shl(b.zext(b.icmp_signed("!=", lit, long(0)), LONG), group.index)
        b.store(b.or_(b.load(self.alive), bit), self.alive)
        return start

    def world(self, group: Group) -> list[Value]:
        """Origin and direction, from six planes; zeros where the method reads none.

        An origin that all rays share is a scalar, so that what follows from it alone is found
        once a splat.
        """
        if not self.shape.anatomy.reads_rays:
            return [ir.Constant(FLOAT, 0.0)] * 6
        planes = [self.plane(self.view.rays, i, group) for i in range(6)]
        if self.shape.central:
            places = (self.b.mul(long(i), self.view.plane) for i in range(3))
            planes[:3] = [load(self.b, self.view.rays, place) for place in places]
        return planes

    def place(self, channel: int, group: Group) -> Value:
        """Where a group begins in a plane of an image."""
        return self.b.add(self.b.mul(long(channel), self.view.plane), group.pixel)

    def plane(self, planes: Value, channel: int, group: Group) -> Value:
        """A group of an image's plane."""
        return load_lanes(self.b, planes, self.place(channel, group), self.shape.lanes)

    def slot(self, channel: int, group: Group) -> Value:
        """Where a group begins in a plane of the tile's own memory."""
        before = self.b.mul(group.index, long(self.shape.lanes))
        return self.b.add(long(channel * self.shape.tile_size**2), before)

    def kept(self, channel: int, group: Group) -> Value:
        """A group of a plane of the tile's own memory."""
        slot = self.slot(channel, group)
        return load_lanes(self.b, self.view.scratch, slot, self.shape.lanes)

    def respond(
        self, response: Response, leaves: Sequence[Value], group: Group
    ) -> tuple[Value, list[Value], list[Value]]:
        """Alpha and channels, lanes each, and the residuals of the way back."""
        values = emit_scalars(
            self.b, response.forward, [*leaves, group.x, group.y, *self.world(group)]
        )
        lanes = [as_lanes(self.b, v, self.shape.lanes) for v in values[: response.outputs]]
        return lanes[0], lanes[1:], values[response.outputs :]


def opaque(b: Builder, blend: Blend, raw: Value, before: Value) -> tuple[Value, ...]:
    """Alpha as it is blended (`xpr.pipeline.blend.opaque`), and where it counts."""
    largest = constant(raw, blend.alpha_max)
    alpha = b.select(b.fcmp_ordered("<", raw, largest), raw, largest)
    seen = b.fcmp_ordered(">=", alpha, constant(raw, blend.alpha_min))
    seen = b.and_(seen, b.fcmp_ordered(">", before, constant(raw, 0)))
    return b.select(seen, alpha, constant(raw, 0)), seen


def over(b: Builder, blend: Blend, before: Value, alpha: Value) -> tuple[Value, Value]:
    """Weight and the transmittance behind a layer (`xpr.pipeline.blend.over`)."""
    zero = constant(alpha, 0)
    weight = b.fmul(alpha, before)
    behind = b.fmul(before, b.fsub(constant(alpha, 1), alpha))
    goes_on = b.fcmp_ordered(">", behind, constant(alpha, blend.transmittance_min))
    lit = b.fcmp_ordered(">", before, zero)
    if blend.keeps_last:
        last = b.select(lit, b.fneg(behind), before)
        return b.select(lit, weight, zero), b.select(goes_on, behind, last)
    done = b.select(lit, b.fneg(before), before)
    return b.select(goes_on, weight, zero), b.select(goes_on, behind, done)


def _whole(b: Builder, rounding: str, x: Value, count: int) -> Value:
    """A float rounded to an integer within [0, count]; what is not a number is 0."""
    low, high = ir.Constant(FLOAT, 0.0), ir.Constant(FLOAT, float(count))
    x = b.select(b.fcmp_ordered(">", x, low), x, low)
    x = b.select(b.fcmp_ordered("<", x, high), x, high)
    whole = b.fptosi(x, INT)
    if rounding == "ceil":
        short = b.fcmp_ordered("<", b.sitofp(whole, FLOAT), x)
        whole = b.add(whole, b.zext(short, INT))
    return b.sext(whole, LONG)
