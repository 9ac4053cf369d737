"""Resolution of the addresses that threads access: the allocation and the offset in it, checked against its bounds.
Addresses are those of global memory, of shared memory of blocks, and of local memory of threads. They are resolved for
all threads of a frame together, those that execute an instruction: arrays have an element for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pydispatch.formats.ptx.module import Address, Instruction, Operand, Register
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.memory import (
    FIRST_ADDRESS,
    LOCAL,
    PARAM,
    SHARED,
    WINDOW,
    Allocation,
    MemoryAccess,
)

ADDRESS_BYTES = 8  # of a generic address
ALL_ADDRESS_BITS = (1 << 8 * ADDRESS_BYTES) - 1  # mask for sums of addresses, which wrap
_LOW_ADDRESS_BITS = 0xFFFFFFFF
"""Mask for sums of addresses from 32-bit registers, which wrap at 32 bits."""

MemoryOperand = Callable[[list[Any]], list[MemoryAccess]]
"""Resolves an `[address]` operand: receives the registers of a frame, and returns what its threads access, one
`MemoryAccess` for each allocation."""

_SPACES = {
    "global": "global", "const": "global", "shared": "shared", "shared::cta": "shared", "local": "local",
    "param": "global", "param::entry": "global",
}  # fmt: skip
"""Modifier → state space in which addresses are looked up. Constants and kernel parameters have global addresses."""


def space_of(instruction: Instruction) -> str:
    """Return the state space of an instruction: global (includes const and kernel parameters), shared, local or
    generic.
    """
    return next((_SPACES[m] for m in instruction.modifiers if m in _SPACES), "generic")


def memory_operand(
    builder: FunctionBuilder,
    instruction: Instruction,
    operand: Operand | None,
    size: int,
    write: bool,
    atomic: bool = False,
) -> MemoryOperand:
    """Return the function that resolves an address operand for each thread: to a memory, and an offset in it.

    A frame is the threads that run an instruction together; each of its registers is an array with an element per
    thread. For `ld.global.u32 %r1, [%rd1+8]` the result is called with the registers of a frame each time the
    instruction runs. If %rd1 points into one allocation in all threads, it returns one `MemoryAccess` with that
    allocation and, for each thread, the offset of %rd1 + 8 in it. An address outside of all memory, or a misaligned
    one, is a fault.

    Args:
        builder: Builder of the function.
        instruction: The instruction, whose modifiers name the state space.
        operand: The operand, an `[address]`.
        size: Bytes that each thread accesses, a power of two; also the alignment.
        write: Whether memory is written; a write to a constant is a fault.
        atomic: Whether the access is atomic. Then it does not race with other atomic ones, and may reach the bytes that
            pad an allocation to a whole word.
    """
    if not isinstance(operand, Address):
        builder.fail(instruction, "has no [address] where one is expected")
    space = space_of(instruction)
    base, offset = _base_and_offset(builder, instruction, operand)
    # A strong access, in the terms of PTX's memory model, is no data race with another strong one.
    strong = atomic or any(m in ("volatile", "relaxed", "acquire", "release", "mmio") for m in instruction.modifiers)
    resolver = AddressResolver(instruction, space, size, write, strong, atomic)
    if space in ("shared", "local"):
        return _window_operand(base, offset, resolver)
    return _global_operand(base, offset, resolver)


def _base_and_offset(builder: FunctionBuilder, instruction: Instruction, address: Address) -> tuple[int, int]:
    """Return the slot of the base of an `[address]`, and the bytes that each access adds to it."""
    if isinstance(address.base, Register):
        width = builder.register_size(address.base) or ADDRESS_BYTES
        return builder.source(instruction, address.base, f"u{8 * width}"), address.offset
    if address.base is None:
        return builder.constant(np.uint64(address.offset & ALL_ADDRESS_BITS)), 0
    # A variable: its address is a constant, or known only at launch, as that of a local variable.
    return builder.source(instruction, address.base, "u64"), address.offset


def plus_offset(base: Any, offset: Any) -> Any:
    """Return addresses plus an offset in bytes, int64. The sums of addresses of 32 bits wrap at 32 bits."""
    addresses = base.astype(np.int64) + offset
    return addresses if base.dtype.itemsize == ADDRESS_BYTES else addresses & _LOW_ADDRESS_BITS


def _window_operand(base: int, offset: int, resolver: AddressResolver) -> MemoryOperand:
    """Return the function that resolves shared and local addresses: offsets into the block's or the thread's memory.

    Each block has its own shared memory, and each thread its own local memory, all of which begin at address 0. So
    `[%r1+4]` with the value 16 in a thread is byte 20 of the memory of its block, or of the thread itself.

    Args:
        base: Slot of the base addresses: one for each thread, or a scalar for all.
        offset: Bytes added to each.
        resolver: Checks the sums, and adds where the memory of each block or thread begins.
    """
    shared = resolver.space == "shared"  # else local

    def resolve(regs: list[Any]) -> list[MemoryAccess]:
        """Return the one access, in a list, of the frame's threads to the addresses in the base register plus offset.

        `resolver` checks the sums. `shared`: whether the memory is shared, else it is local. Each load and store calls
        this function: plus_offset() is inlined to save a call.
        """
        frame = regs[FRAME_SLOT]
        bases = regs[base]
        addresses = bases.astype(np.int64)
        if offset:
            addresses = addresses + offset
            if bases.dtype.itemsize != ADDRESS_BYTES:  # the sum of a 32-bit address wraps
                addresses &= _LOW_ADDRESS_BITS
        if not addresses.ndim:  # a scalar that holds for all threads
            addresses = np.broadcast_to(addresses, frame.n)
        return [resolver.resolve_window(frame, positions=None, offsets=addresses, shared=shared)]

    return resolve


class _PreviousAllocation(NamedTuple):
    """Global allocation that all threads have accessed with an instruction, for the next run of the instruction.

    For loads of 4 bytes at `[%rd1+8]` from an allocation of 64 bytes at address A, `base_of_first_byte` is A - 8, and
    `largest_offset` is 60. The value A + 4 of %rd1 then has the offset A + 4 - (A - 8) = 12 in the allocation.

    Attributes:
        allocation: The allocation.
        memory: The machine's memory that has it.
        base_of_first_byte: The value of the base register that accesses its first byte, uint64.
        largest_offset: The largest offset in it at which an access fits, uint64.
    """

    allocation: Allocation
    memory: Any
    base_of_first_byte: Any
    largest_offset: Any

    @classmethod
    def of(cls, accesses: list[MemoryAccess], memory: Any, offset: int, size: int) -> _PreviousAllocation | None:
        """Return the allocation of an instruction's accesses, or None if there are several, or no global one.

        offset: bytes that the instruction adds to its base register. size: bytes of an access.
        """
        allocation = accesses[0].memory
        # Shared and local memory start at 0, below FIRST_ADDRESS, and each launch has other parameters, at PARAM.
        is_global = FIRST_ADDRESS <= allocation.start < PARAM
        if len(accesses) > 1 or not is_global or allocation.size < size or not allocation.live:
            return None
        base_of_first_byte = np.uint64((allocation.start - offset) & ALL_ADDRESS_BITS)
        return cls(allocation, memory, base_of_first_byte, np.uint64(allocation.size - size))


def _global_operand(base: int, offset: int, resolver: AddressResolver) -> MemoryOperand:
    """Return the function that resolves global and generic addresses, with a fast path for the allocation of the
    previous access.

    The function remembers the allocation if all threads have accessed the same one. If all addresses of the next call
    are inside of it too, they are not looked up.

    Args:
        base: Slot of the base addresses: one for each thread, or a scalar for all.
        offset: Bytes added to each.
        resolver: The lookup without a fast path, which reports faults.
    """
    alignment_mask = np.uint64(resolver.size - 1)
    previous: _PreviousAllocation | None = None
    new_access = tuple.__new__  # MemoryAccess(...) is a Python call, which the fast path avoids

    def resolve(regs: list[Any]) -> list[MemoryAccess]:
        """Resolve register `base` plus `offset`: first in the allocation of the previous access, then in any memory.

        An address is inside of `previous`, the allocation of an earlier access, if the base register is at most
        `largest_offset` above `base_of_first_byte`, from which `offset` is already subtracted. An access has a power of
        two of bytes, and `alignment_mask` is one less.

        regs: the registers of the frame, by slot.
        """
        nonlocal previous
        frame, addresses = regs[FRAME_SLOT], regs[base]
        # A scalar that holds for all threads, or addresses of fewer bits: one u64 for each thread.
        if not addresses.ndim or addresses.dtype.itemsize != ADDRESS_BYTES:
            addresses = np.broadcast_to(addresses, frame.n).astype(np.uint64)
        if previous is not None and previous.allocation.live and previous.memory is frame.batch.memory:
            # Unsigned: an address below the allocation wraps to a huge offset.
            offsets = addresses - previous.base_of_first_byte
            largest_offset = previous.largest_offset
            # The OR of the offsets is aligned only if every offset is, and then the addresses are too: allocations
            # start at multiples of 256. The OR is at least as large as each offset, so the maximum is computed only if
            # the OR exceeds the bound.
            all_bits = np.bitwise_or.reduce(offsets)
            if not all_bits & alignment_mask and (all_bits <= largest_offset or offsets.max() <= largest_offset):
                # The positions None stand for all threads of the frame.
                access: MemoryAccess = new_access(MemoryAccess, (None, previous.allocation, offsets.view(np.int64)))
                if frame.batch.races is not None:
                    resolver.record(frame, access)
                return [access]
        accesses = resolver.resolve(frame, addresses + np.uint64(offset & ALL_ADDRESS_BITS) if offset else addresses)
        previous = _PreviousAllocation.of(accesses, frame.batch.memory, offset, resolver.size) or previous
        return accesses

    return resolve


class AddressResolver:
    """Lookup of the addresses of one instruction, one allocation at a time, which reports faults.

    Attributes:
        space: State space, as of `space_of`.
        size: Bytes that each thread accesses, a power of two; also the alignment.
        write: Whether memory is written.
        strong: Whether the access is atomic, volatile, relaxed, acquire or release, and so is no data race with another
            such access.
        atomic: Whether the access is atomic, and may end in the padding of an allocation.
    """

    def __init__(
        self, instruction: Instruction, space: str, size: int, write: bool, strong: bool, atomic: bool = False
    ) -> None:
        """Create the lookup for an instruction. For the other parameters, see the class."""
        self._instruction = instruction
        self.space, self.size = space, size
        self.write, self.strong, self.atomic = write, strong, atomic
        words = instruction.modifiers
        # Whether the access publishes earlier writes of the thread to other blocks, for the detector of data races.
        self._releases = ("release" in words or "acq_rel" in words) and ("gpu" in words or "sys" in words)

    def record(self, frame: Frame, access: MemoryAccess) -> None:
        """Report an access to the detector of data races, if there is one."""
        races = frame.batch.races
        if races is not None:
            if self._releases:
                races.fence(frame)
            races.access(frame, self._instruction, access, self.size, self.write, self.strong)

    def resolve(self, frame: Frame, addresses: Any) -> list[MemoryAccess]:
        """Return the accesses of a frame's threads, or report a fault.

        There is one for shared memory, one for local memory, and one for each allocation of global memory. Shared and
        local memory are windows of the generic addresses: ranges that name the memory of the accessing block or thread.

        addresses: global or generic addresses, uint64 [n].
        """
        self._check_alignment(frame, positions=None, addresses=addresses)
        accesses = self._resolve_windows(frame, addresses) if self.space == "generic" else []
        resolved = np.zeros(frame.n, bool)
        for access in accesses:
            access.assign_threads(resolved, values=True)  # marks the threads of the access
        while not resolved.all():  # each call marks the threads of one allocation in `resolved`, or reports a fault
            accesses.append(self._resolve_allocation(frame, addresses, resolved))
        return accesses

    def _resolve_windows(self, frame: Frame, addresses: Any) -> list[MemoryAccess]:
        """Return the accesses of the threads whose generic addresses are in shared or local memory, at most one for
        each. Threads with other addresses are in none of them.

        Shared memory has the generic addresses SHARED to SHARED + WINDOW, and local memory LOCAL to LOCAL + WINDOW. Of
        the addresses [SHARED + 8, an address of global memory, SHARED + 12], the result is one access to shared memory
        by the threads at the positions 0 and 2 of the frame, whose offsets in the memory of their block are 8 and 12.

        addresses: generic addresses, uint64 [n].
        """
        accesses: list[MemoryAccess] = []
        lowest, highest = int(addresses.min()), int(addresses.max())
        for base in (SHARED, LOCAL):
            if highest < base or lowest >= base + WINDOW:
                continue
            in_window = (addresses >= np.uint64(base)) & (addresses < np.uint64(base + WINDOW))
            if not in_window.any():
                continue
            offsets = (addresses - np.uint64(base)).astype(np.int64)
            is_shared = base == SHARED
            if in_window.all():
                return [self.resolve_window(frame, positions=None, offsets=offsets, shared=is_shared)]
            positions = np.flatnonzero(in_window)
            accesses.append(self.resolve_window(frame, positions, offsets[positions], is_shared))
        return accesses

    def _resolve_allocation(self, frame: Frame, addresses: Any, resolved: Any) -> MemoryAccess:
        """Resolve the threads that access the same allocation as the first unresolved thread, and return their access.

        Say that no thread is resolved, and that the threads at positions 0 and 2 have addresses in an allocation X, and
        the thread at position 1 in Y. The result is the access of the threads 0 and 2 to X, and `resolved` becomes
        [True, False, True]. The next call returns the access of thread 1 to Y.

        Args:
            frame: The threads that run.
            addresses: Global or generic addresses, uint64 [n].
            resolved: Mask of the threads that earlier calls, or the windows, have resolved, bool [n]. The threads of
                the result are added to it.
        """
        first = int(np.argmin(resolved))
        allocation = self._allocation_at(frame, first, int(addresses[first]))
        is_inside = (addresses >= np.uint64(allocation.start)) & (addresses < np.uint64(allocation.end)) & ~resolved
        # Atomic operations on the last bytes reach the padding to a whole word, as on any GPU.
        end = allocation.start + allocation.data.size if self.atomic else allocation.end
        is_leaving = is_inside & (addresses + np.uint64(self.size) > np.uint64(end))
        # The first thread may be outside: after the kernel's parameters, or in an allocation without bytes. As all
        # threads before it are resolved, its fault is the one that is reported.
        is_leaving[first] |= not is_inside[first]
        if is_leaving.any():
            position = int(np.argmax(is_leaving))
            self._fault(frame, position, int(addresses[position]), f"; it leaves the {allocation}")
        if self.write and not allocation.writable:
            self._fault(frame, first, int(addresses[first]), f"; it can only be read: {allocation}")
        resolved |= is_inside
        positions = None if is_inside.all() else np.flatnonzero(is_inside)
        offsets = (addresses - np.uint64(allocation.start)).view(np.int64)
        access = MemoryAccess(positions, allocation, offsets if positions is None else offsets[positions])
        self.record(frame, access)
        return access

    def _allocation_at(self, frame: Frame, position: int, address: int) -> Allocation:
        """Return the allocation with the address of the thread at a position, or report a fault if there is none."""
        if PARAM <= address < PARAM + WINDOW:  # the kernel's parameters are no part of global memory
            return frame.batch.launch.params
        memory = frame.batch.memory
        allocation = memory.find(address)
        if allocation is None:
            self._fault(frame, position, address, memory.describe_near(address))
        return allocation

    def _check_alignment(self, frame: Frame, positions: Any, addresses: Any) -> None:
        """Report a fault if an address is not a multiple of the access size.

        positions: of the threads in the frame, one for each address; None: all threads.
        """
        # The size is a power of two: the low bits of a multiple are 0. The mask has the addresses' own integer type.
        misaligned = addresses & type(addresses.flat[0])(self.size - 1)
        if misaligned.any():
            index = int(np.argmax(misaligned != 0))
            position = index if positions is None else int(positions[index])
            frame.fault(
                self._instruction, position,
                f"misaligned address {int(addresses[index]):#x}: {self.size} bytes need a multiple of {self.size}",
            )  # fmt: skip

    def resolve_window(self, frame: Frame, positions: Any, offsets: Any, shared: bool) -> MemoryAccess:
        """Check an access to shared or local memory, and return it.

        Both are windows: the same addresses name a different memory in each block (shared) or thread (local). The
        memories of a batch are in one array, one after the other, so the start of each thread's memory is added to its
        offset. With shared memories of 1024 bytes, the offset 20 in a thread of the batch's second block becomes 1044.

        Args:
            frame: The threads that run.
            positions: Positions of the accessing threads in the frame, int64 [threads]; None: all.
            offsets: Bytes from the start of each one's shared or local memory, int64 [threads].
            shared: Whether the memory is shared, else it is local.
        """
        batch, size = frame.batch, self.size
        limit = batch.launch.shared_bytes if shared else batch.local_stride
        # The OR of all offsets shows in nearly all cases that all are valid. It is negative or misaligned if one of the
        # offsets is, and at least as large as the largest one. It may be larger (4 | 8 = 12), so the maximum is
        # computed if the OR exceeds the limit.
        all_bits = int(np.bitwise_or.reduce(offsets))
        if all_bits & (size - 1):
            self._check_alignment(frame, positions, offsets)
        if all_bits < 0 or (all_bits > limit - size and int(offsets.max()) > limit - size):
            self._fault_outside(frame, positions, offsets, shared, limit)
        starts = frame.shared_bases() if shared else frame.threads * batch.local_stride
        own_starts = starts if positions is None else starts[positions]
        memory = batch.shared if shared else batch.local
        # MemoryAccess(...) is a Python call, which would cost more than the rest of the access.
        access: MemoryAccess = tuple.__new__(MemoryAccess, (positions, memory, offsets + own_starts))
        if shared:  # local memory belongs to one thread, and has no data races
            self.record(frame, access)
        return access

    def _fault_outside(self, frame: Frame, positions: Any, offsets: Any, shared: bool, limit: int) -> NoReturn:
        """Report the first access outside of the shared or local memory, which has `limit` bytes.

        Args:
            frame: The threads that run.
            positions: Positions of the accessing threads in the frame, int64 [threads]; None: all.
            offsets: Bytes from the start of each one's shared or local memory, int64 [threads].
            shared: Whether the memory is shared, else it is local.
            limit: Bytes of shared memory of a block, or of local memory of a thread.
        """
        index = int(np.argmax((offsets < 0) | (offsets > limit - self.size)))
        why = f"; the thread has {limit} bytes"
        if shared:
            dynamic = frame.batch.launch.dynamic_shared
            why = f"; the block has {limit} bytes of shared memory, {dynamic} of them given at launch"
        position = index if positions is None else int(positions[index])
        self._fault(frame, position, int(offsets[index]), why, space="shared" if shared else "local")

    def _fault(self, frame: Frame, position: int, address: int, why: str, space: str = "") -> NoReturn:
        """Report the access of a thread to an invalid address.

        Args:
            frame: The threads that run.
            position: Position of the thread in the frame.
            address: The address, or in a named space the offset.
            why: End of the message, which says what is wrong.
            space: Name of the state space for the message; "": that of the instruction.
        """
        verb = "writes" if self.write else "reads"
        space = space or ("" if self.space == "generic" else self.space)
        where = f"{space}{' ' if space else ''}{address:#x}"
        frame.fault(self._instruction, position, f"{verb} {self.size} bytes at {where}{why}")
