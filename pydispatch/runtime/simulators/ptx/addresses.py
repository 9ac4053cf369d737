"""Resolves addresses of threads, checked against allocations, shared memory of blocks and local memory of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from pydispatch.formats.ptx.module import Address, Instruction, Operand, Register
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.memory import FIRST, LOCAL, PARAM, SHARED, WINDOW, Allocation

ADDRESS_BYTES = 8
ALL_ADDRESS_BITS = (1 << 8 * ADDRESS_BYTES) - 1

Piece = tuple[Any, Allocation, Any]
"""(positions in the frame or None for all, the array with the bytes, offsets in it, int64)."""
Finder = Callable[[list[Any]], list[Piece]]

_SPACES = {
    "global": "global", "const": "global", "shared": "shared", "shared::cta": "shared", "local": "local",
    "param": "global", "param::entry": "global",
}  # fmt: skip


def space_of(instruction: Instruction) -> str:
    """Return the state space of an instruction: global (includes const and kernel parameters), shared, local or
    generic.
    """
    return next((_SPACES[m] for m in instruction.modifiers if m in _SPACES), "generic")


def finder(
    builder: FunctionBuilder,
    instruction: Instruction,
    operand: Operand | None,
    size: int,
    write: bool,
    atomic: bool = False,
) -> Finder:
    """Return a function that resolves an address operand of `size` bytes for each thread. size is also the
    alignment."""
    if not isinstance(operand, Address):
        builder.fail(instruction, "has no [address] where one is expected")
    space = space_of(instruction)
    if isinstance(operand.base, Register):
        width = builder.register_size(operand.base) or 8
        base, offset = builder.source(instruction, operand.base, f"u{8 * width}"), operand.offset
    elif operand.base is None:
        base, offset = builder.constant(np.uint64(operand.offset & ALL_ADDRESS_BITS)), 0
    else:
        base, offset = builder.source(instruction, operand.base, "u64"), operand.offset
    strong = atomic or any(m in ("volatile", "relaxed", "acquire", "release", "mmio") for m in instruction.modifiers)
    slow = Slow(instruction, space, size, write, strong, atomic)
    if space in ("shared", "local"):
        return _window(base, offset, slow)
    return _global(base, offset, slow)


def moved(base: Any, offset: Any) -> Any:
    """Return addresses plus bytes, int64: addresses of 32 bits wrap there."""
    a = base.astype(np.int64)
    if isinstance(offset, int) and not offset:
        return a
    return a + offset if base.dtype.itemsize == 8 else (a + offset) & 0xFFFFFFFF


def _window(base: int, offset: int, slow: Slow) -> Finder:
    """Find shared and local addresses, which are offsets into the block's or the thread's memory."""
    shared = slow.space == "shared"

    def find(regs: list[Any]) -> list[Piece]:
        """Return the piece of shared or local memory at a register plus a constant."""
        frame = regs[0]
        addresses = moved(regs[base], offset)
        if not addresses.ndim:
            addresses = np.broadcast_to(addresses, frame.n)
        return [slow.window(frame, None, addresses, shared)]

    return find


def _global(base: int, offset: int, slow: Slow) -> Finder:
    """Return the address lookup for global and generic addresses, with a fast path for the allocation of the previous
    access.

    Args:
        base: Slot of the register with the base addresses.
        offset: Bytes added to each.
        slow: The lookup without a fast path, which reports faults.
    """
    size = slow.size
    alignment_mask = np.uint64(size - 1)
    # The allocation, the base address that reads its first byte, the last offset in bounds, and the memory.
    previous: list[Any] = [None, None, 0, 0]

    def find(regs: list[Any]) -> list[Piece]:
        """Return the pieces of memory that the threads of a frame access."""
        addresses = regs[base]
        if not addresses.ndim or addresses.dtype.itemsize != ADDRESS_BYTES:
            addresses = np.broadcast_to(addresses, regs[0].n).astype(np.uint64)
        allocation, start, limit, memory = previous
        frame = regs[0]
        if allocation is not None and allocation.live and memory is frame.batch.memory:
            offsets = addresses - start
            all_bits = np.bitwise_or.reduce(offsets)
            if not all_bits & alignment_mask and (all_bits <= limit or offsets.max() <= limit):
                offsets = offsets.view(np.int64)
                if frame.batch.races is not None:
                    slow.note(frame, None, allocation, offsets)
                return [(None, allocation, offsets)]
        pieces = slow.find(frame, addresses + np.uint64(offset & ALL_ADDRESS_BITS) if offset else addresses)
        hit = pieces[0][1]
        if len(pieces) == 1 and hit.start >= FIRST and hit.size >= size and hit.live:
            start_of_bases = np.uint64((hit.start - offset) & ALL_ADDRESS_BITS)
            previous[:] = hit, start_of_bases, np.uint64(hit.size - size), frame.batch.memory
        return pieces

    return find


class Slow:
    """Slow path of address lookup, which handles one allocation at a time and reports faults."""

    def __init__(
        self, instruction: Instruction, space: str, size: int, write: bool, strong: bool, atomic: bool = False
    ) -> None:
        self.i, self.space, self.size, self.write, self.strong, self.atomic = (
            instruction,
            space,
            size,
            write,
            strong,
            atomic,
        )
        words = instruction.modifiers
        self._releases = ("release" in words or "acq_rel" in words) and ("gpu" in words or "sys" in words)

    def note(self, frame: Frame, positions: Any, store: Allocation, at: Any) -> None:
        """Report an access to the detector of data races, if there is one."""
        races = frame.batch.races
        if races is not None:
            if self._releases:
                races.fence(frame)
            races.access(frame, self.i, positions, store, at, self.size, self.write, self.strong)

    def find(self, frame: Frame, addresses: Any) -> list[Piece]:
        """Return parts of an access, by address window and allocation."""
        self._aligned(frame, None, addresses)
        pieces: list[Piece] = []
        lowest, highest = int(addresses.min()), int(addresses.max())
        for base in (SHARED, LOCAL):
            if self.space == "generic" and highest >= base and lowest < base + WINDOW:
                in_window = (addresses >= np.uint64(base)) & (addresses < np.uint64(base + WINDOW))
                if not in_window.any():
                    continue
                positions = None if in_window.all() else np.flatnonzero(in_window)
                offsets = (addresses - np.uint64(base)).astype(np.int64)
                pieces.append(self.window(frame, positions, offsets if positions is None else offsets[positions],
                                          base == SHARED))  # fmt: skip
                if positions is None:
                    return pieces
        resolved = np.zeros(frame.n, bool)
        for positions, _, _ in pieces:
            resolved[positions] = True
        while not resolved.all():
            pieces.append(self._allocation(frame, addresses, resolved))
        return pieces

    def _allocation(self, frame: Frame, addresses: Any, resolved: Any) -> Piece:
        """Return the allocation of the first unresolved thread, and all threads that access it."""
        first = int(np.argmin(resolved))
        address = int(addresses[first])
        store = frame.batch.launch.params if PARAM <= address < PARAM + WINDOW else frame.batch.memory.find(address)
        if store is None:
            self._lost(frame, first, address, frame.batch.memory.near(address))
        in_store = (addresses >= np.uint64(store.start)) & (addresses < np.uint64(store.end)) & ~resolved
        end = store.start + store.data.size if self.atomic else store.end
        if not in_store[first] or address + self.size > end:
            self._lost(frame, first, address, f"; it leaves the {store}")
        leaving = in_store & (addresses + np.uint64(self.size) > np.uint64(end))
        if leaving.any():
            position = int(np.argmax(leaving))
            self._lost(frame, position, int(addresses[position]), f"; it leaves the {store}")
        if self.write and not store.writable:
            self._lost(frame, first, address, f"; it can only be read: {store}")
        resolved |= in_store
        positions = None if in_store.all() else np.flatnonzero(in_store)
        offsets = (addresses - np.uint64(store.start)).view(np.int64)
        offsets = offsets if positions is None else offsets[positions]
        self.note(frame, positions, store, offsets)
        return positions, store, offsets

    def _aligned(self, frame: Frame, positions: Any, addresses: Any) -> None:
        """Report a fault if an address is not a multiple of the access size."""
        misaligned = addresses & type(addresses.flat[0])(self.size - 1)
        if misaligned.any():
            index = int(np.argmax(misaligned != 0))
            position = index if positions is None else int(positions[index])
            frame.fault(
                self.i, position,
                f"misaligned address {int(addresses[index]):#x}: {self.size} bytes need a multiple of {self.size}",
            )  # fmt: skip

    def window(self, frame: Frame, positions: Any, offsets: Any, shared: bool) -> Piece:
        """Return a piece of shared or local memory."""
        batch, size = frame.batch, self.size
        limit = batch.launch.shared_bytes if shared else batch.local_stride
        all_bits = int(np.bitwise_or.reduce(offsets))
        if all_bits & (size - 1):
            self._aligned(frame, positions, offsets)
        if all_bits < 0 or (all_bits > limit - size and int(offsets.max()) > limit - size):
            out_of_bounds = (offsets < 0) | (offsets > limit - size)
            index = int(np.argmax(out_of_bounds))
            what = f"; the thread has {limit} bytes"
            if shared:
                dynamic = batch.launch.dynamic_shared
                what = f"; the block has {limit} bytes of shared memory, {dynamic} of them given at launch"
            self._lost(frame, index if positions is None else int(positions[index]), int(offsets[index]), what,
                       "shared" if shared else "local")  # fmt: skip
        bases = frame.shared_bases() if shared else frame.threads * batch.local_stride
        offsets_in_store = offsets + (bases if positions is None else bases[positions])
        store = batch.shared if shared else batch.local
        if shared:
            self.note(frame, positions, store, offsets_in_store)
        return positions, store, offsets_in_store

    def _lost(self, frame: Frame, position: int, address: int, why: str, space: str = "") -> NoReturn:
        doing = "writes" if self.write else "reads"
        space = space or ("" if self.space == "generic" else self.space)
        frame.fault(self.i, position, f"{doing} {self.size} bytes at {space}{' ' if space else ''}{address:#x}{why}")
