"""Thresholds of Python's cyclic garbage collector during compilation."""

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
    """Raise the thresholds of the cyclic garbage collector inside the block, for all threads.

    The compiler creates graphs of many objects, and nearly all of them live until its end: collections take long and
    free only a few MiB. A model of 50 layers has less than a million objects.
    """
    global _users, _before
    with _lock:
        if _users == 0:
            _before = gc.get_threshold()
            if _before[0]:  # 0: the caller has disabled it
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
    """Skip garbage collection at the exit of this process, which would traverse the many objects of modules.

    It also raises the collector's thresholds, so it is only for processes that pydispatch owns.
    """
    gc.set_threshold(*map(max, gc.get_threshold(), _RARE))  # what a block has left is not looked through after it
    atexit.register(gc.freeze)
