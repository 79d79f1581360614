"""The vocabulary shared by methods and pipeline: small vectors, rays, splats, primitives."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from flax import struct

from xpr.errors import UserError
from xpr.math import logit, quat_to_rotation

if TYPE_CHECKING:
    from xpr.camera import Camera

Array = jax.Array


class Vec2(struct.PyTreeNode):
    """Two components, each a scalar or any block of equal shape."""

    x: Array
    y: Array

    @classmethod
    def of(cls, a: Array) -> Vec2:
        """The vector whose components are a[..., 0] and a[..., 1]."""
        return cls(a[..., 0], a[..., 1])

    def __iter__(self) -> Iterator[Array]:
        return iter((self.x, self.y))

    def __sub__(self, other: Vec2) -> Vec2:
        return Vec2(self.x - other.x, self.y - other.y)


class Vec3(struct.PyTreeNode):
    """Three components, each a scalar or any block of equal shape."""

    x: Array
    y: Array
    z: Array

    @classmethod
    def of(cls, a: Array) -> Vec3:
        """The vector whose components are a[..., 0], a[..., 1] and a[..., 2]."""
        return cls(a[..., 0], a[..., 1], a[..., 2])

    def __iter__(self) -> Iterator[Array]:
        return iter((self.x, self.y, self.z))

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, s: Array) -> Vec3:
        return Vec3(self.x * s, self.y * s, self.z * s)

    def dot(self, other: Vec3) -> Array:
        """The scalar product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        """The vector product."""
        return Vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )


class Ray(NamedTuple):
    """A pixel and the world-space ray through its centre.

    Attributes:
      pixel: pixel coordinates; the top-left pixel's centre is (0.5, 0.5).
      origin: world units.
      direction: unit length.
    """

    pixel: Vec2
    origin: Vec3
    direction: Vec3


class Hit(NamedTuple):
    """What one ray sees of one splat.

    Attributes:
      alpha: opacity along the ray, at least 0; the pipeline clamps it (`Blend`).
      color: linear RGB.
      depth: distance from the camera; None stands for the splat's sort key.
      features: further values to blend as the colour is, such as a normal.
    """

    alpha: Array
    color: Vec3
    depth: Array | None = None
    features: tuple[Array, ...] = ()


@dataclasses.dataclass(frozen=True)
class Blend:
    """How the layers of a method are blended. Static.

    Attributes:
      alpha_max: alpha is clamped to it, so that 1 - alpha stays away from zero.
      alpha_min: a layer below it is skipped: it cannot change an 8-bit pixel.
      transmittance_min: a pixel is done once so little light passes.
      keeps_last: whether the layer that brings the transmittance below `transmittance_min`
        still counts (3DGUT, LinPrim) or the ray ends before it (3DGS).
      reorder: how many hits a ray holds back to put them in the order of their distance, a power
        of two (16 in 3DGUT's sorted variant); 0 leaves all in the order of the splats' depths.

    Raises:
      UserError: a `reorder` that is neither.
    """

    alpha_max: float = 0.99
    alpha_min: float = 1 / 255
    transmittance_min: float = 1e-4
    keeps_last: bool = False
    reorder: int = 0

    def __post_init__(self) -> None:
        if self.reorder < 0 or self.reorder & (self.reorder - 1):
            raise UserError(f"Blend.reorder is {self.reorder}, expected 0 or a power of two.")


class Splat(struct.PyTreeNode, abc.ABC):
    """What one primitive looks like from one camera: exactly what the kernels load.

    Every leaf is a scalar.
    """

    blend: ClassVar[Blend] = Blend()

    @abc.abstractmethod
    def evaluate(self, ray: Ray) -> Hit:
        """Alpha and linear RGB of this splat along `ray`.

        Written in scalars, so that the same body runs on a pixel, on a tile of
        pixels and inside a GPU kernel. Elementwise arithmetic only.
        """

    def tile_bound(self, low: Vec2, high: Vec2) -> Array:
        """An upper bound of alpha at the pixels of the rectangle [low, high] (px).

        A tile whose bound lies below `Blend.alpha_min` is left out. The default leaves out none.
        """
        del high
        return jnp.ones_like(low.x)


class QuadraticSplat(Splat, abc.ABC):
    """A splat that sees the pixel only through polynomials of degree two (a faster contract).

    `evaluate` is then `respond(forms(pixel))`. Few such forms stand for many parameters, and the
    gradients of all of them come out of one matrix product a tile instead of one sum a parameter.
    """

    @abc.abstractmethod
    def forms(self, pixel: Vec2) -> tuple[Array, ...]:
        """Polynomials in pixel.x and pixel.y of total degree at most 2; elementwise."""

    @abc.abstractmethod
    def respond(self, *forms: Array) -> Hit:
        """The hit from the forms' values; own leaves may be read for its colour and depth only."""

    def evaluate(self, ray: Ray) -> Hit:
        """The response to the forms at the ray's pixel."""
        return self.respond(*self.forms(ray.pixel))


class Projected(NamedTuple):
    """One primitive on one image plane.

    Attributes:
      splat: the record that `evaluate` reads.
      center: [2] px, centre of a box holding every pixel with alpha above `Blend.alpha_min`.
      extent: [2] px, half its size; zero or less (or not finite) culls the primitive.
      depth: [] world units, the sort key: nearest first.
    """

    splat: Splat
    center: Array
    extent: Array
    depth: Array


