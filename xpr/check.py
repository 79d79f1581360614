"""The contract of a primitive, tried out: what `xpr check` reports to its author."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xpr import io
from xpr.blame import blame
from xpr.camera import Camera
from xpr.pipeline.anatomy import anatomy
from xpr.pipeline.capacity import Capacity
from xpr.pipeline.order import project
from xpr.pipeline.render import render
from xpr.pipeline.settings import Settings
from xpr.types import Array, Primitive

COUNT = 12  # primitives of the scene that is tried
SIZE = (24, 18)  # px
CAPACITY = Capacity(visible=16, intersections=256)
SETTINGS = Settings(tile_size=8, batch=4, chunk=4, loops=1)
BACKEND = "xla"  # it runs, and is lowered, for every platform
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
STEP, SLACK = 1e-6, 1e-4  # of finite differences in float64: the step, and the relative error
FAINT = 1 + 1e-9  # times the least alpha: what a box may cut off
DIRECTIONS = 3  # a pixel that crosses a threshold spoils one, a wrong gradient all
LEAST = 1e-7  # a slope below it is not compared
ROUNDED = 1e-6  # what a file's own units may cost in float32
STEPS = 50  # of the descent
SHAKEN = 0.1  # of every number that is learned, before the descent


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one part of the contract came to.

    Attributes:
      claim: what a primitive promises, in words.
      problem: what was found instead and what to do; None if it holds.
    """

    claim: str
    problem: str | None


class Bench(NamedTuple):
    """A scene of overlapping primitives and a camera, float64."""

    scene: Primitive
    camera: Camera


def check(method: type[Primitive]) -> Iterator[Finding]:
    """Try every part of the contract, cheapest first; stop where the rest makes no sense.

    A part that raises is reported with the function and the line that did.
    """
    for claim, part in FIRST.items():
        problem = _exactly(method, lambda part=part: part(method))
        yield Finding(claim, problem)
        if problem is not None:
            return
    for claim, part in PARTS.items():
        yield Finding(claim, _exactly(method, lambda part=part: part(bench(method))))


def _exactly(method: type[Primitive], part: Callable[[], str | None]) -> str | None:
    """Try one part in float64, which must not last while a generator waits."""
    with jax.enable_x64(True):
        return attempt(method, part)


def bench(method: type[Primitive], *, seed: int = 0) -> Bench:
    """The scene that is tried: `from_points` of a random cloud, every number then shaken a little."""
    r = np.random.default_rng(seed)
    scene = method.from_points(
        jnp.asarray(r.uniform(-1, 1, (COUNT, 3))),
        jnp.asarray(r.uniform(0.1, 0.9, (COUNT, 3))),
        jnp.asarray(r.uniform(0.2, 0.4, COUNT)),
        key=jax.random.key(seed),
        sh_degree=1,
    )
    scene = jax.tree.map(lambda x: x + 0.1 * jnp.abs(x) * r.normal(size=x.shape), scene)
    viewmat = np.eye(4)
    viewmat[:3, 3] = 0.1, -0.2, 4.0
    K = np.array([[22, 0, 11.3], [0, 23, 9.4], [0, 0, 1.0]])
    width, height = SIZE
    camera = Camera(jnp.asarray(viewmat), jnp.asarray(K), width=width, height=height)
    return Bench(jax.tree.map(lambda x: x.astype(float), scene), camera)


def attempt(method: type[Primitive], part: Callable[[], str | None]) -> str | None:
    """Try one part; what it raises is a problem as well, told by function and line."""
    try:
        return part()
    except Exception as error:  # the author's code may raise anything
        return blame(error, method)


def _starts(method: type[Primitive]) -> str | None:
    scene = bench(method).scene
    lengths = {name: np.shape(getattr(scene, name))[:1] for name in _fields(scene)}
    wrong = [name for name, length in lengths.items() if length != (COUNT,)]
    if not wrong:
        return None
    shape = np.shape(getattr(scene, wrong[0]))
    return (
        f"from_points() of {COUNT} points gives {wrong[0]!r} the shape {shape}, expected a leading "
        f"axis of {COUNT}: one entry a point."
    )


def _scalars(method: type[Primitive]) -> str | None:
    anatomy(project(*bench(method)).splat)
    return None


def _image(scene: Primitive, camera: Camera) -> Array:
    output = render(scene, camera, capacity=CAPACITY, backend=BACKEND, settings=SETTINGS)
    return output.color


def _loss(scene: Primitive, camera: Camera, target: Array) -> Array:
    return jnp.mean((_image(scene, camera) - target) ** 2)


# The scene is tiny: compiling takes longest, so little is optimised.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_draw = jax.jit(_image, compiler_options=QUICK)
_descend = jax.jit(jax.value_and_grad(_loss), compiler_options=QUICK)


