"""A tiny posed world for the tests of training: coloured blobs, photographed by the renderer."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import xpr
from xpr.data import Dataset, Points
from xpr.methods.gaussian3d import Gaussian3D
from xpr.train.config import TrainConfig

SIZE = 24  # px
QUICK = TrainConfig(
    steps=12, cap=96, sh_degree=1, log_every=2, save_every=4, random_points=48, method="3dgs"
)


@dataclasses.dataclass(frozen=True)
class View:
    """A photo in memory, with what `xpr.data.View` promises."""

    name: str
    camera: xpr.Camera
    pixels: np.ndarray
    mask_path: Path | None = None

    def image(self):
        return self.pixels

    def mask(self):
        return None


def blobs(n=40, seed=0, scale=1.0):
    """A scene of n opaque splats within a ball of radius `scale`."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)) * 0.4 * scale
    scene = Gaussian3D.from_points(
        jnp.asarray(points, jnp.float32),
        jnp.asarray(rng.uniform(0.1, 1, (n, 3)), jnp.float32),
        jnp.full(n, 0.12 * scale),
        key=jax.random.key(seed),
        sh_degree=1,
    )
    return scene.replace(logit_opacity=jnp.full(n, 2.0))


def looking_in(angle, distance=3.0):
    """A camera on a circle around the origin."""
    eye = distance * np.array([np.sin(angle), 0.3 * np.cos(3 * angle), -np.cos(angle)])
    z = -eye / np.linalg.norm(eye)
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    rotation = np.stack([x, np.cross(z, x), z])
    viewmat = np.eye(4, dtype=np.float32)
    viewmat[:3, :3], viewmat[:3, 3] = rotation, -rotation @ eye
    intrinsics = np.array([[SIZE, 0, SIZE / 2], [0, SIZE, SIZE / 2], [0, 0, 1]], np.float32)
    return xpr.Camera(viewmat, intrinsics, width=SIZE, height=SIZE)


def dataset(count=8, *, scale=1.0, channels=3, points=30, colors=None):
    """`count` photos of the blobs, every fourth held out, and a sparse cloud of their centres."""
    scene = blobs(scale=scale)
    cameras = [looking_in(2 * np.pi * i / count, 3.0 * scale) for i in range(count)]
    outputs = [xpr.render(scene, camera, backend="reference") for camera in cameras]
    images = [
        np.concatenate([output.color, output.alpha[..., None]], -1)[..., :channels]
        for output in outputs
    ]
    views = tuple(
        View(f"{i:03}.png", camera, np.round(np.clip(image, 0, 1) * 255).astype(np.uint8))
        for i, (camera, image) in enumerate(zip(cameras, images, strict=True))
    )
    positions = np.array(scene.mean)[:points]
    if colors is None:
        colors = np.full((len(positions), 3), 128, np.uint8)
    return Dataset(
        path=Path("blobs"),
        format="nerfstudio",
        views=views,
        train=tuple(i for i in range(count) if i % 4),
        test=tuple(range(0, count, 4)),
        split=f"every 4th of {count}",
        image_source="rendered",
        points=Points(positions, colors) if points else None,
        notes=(),
    )
