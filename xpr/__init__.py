"""xpr: a point-based differentiable renderer in JAX."""

from xpr import lens as lens
from xpr.camera import Camera as Camera
from xpr.errors import (
    CapacityError as CapacityError,
    DataError as DataError,
    UserError as UserError,
)
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
