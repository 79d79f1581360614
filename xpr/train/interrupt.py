"""Ctrl-C between two steps, never inside one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Hold back Ctrl-C within the block; gives a function that says whether it was pressed.

    A second Ctrl-C interrupts at once. Outside the main thread nothing is held back.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            signal.default_int_handler(number, frame)
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
