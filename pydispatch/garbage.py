"""Python's search for garbage in cycles, while a program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = (100_000, 50, 100)
_lock = threading.Lock()
_users = 0
_before = (0, 0, 0)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """In the block, of any thread, garbage is looked for a hundred times less often: a compiler makes graphs of many
    objects, nearly all of which live until its end, and the search takes a fifth of its time."""
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
