"""Runs plans of one program: memory for their buffers, recordings by the memory that they refer to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydispatch._core.device import PlanData, memory_at
from pydispatch.runtime.devices.vulkan.pipelines import Executables
from pydispatch.runtime.devices.vulkan.record import DISPATCH, Recorded, Recorder

if TYPE_CHECKING:
    from pydispatch.runtime.devices.vulkan.context import Context
    from pydispatch.runtime.devices.vulkan.memory import Block

KEPT = 8  # recordings of one plan
ARGUMENT, RESULT, TRANSIENT, CONSTANT = 0, 1, 2, 3

Blocks = list["Block | None"]


class DeviceMemory:
    """A block in use: pydispatch.runtime.buffer.Memory."""

    __slots__ = ("block", "context", "size")

    def __init__(self, context: Context, block: Block, size: int) -> None:
        self.context, self.block, self.size = context, block, size

    def __del__(self) -> None:
        self.block.pool.release(self.block)

    @property
    def device_name(self) -> str:
        return f"vulkan:{self.context.index}"

    def view(self) -> memoryview | None:
        return memory_at(self.block.address, self.size, True) if self.block.pointer is not None else None

    def read(self, target: memoryview) -> None:
        self.context.copy_out(self.block, 0, target, target.nbytes)

    def write(self, source: memoryview) -> None:
        self.context.copy_in(self.block, 0, source, source.nbytes)


@dataclass(frozen=True)
class Timing:
    """How long one command of a call took on the device. command: in words; seconds: as the device counts."""

    command: str
    seconds: float


class Record:
    """A plan on a device: which buffers need what, and its recordings."""

    def __init__(self, data: PlanData) -> None:
        self.data = data
        self.commands, self.late = data.commands, data.late
        self.arguments = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == ARGUMENT]
        self.results = [(n, index, size) for n, (kind, index, size, _) in enumerate(data.buffers) if kind == RESULT]
        self.transients = [(n, offset) for n, (kind, _, _, offset) in enumerate(data.buffers) if kind == TRANSIENT]
        self.constants = [(n, index) for n, (kind, index, _, _) in enumerate(data.buffers) if kind == CONSTANT]
        self.patterns = [command[10] for command in data.commands]
        self.count = len(data.buffers)
        self.recordings: OrderedDict[Any, Recorded] = OrderedDict()
        self._commands_with_arena()

    def _commands_with_arena(self) -> None:
        """Transients are ranges of one block, which is the last buffer: slots are rewritten to say so."""
        if not self.transients:
            return
        moved, arena = dict(self.transients), self.count
        self.count += 1

        def place(slot: tuple[int, int, int]) -> tuple[int, int, int]:
            buffer, offset, length = slot
            return (arena, offset + moved[buffer], length) if buffer in moved else slot

        self.commands = [(*c[:9], [place(slot) for slot in c[9]], *c[10:]) for c in self.commands]


class Executor:
    """The executables and constants of one program on a device. Holds no module: the module holds it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.executables = Executables(context)
        self.constants: list[memoryview] = []
        self._uploaded: dict[int, DeviceMemory] = {}

    def constant(self, index: int) -> Block:
        """The block of a constant, filled when it is first used."""
        with self.context.lock:
            found = self._uploaded.get(index)
            if found is None:
                data = self.constants[index]
                found = DeviceMemory(self.context, self.context.pool.acquire(data.nbytes), data.nbytes)
                self.context.copy_in(found.block, 0, data, data.nbytes)
                self._uploaded[index] = found
            return found.block

    def blocks(self, record: Record) -> Blocks:
        """A list for the blocks of a run, with constants and the arena in it. The arena goes back with `release`."""
        blocks: Blocks = [None] * record.count
        for number, index in record.constants:
            blocks[number] = self.constant(index)
        if record.transients:
            blocks[-1] = self.context.pool.acquire(record.data.arena_bytes)
        return blocks

    def release(self, record: Record, blocks: Blocks) -> None:
        """Gives the arena back."""
        if record.transients and blocks[-1] is not None:
            self.context.pool.release(blocks[-1])
            blocks[-1] = None

    def run(self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int]) -> None:
        """One submission; returns when it is done."""
        context = self.context
        key: Any = tuple([block.number if block is not None else 0 for block in blocks])
        if record.late:
            key = (key, constants, tuple(patterns))
        with context.lock:
            recorded = record.recordings.pop(key, None)
            if recorded is None or recorded.epoch != context.pool.epoch:
                recorded = self.record(record, blocks, constants, patterns)
            context.submit(recorded.submission)
        context.wait(recorded.submission)
        record.recordings[key] = recorded
        if len(record.recordings) > KEPT:
            with context.lock:
                if len(record.recordings) > KEPT:
                    record.recordings.popitem(last=False)

    def record(
        self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int], timed: bool = False
    ) -> Recorded:
        """Commands over these blocks; under the context's lock."""
        recorder = Recorder(self.context)
        try:
            recorder.commands(record.commands, blocks, constants, patterns, self.executables, timed)
        except BaseException:
            recorder.abandon()
            raise
        return recorder.finish()

    def time(self, record: Record, blocks: Blocks, constants: bytes, patterns: Sequence[int]) -> list[Timing]:
        """Runs once, one command after the other, and says how long each took."""
        context, ffi = self.context, self.context.ffi
        with context.lock:
            recorded = self.record(record, blocks, constants, patterns, timed=True)
            context.submit(recorded.submission)
        context.wait(recorded.submission)
        count = len(record.commands) + 1
        stamps = ffi.new("uint64_t[]", count)
        context.calls.vkGetQueryPoolResults(
            context.handle,
            recorded.queries,
            0,
            count,
            ffi.sizeof(stamps),
            stamps,
            8,
            1 | 2,  # 64 bits, wait
        )
        tick = context.features.properties.limits.timestampPeriod * 1e-9
        labels = [self._label(command) for command in record.commands]
        return [Timing(label, (stamps[i + 1] - stamps[i]) * tick) for i, label in enumerate(labels)]

    def _label(self, command: tuple[Any, ...]) -> str:
        if command[0] == DISPATCH:
            grid = "x".join(map(str, command[6]))
            return f"{self.executables.kernels[command[2], command[4]].label} {grid}"
        return f"{'fill' if command[0] == 1 else 'copy'} {command[9][0][2]} bytes"

    # For calls through the memory of the process

    def run_addresses(self, data: PlanData, constants: bytes, patterns: list[int], addresses: list[int]) -> None:
        """As `_core.device.Runner` wants it: arguments come from memory of the process, results go there."""
        context, ffi = self.context, self.context.ffi
        record = data.device
        if record is None:
            record = data.device = Record(data)
        taken: list[Block] = []
        blocks = self.blocks(record)
        try:
            for number, _, size in (*record.arguments, *record.results):
                block = blocks[number] = context.pool.acquire(size)
                taken.append(block)
            for number, _, size in record.arguments:
                if addresses[number]:
                    context.copy_in(taken_block(blocks, number), 0, ffi.cast("char*", addresses[number]), size)
            self.run(record, blocks, constants, patterns)
            for number, _, size in record.results:
                if addresses[number]:
                    context.copy_out(taken_block(blocks, number), 0, ffi.cast("char*", addresses[number]), size)
        finally:
            for block in taken:
                context.pool.release(block)
            self.release(record, blocks)


def taken_block(blocks: Blocks, number: int) -> Block:
    block = blocks[number]
    assert block is not None
    return block
