"""PTX cp.async, asynchronous copies to shared memory. A handler returns a closure `step(regs)`, which runs the
instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an
operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
`memory_operand` returns a function `resolve(regs)` of an address operand: it returns a `MemoryAccess` for each
allocation that the threads access, with the threads and their byte offsets in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Address, Immediate, Instruction
from pydispatch.runtime.simulators.ptx.addresses import ALL_ADDRESS_BITS, AddressResolver, memory_operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.instructions.mbarrier import arrival
from pydispatch.runtime.simulators.ptx.registry import handles, nothing

_HINTS = ("ca", "cg", "global")
"""Modifiers of cp.async without effect here: cache levels, and the space of the source, which is always global."""


@handles("cp")
def copy(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of an instruction of asynchronous copies: the arrival at an mbarrier, commit_group, wait_group,
    wait_all, or the copy itself.

    The copy cp.async.ca.shared.global [d], [s], size{, bytes} reads at once, and writes when its group is waited for.
    commit_group closes a group of copies; wait_group n leaves the last n groups of a thread pending.
    """
    words = instruction.modifiers
    if words[:3] == ("async", "mbarrier", "arrive"):
        return _arrival_after_copies(builder, instruction)
    if words == ("async", "commit_group"):
        return lambda regs: regs[FRAME_SLOT].batch.async_copies.commit(regs[FRAME_SLOT].threads)
    if words in (("async", "wait_group"), ("async", "wait_all")):
        most_pending = _most_pending(builder, instruction) if words[1] == "wait_group" else None
        return lambda regs: regs[FRAME_SLOT].batch.async_copies.wait(regs[FRAME_SLOT].threads, most_pending)
    # Bulk copies and other forms with an mbarrier are not supported.
    if words[:1] != ("async",) or "bulk" in words or "mbarrier" in words:
        builder.fail(instruction)
    return _copy(builder, instruction)


def _most_pending(builder: FunctionBuilder, instruction: Instruction) -> int:
    """Return the operand of cp.async.wait_group: how many of the thread's last groups need not be complete."""
    (count,) = builder.operands(instruction, 1)
    if not isinstance(count, Immediate) or count.value < 0:
        builder.fail(instruction, "has no number of groups")
    return int(count.value)


