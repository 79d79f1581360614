"""xpr: a point-based differentiable renderer in JAX."""

import importlib
from types import ModuleType

from xpr import lens as lens, methods as methods
from xpr.arrays import rasterization as rasterization
from xpr.camera import Camera as Camera
from xpr.errors import (
    CapacityError as CapacityError,
    DataError as DataError,
    UserError as UserError,
)
from xpr.pipeline.capacity import Capacity as Capacity
from xpr.pipeline.render import Output as Output, plan as plan, render as render
from xpr.pipeline.settings import Kernel as Kernel, Settings as Settings
from xpr.types import (
    Blend as Blend,
    Hit as Hit,
    Mass as Mass,
    Primitive as Primitive,
    Projected as Projected,
    Ray as Ray,
    Splat as Splat,
    Vec2 as Vec2,
    Vec3 as Vec3,
)

_LAZY = ("data", "export", "io", "train")  # packages with heavy imports of their own


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"xpr.{name}")
    raise AttributeError(f"module 'xpr' has no attribute {name!r}")
