"""Python's search for garbage in cycles, while a program is compiled."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = (5_000_000, 50, 100)
_lock = threading.Lock()
_users = 0
_before = (0, 0, 0)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """In the block, of any thread, garbage is hardly looked for: a compiler makes graphs of many objects, nearly all of
    which live until its end, so that a search takes long and finds a few MiB. A model of 50 layers has less than a
    million objects."""
    global _users, _before
    with _lock:
        if _users == 0:
            _before = gc.get_threshold()
            if _before[0]:  # 0: the caller has turned it off
                gc.set_threshold(*map(max, _before, _RARE))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                gc.set_threshold(*_before)


def none_at_exit() -> None:
    """For a process that is ours: its end looks for no garbage, also not for that of modules, which are many."""
    gc.set_threshold(*map(max, gc.get_threshold(), _RARE))  # what a block has left is not looked through after it
    atexit.register(gc.freeze)
