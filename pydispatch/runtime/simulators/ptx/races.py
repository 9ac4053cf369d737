"""Data races: two threads touch a byte, at least one writes, and nothing orders them.

Inside a block, barriers order (bar.sync for all of it, bar.warp.sync for a warp's lanes). Between blocks of a launch
nothing does, except a fence: accesses of a block before its `membar.gl` or `fence.…gpu` count as ordered.
Atomics, volatile and acquire/release accesses do not race with each other. Accesses of one instruction are compared
too.

The table of a range of memory keeps for each piece of it the last writer and the last two readers (of different
threads). The granularity is as coarse as all accesses so far allow: 4 bytes where all accessed whole words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.memory import Allocation, MemoryAccess
from pydispatch.runtime.simulators.ptx.threads import Launched

_SHOWN = 8
_WIDEST = 16
_FIELDS = np.dtype(
    [("thread", "i8"), ("epoch", "i4"), ("warp", "i4"), ("fence", "i4"), ("line", "i4"), ("strong", "?")]
)
"""thread: its index in the launch, from 1; 0: none. Zeros, so that untouched memory costs nothing."""


@dataclass(frozen=True)
class Race:
    """Data race: two unordered accesses to the same memory.

    Attributes:
        first, second: (line, whether the access is a write, number of the thread in the launch).
        where: Location in memory.
    """

    first: tuple[int, bool, int]
    second: tuple[int, bool, int]
    where: str


class _Table:
    """The last accesses to an allocation, for each granule of it.

    step: bytes of a granule, a power of two that divides the offset and the size of every access so far.
    """

    def __init__(self, size: int) -> None:
        self.step = _WIDEST
        count = -(-size // _WIDEST)
        self.writer = np.zeros(count, _FIELDS)
        self.readers = (np.zeros(count, _FIELDS), np.zeros(count, _FIELDS))

    def allow(self, offsets: Any, size: int) -> None:
        """Make granules as small as accesses of `size` bytes at byte `offsets` need."""
        all_bits = int(np.bitwise_or.reduce(offsets)) | size | self.step
        step = all_bits & -all_bits
        if step < self.step:
            ratio = self.step // step
            self.writer = np.repeat(self.writer, ratio)
            self.readers = (np.repeat(self.readers[0], ratio), np.repeat(self.readers[1], ratio))
            self.step = step


class RaceDetector:
    """Race detection during one launch; `finish` raises KernelError with the races."""

    def __init__(self, launch: Launched) -> None:
        self._launch = launch
        # Identity of an allocation → (it, the last accesses of its bytes).
        self._tables: dict[int, tuple[Allocation, _Table]] = {}
        self._found: dict[tuple[int, int], Race] = {}  # pair of lines → the first race between them
        self._count = 0
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        self._fences = np.zeros(total, np.int64)  # of each block, how many fences it has passed
        self._warps_per_block = -(-launch.threads // 32)
        self._warps: dict[int, int] = {}  # warp → how often its threads have met

    def fence(self, frame: Frame) -> None:
        """Record a fence, after which earlier accesses of the frame's blocks count as ordered."""
        np.add.at(self._fences, np.unique(self._blocks(frame, frame.threads)), 1)

    def warp_sync(self, frame: Frame) -> None:
        """Record that the warps of the frame have met, after which their earlier accesses count as ordered."""
        threads = self._threads(frame, frame.threads)
        for warp in np.unique(self._warp(threads)):
            self._warps[int(warp)] = self._warps.get(int(warp), 0) + 1

    def _blocks(self, frame: Frame, threads: Any) -> Any:
        """Return the blocks of threads of a batch in the launch."""
        return frame.batch.first + threads // frame.batch.threads_per_block

    def _threads(self, frame: Frame, threads: Any) -> Any:
        """Return the numbers of threads of a batch in the launch."""
        return frame.batch.first * frame.batch.threads_per_block + threads

    def _warp(self, threads: Any) -> Any:
        """Return the warps of threads in the launch."""
        size = self._launch.threads
        return threads // size * self._warps_per_block + threads % size // 32

    def access(
        self, frame: Frame, instruction: Instruction, access: MemoryAccess, size: int, write: bool, strong: bool
    ) -> None:
        """Check an access of `size` bytes per thread against earlier ones, and record it."""
        allocation = access.memory
        if allocation.kind in ("const", "local"):
            return
        threads = access.select(frame.threads)
        blocks = self._blocks(frame, threads)
        now = np.zeros(threads.size, _FIELDS)
        numbers = self._threads(frame, threads)
        now["thread"] = numbers + 1
        now["epoch"] = frame.batch.epochs[blocks - frame.batch.first]
        now["fence"] = self._fences[blocks]
        warps = self._warp(numbers)
        now["warp"] = [self._warps.get(int(warp), 0) for warp in warps] if self._warps else 0
        now["line"], now["strong"] = instruction.line, strong
        table = self._table(allocation)
        table.allow(access.offsets, size)
        first = access.offsets // table.step
        for piece in range(size // table.step):
            granules = first + piece
            if write:
                self._inside(granules, now, allocation, strong, table.step)
                for reader in table.readers:
                    self._conflicts(reader[granules], now, False, True, allocation, granules, table.step)
            self._conflicts(table.writer[granules], now, True, write, allocation, granules, table.step)
            if write:
                table.writer[granules] = now
            else:
                last, earlier = table.readers
                is_other_thread = last["thread"][granules] != now["thread"]
                earlier[granules[is_other_thread]] = last[granules[is_other_thread]]
                last[granules] = now

    def _table(self, allocation: Allocation) -> _Table:
        """Return the table of an allocation, created on first use."""
        entry = self._tables.get(id(allocation))
        if entry is None:
            entry = self._tables[id(allocation)] = (allocation, _Table(allocation.size))
        return entry[1]

    def _inside(self, granules: Any, now: Any, allocation: Allocation, strong: bool, step: int) -> None:
        """Record races between threads that write the same granule with one instruction."""
        if strong:
            return
        order = np.argsort(granules, kind="stable")
        shares_granule = granules[order][1:] == granules[order][:-1]
        for k in np.flatnonzero(shares_granule)[:_SHOWN]:
            self._enter(now[order[k]], now[order[k + 1]], True, True, allocation, int(granules[order[k]]) * step)
        self._count += max(0, int(shares_granule.sum()) - _SHOWN)

    def _conflicts(
        self, before: Any, now: Any, wrote: bool, writes: bool, allocation: Allocation, where: Any, step: int
    ) -> None:
        """Record races between earlier accesses and accesses now, unless a barrier or a fence orders them.

        wrote, writes: whether the earlier accesses, and those now, are writes. where: the granules. step: bytes of a
        granule.
        """
        size = self._launch.threads
        is_conflict = (before["thread"] > 0) & (before["thread"] != now["thread"])
        is_conflict &= ~(before["strong"] & now["strong"])
        if not is_conflict.any():
            return
        first, second = before["thread"] - 1, now["thread"] - 1
        block, own_block = np.maximum(first, 0) // size, second // size
        is_same_block = block == own_block
        is_unordered = np.where(is_same_block, before["epoch"] == now["epoch"], before["fence"] == self._fences[block])
        same_warp = is_same_block & (self._warp(first) == self._warp(second))
        is_unordered &= ~same_warp | (before["warp"] == now["warp"])
        hits = np.flatnonzero(is_conflict & is_unordered)
        for k in hits[:_SHOWN]:
            self._enter(before[k], now[k], wrote, writes, allocation, int(where[k]) * step)
        self._count += max(0, hits.size - _SHOWN)

    def _enter(self, before: Any, now: Any, wrote: bool, writes: bool, allocation: Allocation, where: int) -> None:
        """Count a race, and record it if it is the first between its two lines."""
        self._count += 1
        key = (int(before["line"]), int(now["line"]))
        if key not in self._found:
            self._found[key] = Race(
                (key[0], wrote, int(before["thread"]) - 1),
                (key[1], writes, int(now["thread"]) - 1),
                self._name(allocation, where),
            )

    def _name(self, allocation: Allocation, where: int) -> str:
        """Return text that names a byte of an allocation."""
        if allocation.kind != "shared":
            return f"byte {where} of the {allocation}"
        offset, kernel = where % self._launch.shared_stride, self._launch.kernel
        for name, start, size in kernel.loaded.shared_variables(kernel.name):
            if start <= offset < start + size or (not size and offset >= start):
                return f"byte {offset - start} of shared '{name}'"
        return f"byte {offset} of shared memory"

    def _describe_location(self, thread: int) -> str:
        """Return text that names a thread of the launch."""
        launch = self._launch
        (gx, gy, _), (bx, by, _) = launch.grid, launch.block
        block, inside = divmod(thread, launch.threads)
        return (
            f"block ({block % gx}, {block // gx % gy}, {block // (gx * gy)}), "
            f"thread ({inside % bx}, {inside // bx % by}, {inside // (bx * by)})"
        )

    def finish(self) -> None:
        """KernelError that lists the pairs of lines that race, with one pair of threads each."""
        if not self._found:
            return
        kernel = self._launch.kernel
        text = kernel.code.builder
        lines = []
        for race in list(self._found.values())[:_SHOWN]:
            parts = []
            for line, writes, thread in (race.first, race.second):
                done = "writes" if writes else "reads"
                parts.append(f"line {line} '{text.line(line)}' {done} in {self._describe_location(thread)}")
            lines.append(f"{race.where}: {parts[0]}; {parts[1]}")
        more = len(self._found) - len(lines)
        rest = f"\n  and {more} more pairs of lines" if more > 0 else ""
        raise KernelError(
            f"kernel '{kernel.name}' ({text.module}): {self._count} accesses race with others, without a barrier "
            "between them:\n  " + "\n  ".join(lines) + rest
        )
