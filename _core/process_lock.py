"""Locks that are free in the child of a fork."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import RLock

_locks: weakref.WeakSet[RLock] = weakref.WeakSet()


def process_lock() -> RLock:
    """Return a new reentrant lock that is free in the child of a fork.

    Another thread of the parent may hold it at the fork. That thread does not exist in the child, where it would hold
    the lock for ever.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _after_fork() -> None:
    """Release the locks that other threads of the parent held, in the child of a fork."""
    for lock in list(_locks):
        if not lock._is_owned():  # type: ignore[attr-defined]
            lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
