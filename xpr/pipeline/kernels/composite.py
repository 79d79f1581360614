"""The kernel that blends a tile's splats, and the one that replays it for the gradients."""

from __future__ import annotations

from llvmlite import ir

from xpr.pipeline.kernels.emit import emit_scalars
from xpr.pipeline.kernels.program import (
    Program,
    bits,
    load,
    long,
    store,
    store_lanes,
    total,
)
from xpr.pipeline.kernels.tiles import Group, Response, Shape, Walk, opaque, over
from xpr.pipeline.kernels.values import (
    FAST,
    FLOAT,
    INT,
    LONG,
    Value,
    as_lanes,
    constant,
    splat,
    vector,
)

# What a call packs: addresses of arrays of the kind, or (None) whole numbers.
VIEW: dict[str, ir.Type | None] = {
    "counter": LONG,
    "order": INT,
    "count": None,
    "starts": INT,
    "ends": INT,
    "ids": INT,
    "records": FLOAT,
    "rays": FLOAT,
    "scratch": FLOAT,
    "columns": None,
    "width": None,
    "height": None,
    "stride": None,
    "plane": None,
}
FORWARD = VIEW | {"blended": FLOAT, "visited": INT}
BACKWARD = VIEW | {"cotangents": FLOAT, "behind": FLOAT, "gradients": FLOAT, "ray_gradients": FLOAT}


def forward(shape: Shape, response: Response) -> Program:
    """Blend: planes of the constant channels, the varying ones and the transmittance.

    `visited` becomes, for each tile, the place in its list where its last pixel was done.
    """
    program = Program("forward")
    b, view = program.b, program.arguments(FORWARD)
    walk = Walk(program, shape, view)
    channels = shape.constants + shape.varying
    last = program.variable(LONG, long(0))
    with walk.tiles() as tile:
        with walk.groups() as group:
            store_lanes(b, walk.begin(group), view.scratch, walk.slot(channels, group))
            for i in range(channels):
                store_lanes(b, constant(group.x, 0), view.scratch, walk.slot(i, group))
        with walk.splats(tile, last) as (_, record):
            leaves = [load(b, record, long(i)) for i in range(shape.leaves)]
            colors = [load(b, record, long(shape.leaves + i)) for i in range(shape.constants)]
            with walk.groups_in_box(record) as group:
                before = walk.kept(channels, group)
                raw, moving, _ = walk.respond(response, leaves, group)
                alpha, seen = opaque(b, shape.blend, raw, before)
                with b.if_then(b.icmp_signed("!=", bits(b, seen), long(0))):
                    weight, behind = over(b, shape.blend, before, alpha)
                    for i, value in enumerate(
                        [*(splat(b, c, shape.lanes) for c in colors), *moving]
                    ):
                        so_far = walk.kept(i, group)
                        value = b.fadd(so_far, b.fmul(weight, value, flags=FAST), flags=FAST)
                        store_lanes(b, value, view.scratch, walk.slot(i, group))
                    store_lanes(b, behind, view.scratch, walk.slot(channels, group))
                    walk.rest(group, behind)
        store(b, b.trunc(b.load(last), INT), view.visited, tile)
        with walk.groups() as group:
            for i in range(channels + 1):
                value = walk.kept(i, group)
                if i == channels:
                    value = b.select(
                        b.fcmp_ordered("<", value, constant(value, 0)), b.fneg(value), value
                    )
                store_lanes(b, value, view.blended, walk.place(i, group))
    return program


def backward(shape: Shape, response: Response, *, of_rays: bool) -> Program:
    """Replay front to back (the formulas are those of the xla backend), adding to `gradients`.

    Args:
      shape: its constants are the channels that the loss looks at.
      response: the method's.
      of_rays: whether origin and direction get gradients, in six planes of `ray_gradients`.
    """
    program = Program("backward")
    b, view = program.b, program.arguments(BACKWARD)
    walk = Walk(program, shape, view)
    replay = _Replay(walk, response, of_rays)
    last = program.variable(LONG, long(0))
    with walk.tiles() as tile:
        with walk.groups() as group:
            replay.start(group)
        with walk.splats(tile, last) as (number, record):
            replay.splat(number, record)
        if of_rays:
            with walk.groups() as group:
                for i in range(6):
                    value = walk.kept(replay.rays + i, group)
                    store_lanes(b, value, view.ray_gradients, walk.place(i, group))
    return program


