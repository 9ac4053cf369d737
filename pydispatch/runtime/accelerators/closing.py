"""The end of a device: programs lose what they hold of it at once, and it is destroyed when no buffer is left."""

from __future__ import annotations

import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from pydispatch.errors import DeviceUnavailableError


class Releasable(Protocol):
    """Commands that were recorded over blocks."""

    def release(self) -> None:
        """Give back blocks and objects of the driver; the device is idle."""


class Closing:
    """A device that is destroyed after its last block. executors: of its programs. recordings: each live one.
    is_forked: whether it belongs to the parent of this process, where its driver has threads."""

    lock: Any
    name: str
    is_forked = False

    def __init__(self) -> None:
        _contexts.add(self)
        self.executors: weakref.WeakSet[Any] = weakref.WeakSet()
        self.recordings: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_over = self._is_destroyed = False

    def end(self) -> None:
        """Release what programs hold, and destroy the device as soon as it has no live block. It is idle and refuses
        work. Under the lock."""
        for executor in list(self.executors):
            executor.forget()
        for recorded in list(self.recordings):
            recorded.release()
        self._is_over = True
        self._destroy_if_unused()

    def release(self, block: Any) -> None:
        """See `Context.release`."""
        block.pool.release(block)
        if self._is_over:
            self._destroy_if_unused()

    def forget_locks(self) -> None:
        """Mark the object as forked and replace its lock, which a thread of the parent process may hold."""
        self.is_forked, self.lock = True, threading.RLock()

    def require_own(self) -> None:
        """DeviceUnavailableError in the child of a fork."""
        if self.is_forked:
            raise DeviceUnavailableError(
                f"{self.name} was opened before this process was forked, and cannot be used here; open it again with "
                "pydispatch.device(), or start processes with the method 'spawn'"
            )

    def _destroy_if_unused(self) -> None:
        if self.is_forked or not self.lock.acquire(blocking=False):
            return  # another thread holds a block that it releases later, or is here
        try:
            if not self._is_destroyed and all(pool.stats()["live_blocks"] == 0 for pool in self._pools()):
                self._is_destroyed = True
                self._destroy()
        finally:
            self.lock.release()

    @abstractmethod
    def _pools(self) -> Iterable[Any]:
        """Return the pools that allocate blocks."""

    @abstractmethod
    def _destroy(self) -> None:
        """Give everything back to the driver."""


_contexts: weakref.WeakSet[Closing] = weakref.WeakSet()


def _after_fork() -> None:
    for context in list(_contexts):
        context.forget_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
