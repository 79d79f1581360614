"""Small scenes, and compiled functions that the renderer's tests share (compiling takes longest).

Nothing is axis-aligned, centred or isotropic, splats overlap, and cotangents are random: a symmetric
scene hides wrong gradients.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from xpr.methods import load
from xpr.methods.gaussian3d import Gaussian3D

WIDTH, HEIGHT = 20, 15
CAPACITY = xpr.Capacity(visible=16, intersections=512)
SETTINGS = xpr.Settings(tile_size=8, batch=4, chunk=4, loops=1)
# Halves the time to compile, without a change to the arithmetic.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

DISTORTION = {
    "Pinhole": None,
    "Orthographic": None,
    "OpenCV": [0.1, -0.05, 0.01, -0.02, 0.02, 0.06, -0.03, 0.01, 0.01, -0.02, 0.015, 0.02],
    "OpenCVFisheye": [0.05, -0.02, 0.01, -0.004],
}
LENSES = tuple(DISTORTION)


class Case(NamedTuple):
    """Everything that a render is differentiable in."""

    scene: Any
    camera: xpr.Camera
    background: jax.Array
    features: jax.Array


def gaussians(n: int = 12, *, seed: int = 0, degree: int = 1) -> Gaussian3D:
    """Overlapping Gaussians about the origin, some opaque; float64 under x64, else float32."""
    r = np.random.default_rng(seed)
    rest, solid = (degree + 1) ** 2 - 1, np.arange(n) % 3 == 0
    return Gaussian3D(
        mean=jnp.asarray(r.uniform(-1, 1, (n, 3))),
        quat=jnp.asarray(r.normal(size=(n, 4))),
        log_scale=jnp.asarray(r.uniform(-1.7, -0.2, (n, 3)) + 0.6 * solid[:, None]),
        logit_opacity=jnp.asarray(np.where(solid, 6.0, r.normal(0.0, 1.5, n))),
        sh0=jnp.asarray(r.normal(0.3, 0.8, (n, 1, 3))),
        shN=jnp.asarray(r.normal(0.0, 0.2, (n, rest, 3))),
    )


def view(lens: str = "Pinhole", *, seed: int = 0) -> xpr.Camera:
    """A camera 3 units before the origin, tilted, its principal point off the centre."""
    r = np.random.default_rng(100 + seed)
    rotation, _ = np.linalg.qr(np.eye(3) + 0.15 * r.normal(size=(3, 3)))
    rotation *= np.sign(np.diag(rotation))
    viewmat = np.eye(4)
    viewmat[:3, :3], viewmat[:3, 3] = rotation, [0.1, -0.2, 3]
    focal = 6 if lens == "Orthographic" else 18
    K = np.array([[focal, 0.7, 8.3], [0.0, 1.1 * focal, 8.9], [0, 0, 1]])
    distortion = DISTORTION[lens]
    return xpr.Camera(
        jnp.asarray(viewmat),
        jnp.asarray(K),
        None if distortion is None else jnp.asarray(np.array(distortion)),
        width=WIDTH,
        height=HEIGHT,
        lens=getattr(xpr.lens, lens)(),
    )


def case(lens: str = "Pinhole", *, n: int = 12, seed: int = 0, degree: int = 1) -> Case:
    """A scene of `n` Gaussians with two features each, before a bright background."""
    r = np.random.default_rng(200 + seed)
    return Case(
        gaussians(n, seed=seed, degree=degree),
        view(lens, seed=seed),
        jnp.asarray(r.uniform(0.2, 1.0, 3)),
        jnp.asarray(r.normal(size=(n, 2))),
    )


def like(scene: Gaussian3D, method: str) -> Any:
    """A scene of another method, as turned and as opaque as these Gaussians, all sizes different."""
    r = np.random.default_rng(703)
    n = len(scene.mean)
    colors, spacing = jnp.asarray(r.uniform(0, 1, (n, 3))), jnp.asarray(r.uniform(0.1, 0.3, n))
    other = load(method).from_points(
        scene.mean, colors, spacing, key=jax.random.key(1), sh_degree=1
    )
    other = jax.tree.map(lambda x: x + 0.1 * jnp.abs(x) * r.normal(size=x.shape), other)
    kept = {"logit_opacity", "quat", "log_scale"} & vars(other).keys()
    return other.replace(**{name: getattr(scene, name) for name in kept})


def draw(case: Case, alive: Any, backend: str, settings: xpr.Settings, capacity: xpr.Capacity):
    return xpr.render(
        case.scene,
        case.camera,
        background=case.background,
        features=case.features,
        alive=alive,
        backend=backend,
        settings=settings,
        capacity=capacity,
    )


def loss(case: Case, backend: str, settings: xpr.Settings) -> tuple[jax.Array, xpr.Output]:
    """Every pixel of every output, each with its own random weight."""
    output = draw(case, None, backend, settings, CAPACITY)
    r = np.random.default_rng(300)
    images = (output.color, output.alpha, output.depth, output.features, output.expected_depth)
    return sum(jnp.sum(jnp.asarray(r.normal(size=i.shape), i.dtype) * i) for i in images), output


jit_draw = jax.jit(draw, static_argnums=(2, 3, 4), compiler_options=QUICK)
jit_slopes = jax.jit(
    jax.value_and_grad(loss, has_aux=True), static_argnums=(1, 2), compiler_options=QUICK
)


def shoot(
    case: Case,
    alive: jax.Array | None = None,
    *,
    backend: str = "xla",
    settings: xpr.Settings = SETTINGS,
    capacity: xpr.Capacity = CAPACITY,
) -> xpr.Output:
    """One compiled render."""
    return jit_draw(case, alive, backend, settings, capacity)


def slopes(
    case: Case, *, backend: str = "xla", settings: xpr.Settings = SETTINGS
) -> tuple[tuple[jax.Array, xpr.Output], Case]:
    """((loss, output), gradients of the loss)."""
    return jit_slopes(case, backend, settings)
