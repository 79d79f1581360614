"""The portable backend compiles for machines that are not at hand."""

import jax
import pytest
import scenes


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
