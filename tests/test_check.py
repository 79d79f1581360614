"""`xpr check` passes the examples, and says of a broken primitive what is wrong with it."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import xpr
from xpr import methods
from xpr.check import PARTS, attempt, bench, check
from xpr.cli import main
from xpr.world.dataset import write_dataset

ROOT = Path(__file__).parents[1]
Sphere = methods.load(str(ROOT / "examples/sphere.py"))


EXAMPLES = [f"examples/{name}.py" for name in ("sphere", "disc", "beta")]
BUILTIN = ["3dgut", "linprim", "linprim-tetrahedron"]  # 3DGS has tests of its own


@pytest.mark.parametrize("spec", [*EXAMPLES, *BUILTIN])
def test_examples_and_methods_keep_every_promise(spec):
    found = check(methods.load(str(ROOT / spec) if spec in EXAMPLES else spec))
    assert not {f.claim: f.problem for f in found if f.problem is not None}


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_has_under_ninety_lines(file):
    assert len((ROOT / file).read_text().splitlines()) < 90


def part(words):
    return next(found for claim, found in PARTS.items() if words in claim)


class Tight(Sphere):
    """A quarter of the box that it needs."""

    def project(self, camera):
        found = super().project(camera)
        return found._replace(extent=0.25 * found.extent)


class Frozen(Sphere):
    """A gradient that is half lost."""

    def project(self, camera):
        half = 0.5 * self.mean
        frozen = self.replace(mean=half + jax.lax.stop_gradient(half))
        return super(Frozen, frozen).project(camera)


class Stopped(Sphere):
    """A gradient that is lost altogether."""

    def project(self, camera):
        stopped = self.replace(log_scale=jax.lax.stop_gradient(self.log_scale))
        return super(Stopped, stopped).project(camera)


class PointedSplat(xpr.Splat):
    """Its alpha falls with the distance itself, whose slope at zero is not finite."""

    center: xpr.Vec3
    color: xpr.Vec3

    def evaluate(self, ray):
        across = (ray.origin - self.center).cross(ray.direction)
        return xpr.Hit(jnp.exp(-5 * jnp.sqrt(across.dot(across))), self.color)


class Pointed(Sphere):
    """NaN at the centre."""

    def project(self, camera):
        splat = PointedSplat(xpr.Vec3.of(self.mean), xpr.Vec3.of(self.color))
        return super().project(camera)._replace(splat=splat)


class Swollen(Sphere):
    """Its size is not what it was asked for."""

    def reshaped(self, opacity, shrink):
        return super().reshaped(opacity, 2 * shrink)


class Wild(Sphere):
    """Rates a thousand times too large."""

    @classmethod
    def learning_rates(cls, extent):
        return jax.tree.map(lambda rate: 1000 * rate, super().learning_rates(extent))


class Nested(Sphere):
    """A field that is a tree of its own."""

    extra: dict

    @classmethod
    def from_points(cls, points, colors, spacing, *, key, sh_degree=3):
        sphere = Sphere.from_points(points, colors, spacing, key=key)
        return cls(*jax.tree.leaves(sphere), extra={"a": spacing})

    @classmethod
    def learning_rates(cls, extent):
        return cls(*jax.tree.leaves(Sphere.learning_rates(extent)), extra={"a": 0.0})


class Level(Sphere):
    """All of one depth: nothing tells which is in front."""

    def project(self, camera):
        found = super().project(camera)
        return found._replace(depth=jnp.ones_like(found.depth))


@pytest.mark.parametrize(
    "method, words, told",
    [
        (Tight, "in the box", "Return a larger extent"),
        (Frozen, "finite differences", "the gradient of 'mean'"),
        (
            Stopped,
            "finite differences",
            "the gradient of 'log_scale' along a random direction is 0",
        ),
        (Pointed, "very centre", "is not finite where a ray meets the very centre"),
        (Nested, "survives", "extra"),
        (Wild, "lower the loss", "Rates too large"),
        (Swollen, "density control", "changes mass().scale"),
        (Level, "order", "The depth that project() returns"),
    ],
)
def test_a_broken_promise_is_told_with_its_remedy(method, words, told):
    with jax.enable_x64(True):
        assert told in (attempt(method, lambda: part(words)(bench(method))) or "kept")


class Row(xpr.Splat):
    """Its leaf is no scalar."""

    color: jax.Array

    def evaluate(self, ray):
        return xpr.Hit(0.5 + 0 * ray.pixel.x, xpr.Vec3.of(self.color))


class Wide(Sphere):
    """A record that no kernel can load."""

    def project(self, camera):
        return super().project(camera)._replace(splat=Row(self.color))


class Branching(Sphere):
    """A Python branch on an array."""

    def project(self, camera):
        return super().project(camera) if self.log_scale < 1 else None


class Unlike(Sphere):
    """A parameter that the default start does not know."""

    shape: jax.Array


@pytest.mark.parametrize(
    "method, told",
    [
        (Wide, "Row.color has shape .3,., expected a scalar"),
        (Branching, r"project\(\) at test_check.py:\d+: it needs the value of an array"),
        (Unlike, r"from_points\(\) does not know its field 'shape'. Define Unlike.from_points\(\)"),
    ],
)
def test_what_makes_the_rest_pointless_ends_the_check(method, told):
    *_, last = check(method)
    assert re.search(told, last.problem or "kept")


def test_methods_are_listed_with_their_fields(capsys):
    assert main(["methods"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in methods.BUILTIN)


GUIDE = (ROOT / "docs/write-a-method.md").read_text()


def test_the_guide_is_the_example():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    example = (ROOT / "examples/sphere.py").read_text()
    code = [line for block in blocks for line in block.splitlines() if line]
    assert code == [line for line in example[example.index("import jax\n") :].splitlines() if line]


def test_the_guide_s_commands_run(tmp_path, capsys):
    """On a small world and for two steps; what `xpr check` says of the sphere is tested above."""
    shell = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    commands = [line.split() for block in shell for line in block.splitlines()]
    assert [c[:2] for c in commands] == [["xpr", c] for c in ("check", "train", "eval", "methods")]
    here = {
        "DATA": str(write_dataset(tmp_path / "photos", views=9, size=16)),
        "./examples/sphere.py": str(ROOT / "examples/sphere.py"),
        "200": "2",
        "spheres": str(tmp_path / "spheres"),
    }
    for command in commands[1:]:
        assert main([here.get(word, word) for word in command[1:]]) == 0
    assert "Sphere" in (tmp_path / "spheres/point_cloud.ply").read_bytes().decode("latin1")
