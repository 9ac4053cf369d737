"""Execution of plans with host commands, split where the device cannot run a host command itself."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

from pydispatch._core.commands import Custom
from pydispatch._core.profile import Timing
from pydispatch.runtime.accelerators.execute import Executor
from pydispatch.runtime.accelerators.host_calls import HostCalls
from pydispatch.runtime.accelerators.plan import Blocks, Record


class CommandExecutor:
    """Executor of a program with host commands. It splits plans into device plans and host commands."""

    def __init__(self, inner: Executor, calls: HostCalls) -> None:
        self.inner, self.calls = inner, calls
        self.raised: dict[int, BaseException] = {}
        inner.calls = calls

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped executor. Methods that every Executor shares are bound to this object
        instead, so that they run plans through it.
        """
        shared = vars(Executor).get(name)
        if callable(shared) and getattr(type(self.inner), name) is shared:
            return shared.__get__(self)
        return getattr(self.inner, name)

    def fix(self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int]) -> Any:
        """See Executor.fix."""
        return Executor.fix(self, record, blocks, constants, patterns)  # type: ignore[arg-type]

    def run(self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int]) -> None:
        """See Executor.run."""
        self.calls.require_outside()
        pieces = self._pieces(record)
        if pieces is None:
            self.inner.run(record, blocks, constants, patterns)
            return
        for first, piece in pieces:
            if isinstance(piece, Custom):
                self._call(record, piece, blocks, constants)
            else:
                self.inner.run(piece, blocks, constants, patterns[first : first + len(piece.commands)])

    def time(self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int]) -> list[Timing]:
        """See Executor.time. Of a host command: the time until it returns."""
        self.calls.require_outside()
        pieces = self._pieces(record)
        if pieces is None:
            return self.inner.time(record, blocks, constants, patterns)
        timings: list[Timing] = []
        for first, piece in pieces:
            if isinstance(piece, Custom):
                begin = time.perf_counter()
                self._call(record, piece, blocks, constants)
                timings.append(Timing(self.calls.label(piece), time.perf_counter() - begin))
            else:
                timings += self.inner.time(piece, blocks, constants, patterns[first : first + len(piece.commands)])
        return timings

    def _call(self, record: Record, command: Custom, blocks: Blocks, constants: bytes) -> None:
        """Call a host command with the state of the device."""
        synchronous = self.calls.commands[command.command].synchronous
        around = self.inner.surroundings(synchronous)
        self.calls.call(record.data.function, command, blocks, constants, around)

    def _cuts(self, command: Any) -> bool:
        """Return whether a command splits the plan."""
        if not isinstance(command, Custom):
            return False
        return self.inner.cuts_at(self.calls.commands[command.command].synchronous)

    def _pieces(self, record: Record) -> list[tuple[int, Any]] | None:
        """Return (index of the first command, host command or device plan) in order; None for a plan without a
        split.
        """
        if record.pieces is not None:
            return record.pieces or None
        record.pieces = []
        if any(map(self._cuts, record.commands)):
            begin = 0
            for index, command in enumerate([*record.commands, None]):
                if command is not None and not self._cuts(command):
                    continue
                if index > begin:
                    record.pieces.append((begin, _part(record, begin, index)))
                if command is not None:
                    record.pieces.append((index, command))
                begin = index + 1
        return record.pieces or None


def _part(record: Record, first: int, end: int) -> Record:
    """Return commands `first` to `end` - 1 of a plan as a plan over the same blocks."""
    part = copy.copy(record)
    part.commands, part.state, part.pieces = record.commands[first:end], None, []
    part.numbers, part.patterns = record.numbers[first:end], record.patterns[first:end]
    return part