def _arrival_after_copies(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of cp.async.mbarrier.arrive: the copies of the thread complete, and it arrives at the mbarrier.

    With .noinc this is an ordinary arrival. Without .noinc the instruction adds 1 to the pending arrivals of the
    mbarrier, and the arrival subtracts 1 once the copies are complete. Here they are complete at once, so that the
    mbarrier does not change.
    """
    # The first three modifiers are those of the name: async.mbarrier.arrive.
    builder.require_modifiers(instruction, ("noinc", "shared", "shared::cta", "b64"), instruction.modifiers[3:])
    arrive: Step = nothing
    if "noinc" in instruction.modifiers:
        address = builder.operands(instruction, 1)[0]
        arrive = arrival(builder, instruction, result=None, address=address, count=None, drop=False)

    def complete_and_arrive(regs: list[Any]) -> None:
        """Complete all copies of the threads, and call `arrive`, which does nothing without .noinc."""
        # most_pending=None: no copy stays pending.
        regs[FRAME_SLOT].batch.async_copies.wait(regs[FRAME_SLOT].threads, most_pending=None)
        arrive(regs)

    return complete_and_arrive


def _copy(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `cp.async.ca.shared.global [d], [s], size{, source_size}`.

    It copies `size` bytes (4, 8 or 16) from global to shared memory; those beyond `source_size` become zeros.
    """
    # The first modifier is that of the name, cp.async.
    qualifiers = [m for m in instruction.modifiers[1:] if m not in _HINTS and not m.startswith("L2::")]
    operands = builder.operands(instruction, 3, most=5)  # the fifth, a cache policy, has no effect
    destination, source, size = operands[:3]
    is_to_shared = qualifiers in (["shared"], ["shared::cta"])
    if not is_to_shared or not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        builder.fail(instruction)
    count = int(size.value)
    shared_access = _access_of(instruction, "shared")
    resolve_destination = memory_operand(builder, shared_access, destination, count, write=True)
    if not isinstance(source, Address):
        builder.fail(instruction, "has no [address] to copy from")
    read_whole = memory_operand(builder, _access_of(instruction, "global"), source, count, write=False)
    source_size = builder.source(instruction, operands[3], "u32") if len(operands) > 3 else None
    # Used only where a thread's source size is less: the bytes beyond it may be outside of any allocation.
    read_partially = _PartialRead.of(builder, instruction, source)

    def begin_copy(regs: list[Any]) -> None:
        """Begin a copy of `count` bytes for each thread; bytes beyond the source size become 0.

        `source_size` is the slot of that size, None if all bytes are copied. The source is read by `read_whole`, or by
        `read_partially` if a thread copies fewer bytes; `resolve_destination` resolves the addresses that are written.
        """
        frame = regs[FRAME_SLOT]
        data = np.zeros((frame.n, count), np.uint8)  # the bytes to store, for each thread
        # Read the bytes of each thread, by one access if all threads read `count` bytes.
        sizes = None if source_size is None else np.minimum(np.broadcast_to(regs[source_size], frame.n), count)
        if sizes is None or (sizes == count).all():
            byte_numbers = np.arange(count)
            for access in read_whole(regs):  # one for each allocation, by the threads that access it
                access.assign_threads(data, access.memory.data[access.offsets[:, None] + byte_numbers])
        else:
            read_partially.read(regs, sizes, data)
        # The bytes are stored when the thread waits for its copies.
        for access in resolve_destination(regs):
            threads = access.select_threads(frame.threads)
            frame.batch.async_copies.begin(threads, access.memory, access.offsets.copy(), access.select_threads(data))

    return begin_copy


def _access_of(instruction: Instruction, space: str) -> Instruction:
    """Return a copy instruction with only one of its state spaces as modifier: "shared" or "global".

    `memory_operand` takes the state space of an address from the modifiers. Those of a copy,
    `cp.async.ca.shared.global`, name the spaces of both addresses.
    """
    return Instruction(instruction.opcode, (space,), instruction.operands, instruction.line)


class _PartialRead(NamedTuple):
    """Read of the source of a copy where threads copy fewer bytes than the copy's size.

    It reads byte by byte, because bytes that are not copied must not be checked: their address may be invalid. For a
    copy of 16 bytes by three threads whose source sizes are 16, 0 and 5, it reads 16 bytes for the first thread, and 5
    for the third.

    `_copy` creates one for each instruction; its closure calls `read`.

    Attributes:
        resolver: Resolves the address of one byte of global memory.
        base: Slot of the base address, uint64.
        offset: Bytes that are added to it; may be negative.
    """

    resolver: AddressResolver
    base: int
    offset: int

    @classmethod
    def of(cls, builder: FunctionBuilder, instruction: Instruction, source: Address) -> _PartialRead:
        """Return the read of the operand `source` of a copy, which resolves the address of each byte separately."""
        is_absolute = source.base is None
        base = builder.constant(np.uint64(0)) if is_absolute else builder.source(instruction, source.base, "u64")
        access = _access_of(instruction, "global")
        resolver = AddressResolver(access, "global", size=1, write=False, strong=False)
        return cls(resolver, base, source.offset)

    def read(self, regs: list[Any], sizes: Any, data: Any) -> None:
        """Read the first `sizes[t]` bytes of each thread t of the frame into `data[t]`.

        The other bytes of `data` do not change.

        Args:
            regs: The registers of the frame.
            sizes: Number of bytes of each thread, at most the copy's size, [threads].
            data: Array that receives the bytes, uint8 [threads, size of the copy].
        """
        frame = regs[FRAME_SLOT]
        # The mask makes a negative offset unsigned: the sum wraps to the address below the base.
        addresses = np.broadcast_to(regs[self.base], frame.n) + np.uint64(self.offset & ALL_ADDRESS_BITS)
        # Read byte by byte, each for all threads of one size together: bytes beyond a size must not be accessed, since
        # their addresses may be invalid.
        for length in np.unique(sizes[sizes > 0]):
            threads = np.flatnonzero(sizes == length)
            frame_part = frame.subset(threads)
            for byte in range(int(length)):
                for access in self.resolver.resolve(frame_part, addresses[threads] + np.uint64(byte)):
                    data[access.select_threads(threads), byte] = access.memory.data[access.offsets]