class _Replay:
    """What the backward kernel does at a tile's start and at each of its splats.

    The tile's own memory holds planes: the channels' cotangents, the transmittance, what lies
    behind (times its cotangents), and the gradients of the rays.
    """

    def __init__(self, walk: Walk, response: Response, of_rays: bool) -> None:
        self.walk, self.response, self.of_rays = walk, response, of_rays
        self.b, self.shape, self.view = walk.b, walk.shape, walk.view
        self.channels = self.shape.constants + self.shape.varying
        self.rays = self.channels + 2
        self.zero = vector([0.0] * self.shape.lanes)
        parameters = self.shape.leaves + self.shape.constants
        self.sums = [walk.program.variable(self.zero.type, self.zero) for _ in range(parameters)]
        self.touched = walk.program.variable(LONG, long(0))

    def start(self, group: Group) -> None:
        """Fill the tile's memory."""
        walk, view = self.walk, self.view
        self._put(self.channels, group, walk.begin(group))
        self._put(self.channels + 1, group, walk.plane(view.behind, 0, group))
        for i in range(self.channels):
            self._put(i, group, walk.plane(view.cotangents, i, group))
        for i in range(6 * self.of_rays):
            self._put(self.rays + i, group, constant(group.x, 0))

    def splat(self, number: Value, record: Value) -> None:
        """Sum the gradients of one splat over the tile's pixels."""
        b, shape = self.b, self.shape
        leaves = [load(b, record, long(i)) for i in range(shape.leaves)]
        colors = [load(b, record, long(shape.leaves + i)) for i in range(shape.constants)]
        for place in self.sums:
            b.store(self.zero, place)
        b.store(long(0), self.touched)
        with self.walk.groups_in_box(record) as group:
            before = self._get(self.channels, group)
            raw, moving, residuals = self.walk.respond(self.response, leaves, group)
            alpha, seen = opaque(b, shape.blend, raw, before)
            with b.if_then(b.icmp_signed("!=", bits(b, seen), long(0))):
                b.store(long(1), self.touched)
                values = [*(splat(b, c, shape.lanes) for c in colors), *moving]
                self._pixels(group, before, (raw, alpha), values, residuals)
        with b.if_then(b.icmp_signed("!=", b.load(self.touched), long(0))):
            row = b.mul(number, long(len(self.sums)))
            for i, place in enumerate(self.sums):
                at = b.add(row, long(i))
                value = b.fadd(load(b, self.view.gradients, at), total(b, b.load(place)))
                store(b, value, self.view.gradients, at)

    def _pixels(
        self,
        group: Group,
        before: Value,
        alphas: tuple[Value, Value],
        values: list[Value],
        residuals: list[Value],
    ) -> None:
        """One splat at one group: alpha before and after its clamp, and its channels."""
        b, blend = self.b, self.shape.blend
        raw, alpha = alphas
        weight, after = over(b, blend, before, alpha)
        cotangents = [self._get(i, group) for i in range(self.channels)]
        seen = constant(raw, 0)
        for value, cotangent in zip(values, cotangents, strict=True):
            seen = b.fadd(seen, b.fmul(value, cotangent, flags=FAST), flags=FAST)
        behind = b.fsub(
            self._get(self.channels + 1, group), b.fmul(weight, seen, flags=FAST), flags=FAST
        )
        rest = b.fdiv(behind, b.fsub(constant(alpha, 1), alpha), flags=FAST)
        slope = b.fsub(b.fmul(before, seen, flags=FAST), rest, flags=FAST)
        counts = b.and_(
            b.fcmp_ordered(">", weight, constant(weight, 0)),
            b.fcmp_ordered("<", raw, constant(raw, blend.alpha_max)),
        )
        slope = b.select(counts, slope, constant(slope, 0))
        weighted = [b.fmul(weight, c, flags=FAST) for c in cotangents]
        n = self.shape.constants
        grads = emit_scalars(b, self.response.backward, [*residuals, slope, *weighted[n:]])
        leaves = [as_lanes(b, g, self.shape.lanes) for g in grads[: self.shape.leaves]]
        for place, value in zip(self.sums, [*leaves, *weighted[:n]], strict=True):
            b.store(b.fadd(b.load(place), value, flags=FAST), place)
        for i, value in enumerate(grads[self.shape.leaves :] if self.of_rays else ()):
            self._put(
                self.rays + i,
                group,
                b.fadd(
                    self._get(self.rays + i, group),
                    as_lanes(b, value, self.shape.lanes),
                    flags=FAST,
                ),
            )
        self._put(self.channels, group, after)
        self._put(self.channels + 1, group, behind)
        self.walk.rest(group, after)

    def _get(self, plane: int, group: Group) -> Value:
        return self.walk.kept(plane, group)

    def _put(self, plane: int, group: Group, value: Value) -> None:
        store_lanes(self.b, value, self.view.scratch, self.walk.slot(plane, group))
