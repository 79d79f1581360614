"""Photos decoded ahead of the step that needs them, in an order that can be resumed."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import grain
import numpy as np

from xpr.camera import Camera
from xpr.data.dataset import View
from xpr.errors import UserError

READ_AHEAD = 8  # photos decoded beyond the one in use
THREADS = min(4, os.cpu_count() or 1)


@dataclasses.dataclass(frozen=True)
class Item:
    """One photo to train on.

    Attributes:
      index: of its view, as given to `Feed`.
      camera: numpy leaves.
      image: uint8 [H, W, 3], or [H, W, 4] with straight alpha.
      mask: bool [H, W], False where a pixel is to be ignored; None without.
    """

    index: int
    camera: Camera
    image: np.ndarray
    mask: np.ndarray | None


class Feed:
    """An endless, shuffled stream of photos: every epoch visits each once, in a new order.

    The order depends on the seed alone, not on time or on threads.

    Attributes:
      waited: seconds spent waiting in `__next__`, in total.
      cached_bytes: size of the decoded photos that are kept.
    """

    def __init__(self, views: Sequence[View], *, seed: int, cache_bytes: int = 2 << 30):
        """Start reading ahead on the first `next`.

        Args:
          views: at least one.
          seed: 0 or more.
          cache_bytes: how much of the decoded photos to keep; the rest is decoded each time.

        Raises:
          UserError: no views.
        """
        if not views:
            raise UserError("a feed of no views; at least one training view is needed.")
        self.waited = 0.0
        self._identity = {"seed": seed, "views": len(views)}
        self._decoded = _DecodedPhotos(views, cache_bytes)
        # grain adds the epoch to its seed; a hash keeps neighbouring seeds apart.
        spread = int(np.random.SeedSequence(seed).generate_state(1)[0])
        order = grain.MapDataset.range(len(views)).shuffle(seed=spread).repeat()
        ahead = grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=READ_AHEAD)
        self._items = iter(order.map(self._decoded.item).to_iter_dataset(ahead))

    @property
    def cached_bytes(self) -> int:
        """Size of the decoded photos that are kept."""
        return self._decoded.used

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> Item:
        """The next photo.

        Raises:
          DataError: it cannot be decoded.
        """
        start = time.perf_counter()
        try:
            return next(self._items)
        finally:
            self.waited += time.perf_counter() - start

    def state(self) -> dict[str, Any]:
        """Where the stream stands, fit for JSON."""
        return {**self._identity, "order": self._items.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken.

        Raises:
          UserError: the state of another seed or of another number of views, or a damaged one.
        """
        identity = {key: state.get(key) for key in self._identity}
        if identity != self._identity:
            raise UserError(
                f"the saved input order belongs to {identity!s:.80}, expected {self._identity}. "
                "Resume with the same data and the same seed."
            )
        order = state.get("order")
        place = order.get("next_index") if isinstance(order, dict) else None
        if type(place) is not int or not 0 <= place <= sys.maxsize:
            raise UserError(
                f"the saved input order stands at {order!r:.80}, expected a next_index of 0 or "
                "more: the checkpoint is damaged."
            )
        self._items.set_state({"next_index": place})

    def close(self) -> None:
        """Stop reading ahead. The feed gives nothing more."""
        self._items.close()


class _DecodedPhotos:
    """Decodes views, and keeps the first ones that fit.

    Every epoch visits each photo once, so none deserves its place more than another.
    """

    def __init__(self, views: Sequence[View], limit: int):
        self.views = views
        self.limit = limit
        self.used = 0
        self.kept: dict[int, Item] = {}
        self.lock = threading.Lock()

    def item(self, index: int) -> Item:
        """The decoded photo of one view. Called from several threads."""
        if index in self.kept:
            return self.kept[index]
        view = self.views[index]
        item = Item(int(index), view.camera, view.image(), view.mask())
        size = item.image.nbytes + (0 if item.mask is None else item.mask.nbytes)
        with self.lock:
            if index not in self.kept and self.used + size <= self.limit:
                self.kept[index] = item
                self.used += size
        return item