def _visible(ready: Bench) -> str | None:
    if float(jnp.max(_draw(*ready))) > 1e-3:
        return None
    return (
        f"from_points() of {COUNT} points in front of the camera renders black. Look at the centre "
        "and the extent that project() returns (px; zero or less culls) and at evaluate()'s alpha."
    )


def _center(ready: Bench) -> str | None:
    """A camera that looks straight at the first primitive's centre through a pixel's."""
    column, row = SIZE[0] // 2, SIZE[1] // 2
    K = jnp.array([[22, 0, column + 0.5], [0, 23, row + 0.5], [0, 0, 1.0]])
    camera = ready.camera.replace(K=K, viewmat=jnp.eye(4).at[2, 3].set(4.0))
    name = ready.scene.position_field
    if name not in _fields(ready.scene):
        return None
    at_origin = getattr(ready.scene, name).at[0].set(0)
    scene = ready.scene.replace(**{name: at_origin})
    _, slopes = _descend(scene, camera, jnp.zeros((SIZE[1], SIZE[0], 3)))
    if not bool(jnp.all(jnp.isfinite(_draw(scene, camera)))):
        return (
            f"a primitive in the very centre of pixel ({column}.5, {row}.5) renders NaN there. Guard "
            "the division or the log in evaluate() and project()."
        )
    for name in _fields(scene):
        if not bool(jnp.all(jnp.isfinite(getattr(slopes, name)))):
            return (
                f"the gradient of {name!r} is not finite where a ray meets the very centre: the "
                "slope of sqrt, norm or log at zero. Guard its input: sqrt(where(x > 0, x, 1))."
            )
    return None


def _box(ready: Bench) -> str | None:
    """Alpha of every primitive at every pixel, against its box."""
    found = project(*ready)
    width, height = SIZE
    y, x = np.mgrid[:height, :width] + 0.5
    pixels = jnp.asarray(np.stack([x, y], axis=-1))
    rays = ready.camera.rays(pixels)
    alphas = jax.vmap(lambda splat: splat.evaluate(rays).alpha)(found.splat)
    alphas = jnp.broadcast_to(alphas, (COUNT, height, width))
    away = jnp.abs(pixels - found.center[:, None, None]) > found.extent[:, None, None]
    missed = jnp.where(jnp.any(away, axis=-1), alphas, 0)
    worst = np.unravel_index(int(jnp.argmax(missed)), missed.shape)
    allowed = FAINT * found.splat.blend.alpha_min
    if float(missed[worst]) <= allowed:
        return None
    return (
        f"alpha is {float(missed[worst]):.3f} at pixel ({worst[2]}.5, {worst[1]}.5), outside the box "
        f"of centre {_told(found.center[worst[0]])} and extent {_told(found.extent[worst[0]])} that "
        "project() returned: tiles there would lack it. Return a larger extent (half the size, px)."
    )


def _gradients(ready: Bench) -> str | None:
    """Directional derivatives, a field at a time: one of a few must agree."""
    target = jnp.asarray(np.random.default_rng(1).uniform(-1, 2, (SIZE[1], SIZE[0], 3)))
    _, slopes = _descend(*ready, target)
    rates = type(ready.scene).learning_rates(1.0)
    for name in _fields(ready.scene):
        slope = getattr(slopes, name)
        if not bool(jnp.all(jnp.isfinite(slope))):
            return (
                f"the gradient of {name!r} is not finite. Guard the input of sqrt, log and / in "
                "evaluate() and project()."
            )
        if not np.any(getattr(rates, name)):
            continue  # it is not learned
        wrong = [_difference(ready, target, name, slope, seed) for seed in range(DIRECTIONS)]
        if all(wrong):
            return wrong[0]
    return None


def _difference(ready: Bench, target: Array, name: str, slope: Array, seed: int) -> str | None:
    """What a central difference says against a slope, along one random direction."""
    x = getattr(ready.scene, name)
    along = jnp.asarray(np.random.default_rng(2 + seed).normal(size=x.shape))
    given = float(jnp.sum(slope * along))
    up, down = (
        float(_descend(ready.scene.replace(**{name: x + h * along}), ready.camera, target)[0])
        for h in (STEP, -STEP)
    )
    measured = (up - down) / (2 * STEP)
    if abs(given - measured) <= SLACK * max(abs(measured), abs(given), LEAST):
        return None
    return (
        f"the gradient of {name!r} along a random direction is {given:.6g}, finite "
        f"differences give {measured:.6g}. Look for a jump in evaluate() or project() and "
        f"for a stop_gradient on a part of {name!r} only."
    )


