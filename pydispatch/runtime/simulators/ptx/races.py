"""Data races: two threads access a byte, at least one writes, and nothing orders the accesses. For each granule, a few
bytes of memory (4 if all accesses so far are aligned words), the detector records the last accesses, and compares each
new access with them.

Barriers order accesses of a block: bar.sync those of all threads, bar.warp.sync those of a warp. Nothing orders
accesses of different blocks except a fence: those of a block before its `membar.gl` or `fence.…gpu` count as ordered.
Atomic, volatile and acquire/release accesses ("strong") do not race with each other. Accesses of one instruction are
compared, too.

Memory is divided into granules. The table of an allocation has the last writer and up to three last readers of each
granule. Granules are as large as all accesses so far allow: 4 bytes if all accessed whole words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.memory import Allocation, MemoryAccess
from pydispatch.runtime.simulators.ptx.threads import Launched, coordinates

_SHOWN_RACES = 8
"""Races that the message lists, and that one instruction records; all others are counted only."""

_GRANULE_BYTES = 16
"""Bytes of a granule at first, as many as the widest access has. Narrower accesses divide it."""

_ACCESS = np.dtype(
    [
        ("thread", "i8"),  # index of the thread in the launch, plus 1; 0: no access yet
        ("barriers", "i4"),  # barriers that its block had passed before
        ("warp_syncs", "i4"),  # how often the threads of its warp had met at bar.warp.sync before
        ("fences", "i4"),  # fences that its block had passed before
        ("line", "i4"),  # line of the instruction
        ("strong", "?"),  # the access is atomic, volatile, acquire or release
    ]
)
"""Access to a granule by one thread. It is all zeros before the first access, so that the operating system need not
provide memory for tables of large allocations of which threads access little."""


class RacingAccess(NamedTuple):
    """Access that takes part in a data race.

    Attributes:
        line: Line of the instruction in the text.
        is_write: Whether it writes.
        thread: Index of the thread in the launch.
    """

    line: int
    is_write: bool
    thread: int


@dataclass(frozen=True)
class Race:
    """Data race: two unordered accesses to the same memory.

    Attributes:
        first, second: The accesses, in the order in which they were simulated.
        where: The accessed byte, as in "byte 4 of shared 'tile'".
    """

    first: RacingAccess
    second: RacingAccess
    where: str


class _Table:
    """The last accesses to an allocation: the last writer and the last readers of each granule of it.

    Attributes:
        granule_bytes: Bytes of a granule: a power of two that divides the offset and the size of every access so far.
        writer: Last write of each granule, an array of `_ACCESS`.
        readers: Three arrays of `_ACCESS`, each with one read of each granule: the last read; the last one by another
            thread in an earlier instruction; and one by another thread of the last instruction with which several
            threads read the granule.
    """

    def __init__(self, size: int) -> None:
        """Begin without accesses to an allocation of `size` bytes, in the largest granules."""
        self.granule_bytes = _GRANULE_BYTES
        count = -(-size // _GRANULE_BYTES)
        self.writer = np.zeros(count, _ACCESS)
        self.readers = tuple(np.zeros(count, _ACCESS) for _ in range(3))

    def refine_granules_for(self, offsets: Any, size: int) -> None:
        """Make granules as small as accesses of `size` bytes at byte `offsets` (an array) need."""
        all_bits = int(np.bitwise_or.reduce(offsets)) | size | self.granule_bytes
        granule_bytes = all_bits & -all_bits  # the lowest bit set: the largest power of two that divides all of them
        if granule_bytes < self.granule_bytes:
            ratio = self.granule_bytes // granule_bytes
            self.writer = np.repeat(self.writer, ratio)
            self.readers = tuple(np.repeat(reads, ratio) for reads in self.readers)
            self.granule_bytes = granule_bytes

    def add_reads(self, reads: Any, granules: Any) -> None:
        """Make `reads` the last reads of `granules`, and retain one read by another thread in the other two arrays.

        If the last reader writes later, it does not race with its own read, but with one of another thread.

        Example:
            Thread 1 has read granule 5, and now threads 7, 8 and 9 read it. The last read becomes that of thread 9, the
            earlier one that of thread 1, and the simultaneous one that of thread 7.

        Args:
            reads: The read of each thread, an array of `_ACCESS`.
            granules: Index of the granule that each thread reads, int64 [n].
        """
        last, earlier, simultaneous = self.readers
        is_other_thread = last["thread"][granules] != reads["thread"]
        earlier[granules[is_other_thread]] = last[granules[is_other_thread]]
        last[granules] = reads
        # Of several threads that read a granule now, `last` has the last one. Of the others, `simultaneous` gets the
        # first one: if any of them is in another warp or block than the last one, the first one is. NumPy assigns in
        # order, so that in the reversed arrays the first thread is assigned last, and remains.
        is_overwritten = last["thread"][granules] != reads["thread"]
        simultaneous[granules[is_overwritten][::-1]] = reads[is_overwritten][::-1]


class RaceDetector:
    """Race detection during one launch.

    The simulator calls `access`, `fence` and `warp_sync` in the order in which it runs instructions; each access is
    compared with earlier ones. `finish` ends the launch, and raises KernelError if accesses raced.
    """

    def __init__(self, launch: Launched) -> None:
        """Create the detector of a launch, in which no thread has accessed memory yet."""
        self._launch = launch
        # id() of an allocation → (the allocation, the last accesses of its bytes).
        self._tables: dict[int, tuple[Allocation, _Table]] = {}
        self._races: dict[tuple[int, int], Race] = {}  # lines of the two accesses → the first race between them
        self._count = 0  # number of races, including those that are not recorded
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        self._fences = np.zeros(total, np.int64)  # of each block, how many fences it has passed
        self._warps_per_block = -(-launch.threads // 32)
        self._warp_syncs: dict[int, int] = {}  # index of a warp in the launch → how often its threads have met

    def fence(self, frame: Frame) -> None:
        """Record a fence, after which earlier accesses of the frame's blocks count as ordered."""
        np.add.at(self._fences, np.unique(self._blocks(frame, frame.threads)), 1)

    def warp_sync(self, frame: Frame) -> None:
        """Record that the warps of the frame have met, after which their earlier accesses count as ordered."""
        threads = self._threads(frame, frame.threads)
        for warp in np.unique(self._warp(threads)):
            self._warp_syncs[int(warp)] = self._warp_syncs.get(int(warp), 0) + 1

    def _blocks(self, frame: Frame, threads: Any) -> Any:
        """Return the block of each thread, as an index in the launch. threads: indices in the frame's batch."""
        first_block = frame.batch.first
        return first_block + threads // frame.batch.threads_per_block

    def _threads(self, frame: Frame, threads: Any) -> Any:
        """Return the index in the launch of each thread. threads: indices in the frame's batch."""
        return frame.batch.first * frame.batch.threads_per_block + threads

    def _warp(self, threads: Any) -> Any:
        """Return the index in the launch of the warp of each thread. threads: indices in the launch."""
        threads_per_block = self._launch.threads
        return threads // threads_per_block * self._warps_per_block + threads % threads_per_block // 32

    def access(
        self, frame: Frame, instruction: Instruction, access: MemoryAccess, size: int, write: bool, strong: bool
    ) -> None:
        """Check an access by the threads of a frame against earlier ones, and record it.

        Memory is divided into granules of equal size, 4 bytes if all accesses so far are aligned words. The table of an
        allocation has the last writer and some last readers of each granule.

        Args:
            frame: The threads that run.
            instruction: The instruction that accesses memory.
            access: The allocation, and the byte offset of each thread in it.
            size: Bytes that each thread accesses.
            write: Whether the access is a write.
            strong: Whether it is atomic, volatile, acquire or release.
        """
        allocation = access.memory
        if allocation.kind in ("const", "local"):  # read-only, or private to each thread
            return
        now = self._accesses_now(frame, access.select_threads(frame.threads), instruction, strong)
        table = self._table(allocation)
        table.refine_granules_for(access.offsets, size)
        first_granules = access.offsets // table.granule_bytes
        for index in range(size // table.granule_bytes):
            granules = first_granules + index
            if write:
                self._check_write(now, allocation, granules, table, strong)
                table.writer[granules] = now
            else:
                self._check(
                    table.writer[granules], now, allocation, granules, table.granule_bytes,
                    first_writes=True, second_writes=False,
                )  # fmt: skip
                table.add_reads(now, granules)

    def _accesses_now(self, frame: Frame, threads: Any, instruction: Instruction, strong: bool) -> Any:
        """Return the access of each thread by an instruction, an array of `_ACCESS`.

        It has the numbers of barriers, fences and bar.warp.sync that the thread's block or warp has passed so far.

        threads: indices in the frame's batch, int64 [n].
        """
        now = np.zeros(threads.size, _ACCESS)
        blocks, launch_threads = self._blocks(frame, threads), self._threads(frame, threads)
        now["thread"] = launch_threads + 1  # 0 is no thread
        now["barriers"] = frame.batch.epochs[blocks - frame.batch.first]  # indexed by block of the batch
        now["fences"] = self._fences[blocks]
        warps = self._warp(launch_threads)
        now["warp_syncs"] = [self._warp_syncs.get(int(warp), 0) for warp in warps] if self._warp_syncs else 0
        now["line"], now["strong"] = instruction.line, strong
        return now

    def _check_write(self, now: Any, allocation: Allocation, granules: Any, table: _Table, strong: bool) -> None:
        """Record races of writes with each other, with the last reads and with the last write of their granules.

        A granule is a few bytes of memory for which the last accesses are recorded.

        Args:
            now: The write of each thread, an array of `_ACCESS`.
            allocation: The written memory.
            granules: Index of the granule that each thread writes.
            table: The last accesses to the allocation.
            strong: Whether the writes are atomic, volatile or releases. Strong accesses do not race with each other,
                but they race with others: `_check` omits only pairs of two strong accesses.
        """
        if not strong:
            self._check_same_instruction(now, allocation, granules, table.granule_bytes)
        for reads in table.readers:
            self._check(
                reads[granules], now, allocation, granules, table.granule_bytes,
                first_writes=False, second_writes=True,
            )  # fmt: skip
        self._check(
            table.writer[granules], now, allocation, granules, table.granule_bytes,
            first_writes=True, second_writes=True,
        )  # fmt: skip

    def _table(self, allocation: Allocation) -> _Table:
        """Return the table of an allocation, created on first use.

        The entry keeps the allocation alive, so that no other one gets its id.
        """
        if id(allocation) not in self._tables:
            self._tables[id(allocation)] = (allocation, _Table(allocation.size))
        _, table = self._tables[id(allocation)]
        return table

    def _check_same_instruction(self, now: Any, allocation: Allocation, granules: Any, granule_bytes: int) -> None:
        """Record races between threads that write the same granule with one instruction.

        A granule is a few bytes, the unit of memory that is checked. Each thread is compared only with the next one of
        the same granule: of the granules [5, 2, 5, 5] of threads 0 to 3, the pairs are (0, 2) and (2, 3). `_count`
        counts all races; the first `_SHOWN_RACES` are recorded for the message.

        Args:
            now: The write of each thread of the instruction, an array of `_ACCESS`.
            allocation: The written memory.
            granules: Index of the granule that each of these threads writes.
            granule_bytes: Bytes of a granule.
        """
        # Threads in the order of their granules; is the granule of each that of the next?
        order = np.argsort(granules, kind="stable")
        shares_granule = granules[order][1:] == granules[order][:-1]
        for k in np.flatnonzero(shares_granule)[:_SHOWN_RACES]:
            first, second = order[k], order[k + 1]
            offset = int(granules[first]) * granule_bytes
            self._record(now[first], now[second], allocation, offset, first_writes=True, second_writes=True)
        self._count += max(0, int(shares_granule.sum()) - _SHOWN_RACES)

    def _check(
        self, before: Any, now: Any, allocation: Allocation, granules: Any, granule_bytes: int, *, first_writes: bool,
        second_writes: bool,
    ) -> None:  # fmt: skip
        """Record races between earlier accesses and accesses now, unless a barrier or a fence orders them.

        A granule is a few bytes of memory for which the last accesses are recorded.

        Two accesses race if they are by different threads, not both strong, and unordered (see `_are_unordered`). The
        caller passes only pairs of which at least one access writes.

        The arrays have one item for each thread that accesses memory now.

        Args:
            before: Earlier access to the granule that the thread accesses, of type `_ACCESS`; thread 0 for none.
            now: The access of the thread, of type `_ACCESS`.
            allocation: The accessed memory.
            granules: Index of the granule that the thread accesses.
            granule_bytes: Bytes of a granule.
            first_writes: Whether the earlier accesses are writes.
            second_writes: Whether the accesses now are writes.
        """
        # Find pairs of accesses that race unless they are ordered.
        is_conflict = (before["thread"] > 0) & (before["thread"] != now["thread"])
        is_conflict &= ~(before["strong"] & now["strong"])
        if not is_conflict.any():
            return
        races = np.flatnonzero(is_conflict & self._are_unordered(before, now))
        # The first races are recorded for the message, and counted there; the others are only counted.
        for k in races[:_SHOWN_RACES]:
            offset = int(granules[k]) * granule_bytes
            self._record(before[k], now[k], allocation, offset, first_writes=first_writes, second_writes=second_writes)
        self._count += max(0, races.size - _SHOWN_RACES)

    def _are_unordered(self, before: Any, now: Any) -> Any:
        """Return for each pair of an earlier access and an access now whether nothing orders them, bool.

        An access records how many barriers and fences its block had passed before it, and how many bar.warp.sync its
        warp:

        - Accesses of one block are ordered if it has passed a barrier in between: the numbers differ. Those of one warp
          are also ordered by a bar.warp.sync in between.
        - Accesses of different blocks are ordered if the block of the earlier access has passed a fence since.

        The arguments are arrays of type `_ACCESS`. If an earlier access has the thread 0 (none), its result has no
        meaning.
        """
        threads_per_block = self._launch.threads
        # Records number threads from 1, here they count from 0. maximum: where there is no earlier access.
        earlier, current = np.maximum(before["thread"] - 1, 0), now["thread"] - 1
        earlier_block, current_block = earlier // threads_per_block, current // threads_per_block
        is_same_block = earlier_block == current_block
        is_same_warp = is_same_block & (self._warp(earlier) == self._warp(current))
        no_barrier = before["barriers"] == now["barriers"]
        no_fence = before["fences"] == self._fences[earlier_block]  # the block has passed none since the earlier access
        no_warp_sync = before["warp_syncs"] == now["warp_syncs"]
        return np.where(is_same_block, no_barrier, no_fence) & (~is_same_warp | no_warp_sync)

    def _record(
        self, first: Any, second: Any, allocation: Allocation, offset: int, *, first_writes: bool, second_writes: bool
    ) -> None:
        """Count a race at byte `offset` of an allocation. Keep the first race of each pair of lines for the message.

        Args:
            first, second: The two accesses, records of type `_ACCESS`.
            allocation: The accessed memory.
            offset: The byte of it.
            first_writes: Whether the first access is a write.
            second_writes: Whether the second access is a write.
        """
        self._count += 1
        first_line, second_line = int(first["line"]), int(second["line"])
        first_thread, second_thread = int(first["thread"]) - 1, int(second["thread"]) - 1  # records count from 1
        if (first_line, second_line) not in self._races:
            self._races[first_line, second_line] = Race(
                first=RacingAccess(first_line, is_write=first_writes, thread=first_thread),
                second=RacingAccess(second_line, is_write=second_writes, thread=second_thread),
                where=self._name(allocation, offset),
            )

    def _name(self, allocation: Allocation, offset: int) -> str:
        """Return text that names byte `offset` of an allocation.

        The shared memory of all blocks of a batch is one allocation, in which each block has `shared_stride` bytes.
        """
        if allocation.kind != "shared":
            return f"byte {offset} of the {allocation}"
        offset_in_block, kernel = offset % self._launch.shared_stride, self._launch.kernel
        for name, start, size in kernel.loaded.shared_variables(kernel.name):
            has_dynamic_size = size == 0  # `extern .shared`: all bytes up to the end
            if start <= offset_in_block and (has_dynamic_size or offset_in_block < start + size):
                return f"byte {offset_in_block - start} of shared '{name}'"
        return f"byte {offset_in_block} of shared memory"

    def _describe_location(self, thread: int) -> str:
        """Return text that names a thread, from its index in the launch."""
        launch = self._launch
        block, thread_in_block = divmod(thread, launch.threads)
        return f"block {coordinates(block, launch.grid)}, thread {coordinates(thread_in_block, launch.block)}"

    def finish(self) -> None:
        """Raise KernelError if accesses raced. It lists the pairs of lines, each with the threads of one race."""
        if not self._races:
            return
        kernel = self._launch.kernel
        text = kernel.code.builder
        lines = []
        for race in list(self._races.values())[:_SHOWN_RACES]:
            parts = []
            for line, is_write, thread in (race.first, race.second):
                verb = "writes" if is_write else "reads"
                parts.append(f"line {line} '{text.line(line)}' {verb} in {self._describe_location(thread)}")
            lines.append(f"{race.where}: {parts[0]}; {parts[1]}")
        more = len(self._races) - len(lines)
        rest = f"\n  and {more} more pairs of lines" if more > 0 else ""
        raise KernelError(
            f"kernel '{kernel.name}' ({text.module}): {self._count} accesses race with others, without a barrier "
            "between them:\n  " + "\n  ".join(lines) + rest
        )
