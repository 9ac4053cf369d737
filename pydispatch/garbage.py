"""Thresholds of Python's cyclic garbage collector during compilation, and the exit of a process without it."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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


class QuickExit:
    """Exit of this process that leaves its memory to the operating system instead of freeing each object.

    Freeing the objects of the compiler's modules takes 2 to 4 % of the time of a small compilation. Create this before
    other exit handlers are registered: Python joins threads first, and calls handlers in reverse order, so that the
    processes of LLVM have ended. It also raises the thresholds of the garbage collector, so it is only for processes
    that pydispatch owns. It skips the exit handlers and buffers of C, so set `status` only where no library of users
    was loaded.

    Attributes:
        status: The exit status; None exits as Python does.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        # The objects that a `rarely_collected` block leaves are not traversed after it, either.
        gc.set_threshold(*map(max, gc.get_threshold(), _RARE))
        atexit.register(self._exit)

    def _exit(self) -> None:
        """Write buffered output and end the process. Return if that fails, so that Python reports it."""
        gc.freeze()  # collects nothing when Python ends the process
        if self.status is None:
            return
        with suppress(OSError, ValueError, AttributeError):  # streams may be closed, or None
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.status)