class Mass(NamedTuple):
    """The Gaussian that stands for a primitive in density control.

    Attributes:
      opacity: [] in [0, 1].
      scale: [3] standard deviations in world units.
      rotation: [3, 3] world-from-local; its columns are the axes of `scale`.
    """

    opacity: Array
    scale: Array
    rotation: Array


class Primitive(struct.PyTreeNode, abc.ABC):
    """One optimisable primitive. A scene is the same class with a leading axis N.

    Attributes:
      position_field: names the position, world units. Its learning rate decays over a run.
      size_field: names the logarithms of the sizes, [] or [3].
      opacity_field: names the logit of the opacity.
      rotation_field: names a quaternion that turns the sizes' axes; "" if they are the world's.
      color_field: names the colour, linear RGB.
    """

    position_field: ClassVar[str] = "mean"
    size_field: ClassVar[str] = "log_scale"
    opacity_field: ClassVar[str] = "logit_opacity"
    rotation_field: ClassVar[str] = ""
    color_field: ClassVar[str] = "color"

    @abc.abstractmethod
    def project(self, camera: Camera) -> Projected:
        """Project this primitive. The pipeline maps it over the scene with `jax.vmap`."""

    # What training needs. A primitive with fields of other kinds says it itself.

    @classmethod
    def from_points(
        cls, points: Array, colors: Array, spacing: Array, *, key: Array, sh_degree: int = 3
    ) -> Self:
        """A scene that starts from a point cloud.

        By default as large as the spacing (one size, or three if a rotation turns them), turned at
        random, of opacity 0.1.

        Args:
          points: [N, 3] world units.
          colors: [N, 3] in [0, 1].
          spacing: [N] distance to the neighbours, world units, positive.
          key: PRNG key, for methods that start at random.
          sh_degree: of the colour's spherical harmonics.

        Raises:
          UserError: the default does not know what some field starts as.
        """
        del sh_degree
        n, size = len(points), jnp.log(spacing)
        size = jnp.tile(size[:, None], 3) if cls.rotation_field else size
        turned = jax.random.normal(key, (n, 4), points.dtype)
        faint = jnp.full(n, logit(jnp.array(0.1, points.dtype)))
        return cls._by_role("from_points", points, size, faint, turned, colors)

    @classmethod
    def learning_rates(cls, extent: float) -> Self:
        """One rate per field, for a scene of this extent (world units), at the start of a run.

        Raises:
          UserError: the default, which has the rates of 3DGS, does not know some field.
        """
        return cls._by_role("learning_rates", 1.6e-4 * extent, 5e-3, 5e-2, 1e-3, 2.5e-3)

    def mass(self) -> Mass:
        """What density control reads of this primitive; by default its fields say it."""
        scale = jnp.broadcast_to(jnp.exp(self._named("size_field")), 3)
        rotation = jnp.eye(3, dtype=scale.dtype)
        if self.rotation_field:
            rotation = quat_to_rotation(self._named("rotation_field"))
        return Mass(jax.nn.sigmoid(self._named("opacity_field")), scale, rotation)

    def reshaped(self, opacity: Array, shrink: Array) -> Self:
        """This primitive with another opacity [] and its size multiplied by `shrink` []."""
        size = self._named("size_field") + jnp.log(shrink)
        return self.replace(**{self.opacity_field: logit(opacity), self.size_field: size})

    def moved(self, offset: Array) -> Self:
        """This primitive, moved by `offset` [3] in world units."""
        return self.replace(**{self.position_field: self._named("position_field") + offset})

    @classmethod
    def _by_role(cls, asked: str, *values: Any) -> Self:
        """A scene whose fields have the values of their roles, in the order of the class's list."""
        names = (cls.position_field, cls.size_field, cls.opacity_field, cls.rotation_field)
        known = dict(zip((*names, cls.color_field), values, strict=True))
        own = [f.name for f in dataclasses.fields(cls) if f.metadata.get("pytree_node", True)]
        if unknown := [name for name in own if name not in known]:
            raise UserError(
                f"{cls.__name__} cannot be trained: {asked}() does not know its field "
                f"{unknown[0]!r}. Define {cls.__name__}.{asked}()."
            )
        return cls(**{name: known[name] for name in own})

    def _named(self, role: str) -> Array:
        """The field that plays a role."""
        fields = [field.name for field in dataclasses.fields(self)]
        name = getattr(self, role)
        if name not in fields:
            raise UserError(
                f"{type(self).__name__}.{role} is {name!r}, expected one of its fields "
                f"({', '.join(fields)}). Name it, or define mass(), reshaped() and moved()."
            )
        return getattr(self, name)

    def refreshed(self, cameras: Sequence[Camera]) -> Self:
        """This primitive with what it keeps of the training views brought up to date.

        The trainer calls it before the first step and whenever density control has run; nothing
        of it is differentiated.

        Args:
          cameras: the training views, those of one size and lens in one batch (leading axis C).
        """
        del cameras
        return self

    def active(self, degree: Array) -> Self:
        """This primitive as the trainer shows it while it warms up.

        Args:
          degree: [] int, the highest harmonic band in use; it grows over a run. A method without
            harmonics ignores it.
        """
        del degree
        return self


def count(scene: Any) -> int:
    """The number N of primitives in a scene."""
    return jax.tree.leaves(scene)[0].shape[0]
