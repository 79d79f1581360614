"""The portable backend compiles for machines that are not at hand."""

import jax
import numpy as np
import pytest
import scenes
from training_scenes import QUICK, SIZE, blobs, looking_in

from xpr.pipeline.capacity import Capacity
from xpr.train.photo import Photo
from xpr.train.state import TrainState
from xpr.train.step import Recipe, step


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_forward_and_backward_lower_for_every_platform(platform):
    traced = scenes.jit_slopes.trace(scenes.case(), "xla", scenes.SETTINGS)
    assert "stablehlo.while" in traced.lower(lowering_platforms=(platform,)).as_text()
    traced = scenes.jit_draw.trace(
        scenes.case("OpenCV"), None, "xla", scenes.SETTINGS, scenes.CAPACITY
    )
    assert "stablehlo.while" in traced.lower(lowering_platforms=(platform,)).as_text()


def test_a_render_can_be_exported_for_all_platforms_at_once():
    case = scenes.case()

    def color(case):
        return scenes.draw(case, None, "xla", scenes.SETTINGS, scenes.CAPACITY).color

    exported = jax.export.export(jax.jit(color), platforms=("cpu", "cuda", "rocm", "tpu"))(case)
    assert exported.out_avals[0].shape == (15, 20, 3)


def test_a_whole_training_step_lowers_for_tpus(monkeypatch):
    """Render, loss, descent, density control and noise, as a machine with a TPU chooses them."""
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    scene = blobs()
    state = TrainState.start(scene, QUICK.cap, jax.random.key(0))
    photo = Photo(looking_in(0.4), np.zeros((SIZE, SIZE, 3), np.uint8))
    recipe = Recipe.of(QUICK, scene, 3.0)
    traced = jax.jit(step, static_argnames="capacity").trace(
        state, (photo,), recipe, capacity=Capacity(128, 1024)
    )
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.while" in text and "custom_call @xpr" not in text
