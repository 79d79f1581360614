"""Methods that are not 3DGS: evaluated along the ray, coloured along the ray, with a rule of their own.

They take the general path of the tiled backends, and their cameras get gradients through the rays.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from test_render_gradients import check, same

import xpr


class Ball(xpr.Splat):
    """A soft sphere: alpha falls with the distance of the ray from its centre."""

    center: xpr.Vec3
    radius: jax.Array
    opacity: jax.Array
    color: xpr.Vec3

    def closest(self, ray):
        """How far along the ray the centre is nearest, and the offset there."""
        offset = self.center - ray.origin
        along = offset.dot(ray.direction)
        return along, offset - ray.direction * along

    def evaluate(self, ray):
        _, offset = self.closest(ray)
        return xpr.Hit(self.opacity * jnp.exp(-offset.dot(offset) / self.radius**2), self.color)


class Marble(Ball):
    """Red and blue vary along the ray, green does not; hits have a depth; the last layer counts."""

    blend = xpr.Blend(keeps_last=True, transmittance_min=1e-3)

    def evaluate(self, ray):
        along, offset = self.closest(ray)
        alpha = self.opacity * jnp.exp(-offset.dot(offset) / self.radius**2)
        tint = 1 + 0.5 * offset.x / self.radius
        color = xpr.Vec3(self.color.x * tint, self.color.y, self.color.z * ray.direction.y + 0.2)
        return xpr.Hit(alpha, color, along - self.radius * alpha)


class Flag(xpr.Splat):
    """Everything but the opacity is a constant of the class."""

    opacity: jax.Array

    def evaluate(self, ray):
        return xpr.Hit(self.opacity, xpr.Vec3(1.0, 0.5, 0.25), 2.0)


class Whole(xpr.Primitive):
    """Its box is the whole image."""

    center: jax.Array

    def placed(self, camera, splat):
        point = camera.to_camera(self.center)
        middle = jnp.array([camera.width, camera.height], point.dtype) / 2
        extent = jnp.where(camera.sees(point), middle, 0)
        return xpr.Projected(splat, middle, extent, camera.depth(point))


class Balls(Whole):
    """A scene of `Ball`s."""

    log_radius: jax.Array
    logit_opacity: jax.Array
    color: jax.Array

    def project(self, camera):
        return self.placed(camera, self.record(Ball))

    def record(self, kind):
        opacity, radius = jax.nn.sigmoid(self.logit_opacity), jnp.exp(self.log_radius)
        return kind(xpr.Vec3.of(self.center), radius, opacity, xpr.Vec3.of(self.color))


class Marbles(Balls):
    """A scene of `Marble`s."""

    def project(self, camera):
        return self.placed(camera, self.record(Marble))


class Flags(Whole):
    """A scene of `Flag`s."""

    logit_opacity: jax.Array

    def project(self, camera):
        return self.placed(camera, Flag(jax.nn.sigmoid(self.logit_opacity)))


def balls(kind, lens):
    case = scenes.case(lens)
    r = np.random.default_rng(500)
    return case._replace(
        scene=kind(
            center=case.scene.mean,
            log_radius=jnp.asarray(r.uniform(-1.5, -0.2, 12)),
            logit_opacity=case.scene.logit_opacity,
            color=jnp.asarray(r.uniform(0.1, 1, (12, 3))),
        )
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("kind", "lens"), [(Balls, "OpenCV"), (Marbles, "Pinhole")])
def test_a_splat_along_the_ray_has_exact_gradients(kind, lens):
    """Of its own parameters, and of pose, intrinsics and distortion through the rays."""
    case = balls(kind, lens)
    check(case)
    same(scenes.slopes(case), scenes.slopes(case, backend="reference"), 1e-10)


@pytest.mark.usefixtures("x64")
def test_the_last_layer_counts_where_a_method_says_so():
    """Marbles stop at 1e-3 after the layer that passes it; balls at 1e-4, before it."""
    case = balls(Marbles, "Pinhole")
    wall = case.scene.replace(
        logit_opacity=0 * case.scene.logit_opacity + 6, log_radius=case.scene.log_radius + 1
    )
    dark = case._replace(scene=wall)
    (_, output), _ = scenes.slopes(dark)
    left = 1 - output.alpha
    assert jnp.any((left > 0) & (left < 1e-4 * 1.01))
    check(dark)


@pytest.mark.parametrize("backend", ["cpu", "xla", "reference"])
def test_constants_of_a_class_are_channels_too(backend):
    """Python numbers in a hit are as good as arrays."""
    case = balls(Balls, "Pinhole")
    case = case._replace(scene=Flags(case.scene.center, jnp.linspace(-3.0, -1.0, 12)))
    output = scenes.shoot(case, backend=backend)
    left = (1 - output.alpha)[..., None]
    want = output.alpha[..., None] * jnp.array([1.0, 0.5, 0.25]) + left * case.background
    np.testing.assert_allclose(output.color, want, atol=1e-5)
    np.testing.assert_allclose(output.depth, 2 * output.alpha, atol=1e-5)
    assert 0.1 < output.alpha[0, 0] < 0.99


def test_a_record_with_a_vector_leaf_is_refused_by_name():
    class Bad(Flag):
        pair: jax.Array

    class Bads(Flags):
        def project(self, camera):
            return self.placed(camera, Bad(self.logit_opacity, self.center))

    case = balls(Balls, "Pinhole")
    case = case._replace(scene=Bads(case.scene.center, jnp.zeros(12)))
    with pytest.raises(TypeError, match=r"Bad\.pair has shape \(3,\), expected a scalar"):
        scenes.shoot(case)
