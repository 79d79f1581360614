"""Lenses: how a point in front of the camera lands on the normalised image plane, and back.

A lens is a small frozen class without arrays, hence static under `jax.jit`; its coefficients are
an array of the camera and have gradients. The intrinsic matrix K then maps the normalised plane
to pixels. Between them these lenses are all of COLMAP's camera models.
"""

from xpr.lens.base import Lens as Lens
from xpr.lens.bent import (
    Bent as Bent,
    BentFisheye as BentFisheye,
    BentPerspective as BentPerspective,
)
from xpr.lens.division import Division as Division
from xpr.lens.equirectangular import Equirectangular as Equirectangular
from xpr.lens.eucm import Eucm as Eucm
from xpr.lens.fisheye import (
    OpenCVFisheye as OpenCVFisheye,
    RadTanThinPrismFisheye as RadTanThinPrismFisheye,
    ThinPrismFisheye as ThinPrismFisheye,
)
from xpr.lens.fov import Fov as Fov
from xpr.lens.inverse import invert as invert
from xpr.lens.opencv import OpenCV as OpenCV
from xpr.lens.straight import Orthographic as Orthographic, Pinhole as Pinhole
