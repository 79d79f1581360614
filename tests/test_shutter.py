"""Rolling shutters: every line from its own pose, with exact gradients of both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from test_render_gradients import check
from test_render_plugins import Balls, balls

import xpr
from xpr.math import rotation_exp
from xpr.shutter import ORDERS, Sweep

HEIGHT, WIDTH = scenes.HEIGHT, scenes.WIDTH


def rolling(camera, shutter="top_to_bottom", turn=(0.05, -0.08, 0.1), shift=(0.2, -0.1, 0.15)):
    """The camera with an end pose some degrees and some tenths away."""
    end = camera.viewmat.at[:3, :3].set(rotation_exp(jnp.asarray(turn)) @ camera.viewmat[:3, :3])
    return camera.replace(viewmat_end=end.at[:3, 3].add(jnp.asarray(shift)), shutter=shutter)


@pytest.mark.parametrize(
    ("method", "lens", "shutter"),
    [
        ("3dgs", "OpenCV", "top_to_bottom"),
        ("3dgut", "OpenCVFisheye", "left_to_right"),
        ("linprim", "Pinhole", "bottom_to_top"),
    ],
)
def test_every_gradient_through_a_rolling_shutter_is_the_finite_difference(
    method, lens, shutter, x64
):
    """Both poses, intrinsics, distortion and the scene."""
    case = scenes.case(lens)
    scene = scenes.like(case.scene, method)
    check(case._replace(scene=scene, camera=rolling(case.camera, shutter)), held={"scene.filter"})


def test_the_way_of_a_point_is_that_of_the_pose(x64):
    camera, point = rolling(scenes.view()), scenes.gaussians().mean[0]
    path = Sweep.between(camera.viewmat, camera.viewmat_end).path(point)
    for time in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(path(time), camera.at(time).to_camera(point), atol=1e-12)


@pytest.mark.parametrize("shutter", ORDERS)
def test_a_line_looks_from_the_pose_at_its_moment(shutter, x64):
    """The first line from the start pose, the last from the end pose, the middle from half way."""
    camera = rolling(scenes.view(), shutter)
    ends = [camera.at(time) for time in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(ends[2].viewmat, camera.viewmat_end, atol=1e-12)
    across, downwards = {"top": (False, True), "bot": (False, False), "lef": (True, True),
                         "rig": (True, False)}[shutter[:3]]  # fmt: skip
    last = WIDTH - 1 if across else HEIGHT - 1
    for share, frozen in zip((0, 0.5, 1), ends, strict=True):
        line = (share if downwards else 1 - share) * last
        if line == int(line):
            pixel = jnp.array([line + 0.5, 3.5] if across else [3.5, line + 0.5])
            ours, same = camera.rays(pixel[None]), frozen.rays(pixel[None])
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(same), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("lens", ["Pinhole", "OpenCVFisheye"])
def test_a_point_lands_on_the_line_that_sees_it(lens, x64):
    """The ray of its pixel passes through it, up to the motion within one line."""
    camera = rolling(scenes.view(lens))
    points = scenes.case(lens).scene.mean

    @functools.partial(jax.jit, compiler_options=scenes.QUICK)
    def gap(point):
        pixel = camera.to_pixel(camera.to_camera(point))
        ray = camera.rays(pixel[None])
        origin, direction = (jnp.stack(list(v), axis=-1)[0] for v in (ray.origin, ray.direction))
        inside = (pixel[1] > 0) & (pixel[1] < HEIGHT)
        return jnp.where(inside, jnp.linalg.norm(jnp.cross(point - origin, direction)), -1)

    gaps = np.array([gap(point) for point in points])
    assert (gaps >= 0).sum() > 6 and gaps.max() < 0.04


def test_a_shutter_that_does_not_move_is_a_global_one():
    for case in (scenes.case(), balls(Balls, "Pinhole")):
        still = case.camera.replace(viewmat_end=case.camera.viewmat, shutter="left_to_right")
        found, want = scenes.shoot(case._replace(camera=still)), scenes.shoot(case)
        np.testing.assert_allclose(found.color, want.color, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shutter": "sideways"}, r"'sideways', expected one of global, top_to_bottom"),
        ({"shutter": "top_to_bottom"}, r"with no viewmat_end"),
        ({"viewmat_end": jnp.eye(4)}, r"'global' with a viewmat_end"),
        (
            {"viewmat_end": jnp.eye(3), "shutter": "top_to_bottom"},
            r"viewmat_end has shape \(3, 3\)",
        ),
    ],
)
def test_half_a_shutter_is_refused(change, expected):
    case = scenes.case()
    with pytest.raises(xpr.UserError, match=expected):
        xpr.render(case.scene, case.camera.replace(**change))


def work(case, names):
    """How many equations the gradient of some inputs has, and how many arrays its loops carry."""

    def loss(inputs):
        return scenes.loss(case._replace(**inputs), "xla", scenes.SETTINGS)[0]

    equations = carried = 0
    pending = [jax.make_jaxpr(jax.grad(loss))({name: getattr(case, name) for name in names}).jaxpr]
    while pending:
        jaxpr = pending.pop()
        equations += len(jaxpr.eqns)
        for equation in jaxpr.eqns:
            carried += len(equation.outvars) * (equation.primitive.name == "while")
            for value in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    pending.append(inner)
    return equations, carried


def test_a_gradient_of_the_scene_alone_has_no_camera_part():
    """Fewer equations for any method; for one along the ray its loop carries no ray's cotangent."""
    for case, rays in ((scenes.case("OpenCV"), 0), (balls(Balls, "OpenCV"), 6)):
        alone, both = work(case, ["scene"]), work(case, ["scene", "camera"])
        assert alone[0] < both[0] - 400
        assert both[1] - alone[1] == rays * scenes.SETTINGS.loops
