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
"""Least thresholds of the three generations, as for `gc.set_threshold`. Lower ones collect during compilation."""
_lock = threading.Lock()
"""Held while `_users` and the collector's thresholds change."""
_users = 0
"""Number of `rarely_collected` blocks that threads are in. The first one to begin raises the thresholds, and the last
one to end restores them."""
_before = (0, 0, 0)
"""Thresholds before the first of these blocks, which the last one restores."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Raise the thresholds of the cyclic garbage collector inside the block, for all threads.

    The compiler creates graphs of many objects, and nearly all of them live until its end: collections take long and
    free only a few MiB. The thresholds allow five million objects before a collection; a model of 50 layers has less
    than a million. Blocks may be nested and may overlap.
    """
    global _users, _before
    with _lock:  # the first block saves the thresholds and raises them, the last one to end restores them
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
    other exit handlers are registered. Python joins threads and then calls the handlers in reverse order, so this one
    runs last, after the handler that ends the child processes in which LLVM runs. It also raises the thresholds of the
    garbage collector, so it is only for processes that pydispatch owns. It skips the exit handlers and buffers of C, so
    set `status` only where no library of users was loaded.

    Attributes:
        status: Exit status of the quick exit; None, the default, lets Python exit as usual.
    """

    def __init__(self) -> None:
        """Raise the thresholds of the garbage collector, and register `_exit` to run when Python exits."""
        self.status: int | None = None
        # A `rarely_collected` block restores the thresholds from before it. These are high now, so the collector does
        # not traverse the objects of a compilation after the block either.
        gc.set_threshold(*map(max, gc.get_threshold(), _RARE))
        atexit.register(self._exit)

    def _exit(self) -> None:
        """Write buffered output and end the process with `status`; return if that is None.

        Return also if the output cannot be written, so that Python reports it.
        """
        gc.freeze()  # if Python ends the process, its last collection traverses nothing
        if self.status is None:
            return
        with suppress(OSError, ValueError, AttributeError):  # streams may be closed, or None
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.status)
