"""Where linearising the lens fails: the demo's world through a wide fisheye with a rolling shutter.

    python -m benchmarks fisheye [--methods 3dgs 3dgut] [--cap 10000] [--steps 1000] [--field 160]

The world's ray tracer takes any lens, so the photos are exact. While a photo is taken the camera
turns and moves by a random few degrees and hundredths. `global` has photos without that motion;
`ignored` has the same photos as `top_to_bottom`, with cameras that stand still half way through the exposure.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.results import Results, Row, add_out
from xpr.camera import Camera
from xpr.data.dataset import Dataset, Points, View, every_eighth
from xpr.lens import OpenCVFisheye
from xpr.math import rotation_exp
from xpr.media import save_png, to_uint8
from xpr.paths import look_at
from xpr.train.config import TrainConfig
from xpr.train.fit import fit
from xpr.world import first_hit, picture, trace

TARGET, UP = np.array([0.0, 0.0, 0.14]), np.array([0.0, 0.0, 1.0])
DISTANCE, ELEVATION = 1.1, 38.0  # of the cameras from the target, world units and degrees
POINTS = 10_000
SHUTTERS = ("global", "top_to_bottom", "ignored")


def main(arguments: Sequence[str]) -> None:
    """Train every method with every shutter, and print a row each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fisheye")
    parser.add_argument("--methods", nargs="+", default=["3dgs", "3dgut"])
    parser.add_argument("--shutters", nargs="+", default=SHUTTERS, choices=SHUTTERS)
    for name, default in (("steps", 1000), ("cap", 10_000), ("views", 40), ("size", 96)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--field", type=float, default=160, help="across the picture, degrees")
    parser.add_argument("--turn", type=float, default=6, help="during one exposure, degrees")
    parser.add_argument("--shift", type=float, default=0.06, help="the same, world units")
    add_out(parser)
    options = parser.parse_args(arguments)
    results = Results(options)
    with tempfile.TemporaryDirectory() as folder:
        for shutter in options.shutters:
            dataset = photos(Path(folder) / shutter, shutter, options)
            for method in options.methods:
                config = TrainConfig(method=method, steps=options.steps, cap=options.cap)
                results.add([row(dataset, shutter, config)])


def row(dataset: Dataset, shutter: str, config: TrainConfig) -> Row:
    """What one run came to."""
    result = fit(dataset, config)
    scores = result.evaluation
    return {
        "shutter": shutter,
        "method": config.method,
        "steps": result.step,
        "splats": scores.splats,
        "psnr": round(scores.psnr, 2),
        "ssim": round(scores.ssim, 4),
        "seconds": round(result.seconds, 1),
    }


def photos(folder: Path, shutter: str, options: argparse.Namespace) -> Dataset:
    """Photos once around the world, every eighth held out, and points that they show."""
    folder.mkdir()
    rng, views, seen = np.random.default_rng(0), [], []
    for i in range(options.views):
        name = f"{i:03}.png"
        taken = moving(i / options.views, options, rng)
        taken = taken.at(0.0) if shutter == "global" else taken
        save_png(folder / name, to_uint8(picture(taken)))
        seen.append(points(taken, POINTS // options.views, rng))
        known = taken.at(0.5) if shutter == "ignored" else taken
        views.append(View(name, jax.tree.map(np.asarray, known), folder / name))
    split = every_eighth([view.name for view in views])
    return Dataset(
        path=folder,
        format="nerfstudio",
        views=tuple(views),
        train=split.train,
        test=split.test,
        split=split.words,
        image_source="traced",
        points=Points(*(np.concatenate(parts) for parts in zip(*seen, strict=True))),
        notes=(),
    )


def moving(share: float, options: argparse.Namespace, rng: np.random.Generator) -> Camera:
    """A camera at a share of the way around the world, looking at it, that moves during its exposure."""
    turn = 2 * np.pi * share
    up = np.radians(ELEVATION + 11 * np.sin(3 * turn))
    aside = np.array([np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.sin(up)])
    eye = TARGET + DISTANCE * rng.uniform(0.95, 1.05) * aside
    start = np.linalg.inv(look_at(eye, TARGET, UP))
    end = start.copy()
    turned = rotation_exp(jnp.asarray(np.radians(options.turn) * direction(rng)))
    end[:3, :3] = np.asarray(turned) @ start[:3, :3]
    end[:3, 3] += options.shift * direction(rng)
    size = options.size
    focal = size / np.radians(options.field)
    K = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]])
    return Camera(
        jnp.asarray(start, jnp.float32),
        jnp.asarray(K, jnp.float32),
        jnp.zeros(4),
        viewmat_end=jnp.asarray(end, jnp.float32),
        shutter="top_to_bottom",
        width=size,
        height=size,
        lens=OpenCVFisheye(),
    )


def direction(rng: np.random.Generator) -> np.ndarray:
    """[3], any, of length one."""
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def points(camera: Camera, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What random pixels of a photo show: positions [count, 3] float32, colours [count, 3] uint8."""
    size = (camera.width, camera.height)
    rays = camera.rays(jnp.asarray(rng.uniform(0, size, (count, 2)), jnp.float32))
    origins, directions = (
        np.stack([np.asarray(part) for part in vector], axis=-1)
        for vector in (rays.origin, rays.direction)
    )
    positions = first_hit(origins, directions).astype(np.float32)
    return positions, to_uint8(trace(origins, directions))