def _order(ready: Bench) -> str | None:
    turned = jax.tree.map(lambda leaf: leaf[::-1], ready.scene)
    worst = float(jnp.max(jnp.abs(_draw(*ready) - _draw(turned, ready.camera))))
    if worst < 1e-9:
        return None
    return (
        f"the same primitives in another order change a pixel by {worst:.2g}. The depth that "
        "project() returns must tell any two apart and be finite."
    )


def _recompiles(ready: Bench) -> str | None:
    moved = ready.camera.replace(viewmat=ready.camera.viewmat.at[0, 3].add(0.01))
    _draw(*ready)
    before = _draw._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    _draw(ready.scene, moved)
    if _draw._cache_size() == before:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    return "another camera pose compiles anew: project() must not read values as Python numbers."


def _lowers(ready: Bench) -> str | None:
    with jax.enable_x64(False):
        scene, camera = jax.tree.map(lambda x: x.astype(np.float32), tuple(ready))
        traced = _descend.trace(scene, camera, jnp.zeros((SIZE[1], SIZE[0], 3)))
        for platform in PLATFORMS:
            try:
                traced.lower(lowering_platforms=(platform,))
            except Exception as error:
                return f"it cannot be compiled for {platform}: {error}"
    return None


def _mass(ready: Bench) -> str | None:
    """What density control asks of it."""
    one = jax.tree.map(lambda leaf: leaf[0], ready.scene)
    mass = one.mass()
    want, shrink = jnp.array(0.3), jnp.array(0.5)
    after = one.reshaped(want, shrink).mass()
    if abs(float(after.opacity) - 0.3) > 1e-6:
        return f"reshaped(0.3, ...) has the opacity {float(after.opacity):.4g} by its own mass()."
    if not np.allclose(after.scale, 0.5 * mass.scale, rtol=1e-3):
        return f"reshaped(..., 0.5) changes mass().scale from {mass.scale} to {after.scale}."
    if jax.tree.structure(one.moved(jnp.ones(3))) != jax.tree.structure(one):
        return "moved() returns another structure."
    return None


def _file(ready: Bench) -> str | None:
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(False):
        path = Path(folder) / "scene.ply"
        io.save(ready.scene, path)
        back = io.load(path, type(ready.scene))
    for name in _fields(ready.scene):
        want = np.float32(getattr(ready.scene, name))
        if not np.allclose(getattr(back, name), want, rtol=ROUNDED, atol=ROUNDED):
            return f"{name!r} is not the same after saving and loading a .ply."
    return None


def _learns(ready: Bench) -> str | None:
    """From a shaken scene back, by the signs of the gradient at the method's own rates."""
    target, r = _draw(*ready), np.random.default_rng(3)
    rates = jax.tree.leaves(type(ready.scene).learning_rates(1.0))
    rates = jax.tree.unflatten(jax.tree.structure(ready.scene), rates)

    def shake(x: Array, rate: Array) -> Array:
        return x + SHAKEN * jnp.sign(rate) * jnp.abs(x) * r.normal(size=x.shape)

    scene = jax.tree.map(shake, ready.scene, rates)
    losses = []
    for _ in range(STEPS):
        loss, slope = _descend(scene, ready.camera, target)
        losses.append(float(loss))
        scene = jax.tree.map(lambda x, g, rate: x - rate * jnp.sign(g), scene, slope, rates)
    if losses[-1] < losses[0]:
        return None
    return (
        f"{STEPS} steps at its learning_rates() take the loss from {losses[0]:.3g} to "
        f"{losses[-1]:.3g}. Rates too large, or a gradient that is zero where it should not be?"
    )


def _fields(scene: Primitive) -> list[str]:
    values = {field.name: getattr(scene, field.name) for field in dataclasses.fields(scene)}
    return [name for name, value in values.items() if isinstance(value, jax.Array)]


def _told(point: Array) -> str:
    return f"({float(point[0]):.1f}, {float(point[1]):.1f})"


FIRST: dict[str, Callable[[type[Primitive]], str | None]] = {
    "from_points() starts a scene": _starts,
    "evaluate() reads a record of scalars and returns scalars": _scalars,
}
PARTS: dict[str, Callable[[Bench], str | None]] = {
    "a scene from points is seen": _visible,
    "everything that is seen lies in the box": _box,
    "a ray through the very centre has an image and gradients": _center,
    "gradients are those of finite differences": _gradients,
    "the order of the primitives does not matter": _order,
    "another camera compiles nothing anew": _recompiles,
    "it compiles for " + ", ".join(PLATFORMS): _lowers,
    "density control can reshape and move it": _mass,
    "a scene of it survives its .ply file": _file,
    f"{STEPS} steps lower the loss": _learns,
}
