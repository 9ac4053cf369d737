"""Asynchronous copies into shared memory that threads have begun and not waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.memory import Allocation


class _Copy:
    """Copy that some threads have begun with one cp.async, into one memory.

    Attributes:
        threads: Indices in the batch of the threads whose bytes are not written yet, int64 [threads].
        groups: Index of the thread's cp.async group that the copy belongs to, int64 [threads].
        memory: The memory to write: the shared memory of the batch.
        offsets: Offset in it at which each thread writes, in bytes, int64 [threads].
        data: The bytes that each thread writes, uint8 [threads, bytes], read when the copy began.
    """

    def __init__(self, threads: Any, groups: Any, memory: Allocation, offsets: Any, data: Any) -> None:
        """Record a copy that has begun. For the arguments see the attributes of the class."""
        self.threads, self.groups, self.memory, self.offsets, self.data = threads, groups, memory, offsets, data

    def complete(self, is_done: Any) -> None:
        """Write the bytes of the threads for which `is_done` holds, bool [threads], and leave the others pending."""
        byte_numbers = np.arange(self.data.shape[1])
        self.memory.data[self.offsets[is_done][:, None] + byte_numbers] = self.data[is_done]
        is_pending = ~is_done
        self.threads, self.groups = self.threads[is_pending], self.groups[is_pending]
        self.offsets, self.data = self.offsets[is_pending], self.data[is_pending]


class AsyncCopies:
    """Pending copies of the threads of a batch, in the order in which they began.

    Each thread numbers its groups of copies from 0. A copy belongs to the current group of its thread, which `commit`
    (cp.async.commit_group) closes. Threads are given by their indices in the batch, int64 [threads].
    """

    def __init__(self, thread_count: int) -> None:
        """Begin without pending copies, with group 0 as the current one of each thread."""
        self._groups = np.zeros(thread_count, np.int64)  # index of the current group of each thread
        self._pending: list[_Copy] = []

    def begin(self, threads: Any, memory: Allocation, offsets: Any, data: Any) -> None:
        """Add a copy to the current groups of threads. Its bytes are written when the threads wait for the group.

        threads, offsets, data: as in `_Copy`.
        """
        self._pending.append(_Copy(threads, self._groups[threads], memory, offsets, data))

    def commit(self, threads: Any) -> None:
        """Close the current groups of threads: their next copies belong to new groups."""
        self._groups[threads] += 1

    def wait(self, threads: Any, most_pending: int | None) -> None:
        """Write the bytes of pending copies, except those of each thread's last `most_pending` closed groups and of its
        current group.

        A thread closes a group of copies by a `commit`; the copies since then are its current group. A thread that has
        begun the copies c0, c1 and c2 with a `commit` after c0 and after c1 is in group 2. With `most_pending` 1, c0 is
        written; with 0, c0 and c1.

        Args:
            threads: The threads that wait.
            most_pending: Operand of cp.async.wait_group: how many closed groups of a thread may stay pending. None (for
                wait_all): all copies are written, those of the current groups too.
        """
        # For each thread of the batch: the index of the first group that stays pending. A thread that does not wait has
        # -1, so that all of its groups stay pending.
        first_pending = np.full(self._groups.size, -1, np.int64)
        current_groups = self._groups[threads]
        first_pending[threads] = current_groups + 1 if most_pending is None else current_groups - most_pending
        for copy in self._pending:
            # Write the bytes of these threads, which `complete` then removes from the copy.
            copy.complete(copy.groups < first_pending[copy.threads])
        self._pending = [copy for copy in self._pending if copy.threads.size]
