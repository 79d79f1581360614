"""From a dataset's camera model to xpr's lens and intrinsics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xpr.camera import Camera
from xpr.errors import DataError
from xpr.lens import (
    Division,
    Equirectangular,
    Eucm,
    Fov,
    Lens,
    OpenCV,
    OpenCVFisheye,
    Pinhole,
    RadTanThinPrismFisheye,
    ThinPrismFisheye,
)


@dataclasses.dataclass(frozen=True)
class Model:
    """One of COLMAP's camera models.

    Attributes:
      lens: the lens that contains it.
      focals: 1 where both axes share a focal length, 2 where they do not, 0 for a panorama, whose
        parameters are its width and height.
      coefficients: what follows focal lengths and centre, by the lens's names.
    """

    lens: Lens
    focals: int
    coefficients: tuple[str, ...] = ()


MODELS = {
    "SIMPLE_PINHOLE": Model(Pinhole(), 1),
    "PINHOLE": Model(Pinhole(), 2),
    "SIMPLE_RADIAL": Model(OpenCV(), 1, ("k1",)),
    "RADIAL": Model(OpenCV(), 1, ("k1", "k2")),
    "OPENCV": Model(OpenCV(), 2, ("k1", "k2", "p1", "p2")),
    "FULL_OPENCV": Model(OpenCV(), 2, ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")),
    "OPENCV_FISHEYE": Model(OpenCVFisheye(), 2, ("k1", "k2", "k3", "k4")),
    "SIMPLE_RADIAL_FISHEYE": Model(OpenCVFisheye(), 1, ("k1",)),
    "RADIAL_FISHEYE": Model(OpenCVFisheye(), 1, ("k1", "k2")),
    "SIMPLE_FISHEYE": Model(OpenCVFisheye(), 1),
    "FISHEYE": Model(OpenCVFisheye(), 2),
    "THIN_PRISM_FISHEYE": Model(ThinPrismFisheye(), 2, ThinPrismFisheye.coefficients),
    "RAD_TAN_THIN_PRISM_FISHEYE": Model(
        RadTanThinPrismFisheye(), 2, RadTanThinPrismFisheye.coefficients
    ),
    "FOV": Model(Fov(), 2, Fov.coefficients),
    "SIMPLE_DIVISION": Model(Division(), 1, Division.coefficients),
    "DIVISION": Model(Division(), 2, Division.coefficients),
    "EUCM": Model(Eucm(), 2, Eucm.coefficients),
    "EQUIRECTANGULAR": Model(Equirectangular(), 0),
}

UNDISTORT = (
    "Undistort the photos first: colmap image_undistorter --image_path IMAGES "
    "--input_path SPARSE --output_path UNDISTORTED, and give UNDISTORTED."
)


@dataclasses.dataclass(frozen=True)
class Sensor:
    """Intrinsics at the size that the dataset states, in px and float64.

    Attributes:
      lens: the camera model.
      distortion: [len(lens.coefficients)], or None for a lens without.
      focal: (fx, fy).
      center: (cx, cy); the top-left pixel's centre is (0.5, 0.5).
      size: (width, height).
    """

    lens: Lens
    distortion: np.ndarray | None
    focal: tuple[float, float]
    center: tuple[float, float]
    size: tuple[int, int]

    def camera(self, viewmat: np.ndarray, size: tuple[int, int], dtype: Any = np.float32) -> Camera:
        """The camera that photographs at `size` (width, height), with numpy leaves of `dtype`.

        Intrinsics are scaled by the true ratios of the widths and of the heights.
        """
        x, y = size[0] / self.size[0], size[1] / self.size[1]
        (fx, fy), (cx, cy) = self.focal, self.center
        K = [[fx * x, 0, cx * x], [0, fy * y, cy * y], [0, 0, 1]]
        with np.errstate(over="ignore"):  # what `dtype` cannot hold becomes infinite
            distortion = None if self.distortion is None else self.distortion.astype(dtype)
            viewmat, K = np.asarray(viewmat, dtype), np.array(K, dtype)
        return Camera(
            viewmat=cast(Any, viewmat),
            K=cast(Any, K),
            distortion=cast(Any, distortion),
            width=size[0],
            height=size[1],
            lens=self.lens,
        )


def sensor(
    lens: Lens,
    coefficients: dict[str, float],
    *,
    focal: tuple[float, float],
    center: tuple[float, float],
    size: tuple[int, int],
    where: str,
) -> Sensor:
    """Intrinsics, checked; a perspective lens whose coefficients are all zero is a pinhole.

    Args:
      lens: the camera model.
      coefficients: by the lens's names; absent ones are zero.
      focal: (fx, fy) px.
      center: (cx, cy) px.
      size: (width, height) px.
      where: what to call this camera in an error.

    Raises:
      DataError: a number that is not finite, a focal length or a size that is not positive.
    """
    numbers = [*focal, *center, *coefficients.values()]
    if not np.all(np.isfinite(numbers)) or min(*focal, *size) <= 0:
        raise DataError(
            f"{where}: focal {focal}, centre {center}, size {size}, distortion {coefficients}; "
            "expected finite numbers, and positive focal lengths and sizes."
        )
    if not lens.coefficients:
        return Sensor(lens, None, focal, center, size)
    distortion = np.array([coefficients.get(name, 0.0) for name in lens.coefficients])
    if lens.perspective and not np.any(distortion):
        return Sensor(Pinhole(), None, focal, center, size)
    return Sensor(lens, distortion, focal, center, size)


def colmap_sensor(name: str, params: Sequence[float], size: tuple[int, int], where: str) -> Sensor:
    """The intrinsics of a COLMAP camera.

    Args:
      name: COLMAP's name of the model.
      params: in COLMAP's order.
      size: (width, height) px.
      where: what to call this camera in an error, its id included.

    Raises:
      DataError: a model that xpr has no lens for, or a wrong number of parameters.
    """
    model = known_model(name, where)
    expected = model.focals + 2 + len(model.coefficients)
    if len(params) != expected:
        raise DataError(f"{where}: {name} with {len(params)} parameters, expected {expected}.")
    if model.focals == 0:
        return panorama((params[0], params[1]), size, where)
    focals, center = params[: model.focals], params[model.focals : model.focals + 2]
    return sensor(
        model.lens,
        dict(zip(model.coefficients, params[model.focals + 2 :], strict=True)),
        focal=(focals[0], focals[-1]),
        center=(center[0], center[1]),
        size=size,
        where=where,
    )


def panorama(full: tuple[float, float], size: tuple[int, int], where: str) -> Sensor:
    """The intrinsics of an equirectangular image: once round, and from pole to pole.

    Args:
      full: (width, height) px of the whole panorama.
      size: (width, height) px of the photo.
      where: what to call this camera in an error.

    Raises:
      DataError: a size that is not positive.
    """
    width, height = full
    return sensor(
        Equirectangular(),
        {},
        focal=(width / (2 * math.pi), height / math.pi),
        center=(width / 2, height / 2),
        size=size,
        where=where,
    )


def known_model(name: str, where: str) -> Model:
    """The entry of `MODELS`.

    Raises:
      DataError: naming the model, the camera and the way round it.
    """
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise DataError(
            f"{where}: camera model {name} is not supported; xpr renders {known}. {UNDISTORT}"
        )
    return MODELS[name]
