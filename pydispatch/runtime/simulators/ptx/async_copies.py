"""Asynchronous copies into shared memory that threads have begun and not waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.memory import Allocation


class _Copy:
    """Copy by some threads into one memory.

    Attributes:
        threads: Threads of the batch that are still to complete it, int64 [threads].
        groups: Index of the group of each thread that the copy belongs to, int64 [threads].
        memory: The memory to write.
        offsets: Where in it each thread writes, in bytes, int64 [threads].
        data: What each thread writes, uint8 [threads, bytes].
    """

    def __init__(self, threads: Any, groups: Any, memory: Allocation, offsets: Any, data: Any) -> None:
        self.threads, self.groups, self.memory, self.offsets, self.data = threads, groups, memory, offsets, data

    def complete(self, is_done: Any) -> None:
        """Write the bytes of the threads for which `is_done` holds, bool [threads], and leave the others pending."""
        columns = np.arange(self.data.shape[1])
        self.memory.data[self.offsets[is_done][:, None] + columns] = self.data[is_done]
        left = ~is_done
        self.threads, self.groups = self.threads[left], self.groups[left]
        self.offsets, self.data = self.offsets[left], self.data[left]


class AsyncCopies:
    """Pending copies of the threads of a batch, in the order in which they began.

    A thread's copies belong to its current group, which `commit` closes.
    """

    def __init__(self, thread_count: int) -> None:
        self._groups = np.zeros(thread_count, np.int64)  # index of the current group of each thread
        self._pending: list[_Copy] = []

    def begin(self, threads: Any, memory: Allocation, offsets: Any, data: Any) -> None:
        """Add a copy to the current groups of threads. Its bytes are written when the threads wait for the group.

        threads, offsets, data: as in `_Copy`.
        """
        self._pending.append(_Copy(threads, self._groups[threads], memory, offsets, data))

    def commit(self, threads: Any) -> None:
        """Close the current groups of threads."""
        self._groups[threads] += 1

    def wait(self, threads: Any, most_pending: int | None) -> None:
        """Write the bytes of the copies of threads, except those of their last `most_pending` closed groups and of
        their current groups.

        None: all copies, those of the current groups too.
        """
        first_pending = np.full(self._groups.size, -1, np.int64)  # of the threads that wait; -1 for others
        first_pending[threads] = (
            self._groups[threads] + 1 if most_pending is None else self._groups[threads] - most_pending
        )
        for copy in self._pending:
            copy.complete(copy.groups < first_pending[copy.threads])
        self._pending = [copy for copy in self._pending if copy.threads.size]
