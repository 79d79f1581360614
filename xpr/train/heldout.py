"""The pose of a held-out photo, fitted to a finished scene.

Refined training views fix a scene only up to a motion of the whole world and a scale: nobody can know
them, so that held-out views, whose poses are given in the old frame, look misplaced. The field's
practice (Lin et al. 2021, BARF) is to fit the six numbers of each such pose to the scene, held, before
the view is scored. It reads the very photo that is scored: the score is never that of a given pose.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from xpr.camera import Camera
from xpr.pipeline.capacity import Capacity, Overflow
from xpr.pipeline.render import render
from xpr.train import refine
from xpr.train.compiled import Compiled
from xpr.train.loss import photometric_loss
from xpr.train.photo import Photo
from xpr.train.refine import Correction, Place, Refinement
from xpr.train.reserve import grown
from xpr.train.strides import left, strides
from xpr.types import Array, Primitive

REACH = 0.1  # how far the steps of a fit can carry the picture, in its longer side
STEPS = 100  # of a fit, where the caller does not say
PLACE = Place(np.array(0, np.int32), np.array(0, np.int32))  # of the only photo


def fitted(
    scene: Primitive,
    photo: Photo,
    background: Array,
    *,
    extent: float,
    steps: int,
    capacity: Capacity,
) -> Camera:
    """The camera at the pose from which the scene looks most like the photo.

    Args:
      scene: [N] primitives, held.
      photo: with the pose to start from.
      background: [3].
      extent: of the dataset, world units.
      steps: of Adam, on the loss of training.
      capacity: of the renderer to start with; grows where a moved pose sees more.
    """
    state = refine.start(("poses",), [photo.camera])
    assert state is not None
    first = strides(("poses",), [photo.camera], extent, REACH, steps)
    size, done = jnp.float32(extent), 0
    while done < steps:
        share = left(jnp.float32(done), steps)
        stride = jax.tree.map(lambda x, share=share: x * share, first)
        moved, overflow = turn(scene, photo, state, stride, background, size, capacity=capacity)
        if bool(overflow.any):
            capacity = grown(capacity, [overflow])
            continue
        state, done = moved, done + 1
    camera = jax.tree.map(jnp.asarray, photo.camera)
    return jax.tree.map(np.asarray, refine.corrected(camera, state.correction, PLACE, size))


def _turn(
    scene: Primitive,
    photo: Photo,
    state: Refinement,
    stride: Correction,
    background: Array,
    extent: Array,
    *,
    capacity: Capacity,
) -> tuple[Refinement, Overflow]:
    """One step of the pose alone."""

    def loss(correction: Correction) -> tuple[Array, Overflow]:
        camera = refine.corrected(photo.camera, correction, PLACE, extent)
        output = render(scene, camera, capacity=capacity, background=background)
        difference = photometric_loss(output.color, photo.over(background), photo.mask)
        return difference, output.overflow

    slope, overflow = jax.grad(loss, has_aux=True)(state.correction)
    return refine.descend(state, slope, [PLACE], stride), overflow


turn = Compiled(_turn, static_argnames="capacity")  # once for each size and lens of the photos
