"""Closing of devices: programs release what they hold at once, and the device is destroyed with its last buffer."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from pydispatch._core.future import reset_in_child
from pydispatch.errors import DeviceUnavailableError


class Releasable(Protocol):
    """Recorded commands that hold blocks of device memory."""

    def release(self) -> None:
        """Release blocks and driver objects; the device is idle."""


class Closing:
    """Base class of devices. A device that the user has closed is destroyed when its last block of memory is released.

    A subclass's `close` refuses further work, calls `release_programs`, and calls `destroy_if_unused` once it has
    released the lock; `release` of the last block then calls `_destroy`. In the child of a fork, nothing is destroyed:
    the device belongs to the parent.

    Attributes:
        lock: Reentrant lock of the device.
        name: Name of the device, such as "vulkan:0".
        executors: Executors of its programs, which hold constants in device memory.
        recordings: Recorded commands (Releasable) that hold blocks of device memory.
        is_forked: Whether the device belongs to the parent process of a fork; its driver threads do not exist here.
    """

    lock: Any
    name: str
    is_forked = False

    def __init__(self) -> None:
        """Create an open device without programs, and register it for forked children, which replace its lock."""
        _contexts.add(self)
        self.executors: weakref.WeakSet[Any] = weakref.WeakSet()
        self.recordings: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_closed = False  # closed by the user
        self._is_destroyed = False
        self._may_be_unused = False  # whether a block was released after `destroy_if_unused` last counted live blocks

    def release_programs(self) -> None:
        """Release constants and recordings of the programs, and destroy the device if no block of memory is in use.

        If the user still has a buffer, the release of its block destroys the device later. The caller holds the lock;
        the device is idle and refuses work.
        """
        for executor in list(self.executors):
            executor.forget()
        for recorded in list(self.recordings):
            recorded.release()
        self._is_closed = True
        self.destroy_if_unused()

    def release(self, block: Any) -> None:
        """Release a block of memory. If the device is closed and this was its last block, destroy the device."""
        block.pool.release(block)
        if self._is_closed:
            self.destroy_if_unused()

    def forget_locks(self) -> None:
        """Mark the device as forked and replace its lock, which a thread of the parent process may have held."""
        self.is_forked, self.lock = True, threading.RLock()

    def require_own_process(self) -> None:
        """Raise DeviceUnavailableError in a forked child process."""
        if self.is_forked:
            raise DeviceUnavailableError(
                f"{self.name} was opened before this process was forked, and cannot be used here; open it again with "
                "pydispatch.device(), or start processes with the method 'spawn'"
            )

    def destroy_if_unused(self) -> None:
        """Destroy the closed device unless one of its blocks is in use."""
        if self.is_forked:  # the objects of the driver belong to the parent process
            return
        self._may_be_unused = True
        # A release of memory must not wait for the lock. If another thread holds the lock, leave the check to that
        # thread: it makes the check in this loop, at the end of `close`, or when it releases a block itself.
        while self._may_be_unused and self.lock.acquire(blocking=False):
            try:
                self._may_be_unused = False
                if not self._is_destroyed and all(pool.stats()["live_blocks"] == 0 for pool in self._pools()):
                    self._is_destroyed = True
                    self._destroy()
            finally:
                self.lock.release()

    @abstractmethod
    def _pools(self) -> Iterable[Any]:
        """Return the pools that allocate blocks; `stats()` of each counts "live_blocks", those in use."""

    @abstractmethod
    def _destroy(self) -> None:
        """Return all memory and objects to the driver."""


_contexts: weakref.WeakSet[Closing] = weakref.WeakSet()
"""Open devices of this process; a forked child replaces their locks."""


def _after_fork() -> None:
    """Replace the locks of all devices in a forked child, whose other threads are gone."""
    for context in list(_contexts):
        context.forget_locks()


reset_in_child(_after_fork)
