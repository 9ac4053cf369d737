"""Memory of the PTX interpreter."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch._core.device import poison_requested
from pydispatch._core.process_lock import process_lock
from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.accelerators import context as base
from pydispatch.runtime.accelerators.context import view_of
from pydispatch.runtime.simulators.ptx.machine import Machine

if TYPE_CHECKING:
    from pydispatch.runtime.simulators.ptx.image import Loaded


class Block:
    """Allocation of simulated device memory.

    Attributes:
        address: Device address. No later block gets it again.
        number: Number by which caches of recordings identify the block: its address.
        size: Requested bytes, not rounded, so that any access out of bounds is found.
        is_borrowed: Whether the memory is that of a caller's array, which kernels may only read.
    """

    __slots__ = ("address", "is_borrowed", "number", "size")

    def __init__(self, address: int, size: int, is_borrowed: bool) -> None:
        """Create a block. is_borrowed: whether the memory is that of a caller's array, which kernels may only read."""
        self.address = self.number = address
        self.size, self.is_borrowed = size, is_borrowed


class Context(base.Context):
    """Open PTX interpreter: a simulated GPU with its memory. Methods hold `lock`, and work is done when they return.

    Attributes:
        capability: Compute capability, (major, minor).
        races: Whether data races between threads of a kernel are reported.
        machine: Interpreter of kernels.
        memory: Its device memory.
        released_blocks, released_modules: Blocks and modules that are not used any more. `allocate`, `trim` and others
            that hold `lock` free them.
        live_bytes, live_blocks: Bytes and number of blocks in use, without borrowed ones.
        peak_bytes: Largest `live_bytes` so far.
    """

    def __init__(self, name: str, capability: tuple[int, int], races: bool) -> None:
        """Create a device without allocations and modules.

        name: for messages, such as "ptx-interpreter". capability: compute capability, (major, minor). races: whether to
        report data races between threads of a kernel.
        """
        self.name, self.capability = name, capability
        self.races = races
        self.machine = Machine(capability, races=races)
        self.memory = self.machine.memory
        self.lock = process_lock()
        self.released_blocks: deque[Block] = deque()  # blocks and modules to free when no kernel runs
        self.released_modules: deque[Loaded] = deque()
        self.live_bytes = self.peak_bytes = self.live_blocks = 0
        self.closed = False
        self.borrow = self._borrow  # kernels read arrays of the host without a copy; None on other devices
        self.transfers = base.Transfers()  # counts of copies and their bytes
        self.is_poisoned = poison_requested()  # PYDISPATCH_CHECK=poison: new memory is filled with a pattern, not 0
        self.memory.initial_shared_byte = base.POISON_BYTE if self.is_poisoned else 0

    def allocate(self, size: int) -> Block:
        """Allocate a block of exactly `size` bytes."""
        with self.lock:
            self._free_released()
            block = Block(self.memory.allocate(size), size, is_borrowed=False)
            self.live_bytes += size
            self.live_blocks += 1
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            return block

    def _borrow(self, array: Any, size: int) -> Block:
        """Return a block over the memory of an array, which kernels may read; writing it is an error."""
        with self.lock:
            self._free_released()
            flat = np.frombuffer(view_of(base.bytes_of(array), size), np.uint8)
            flat.flags.writeable = False
            return Block(self.memory.adopt(flat), size, is_borrowed=True)

    def release(self, block: Block) -> None:
        self.released_blocks.append(block)  # not freed here: the garbage collector may call this during a launch

    def _free_released(self) -> None:
        """Free the blocks and modules that were queued for release."""
        while self.released_blocks:
            block = self.released_blocks.popleft()
            self.memory.free(block.address)  # of a borrowed block only the address range: the caller owns the array
            if not block.is_borrowed:
                self.live_bytes -= block.size
                self.live_blocks -= 1
        while self.released_modules:
            self.released_modules.popleft().free()

    def upload(self, block: Block, source: base.HostMemory, size: int) -> None:
        """Copy `size` bytes of host memory to the start of a block."""
        with self.lock:
            self.memory.view(block.address, size)[:] = np.frombuffer(view_of(source, size), np.uint8)

    def copy_out(self, block: Block, target: base.HostMemory, size: int, at: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to host memory."""
        with self.lock:
            view_of(target, size, writable=True)[:] = self.memory.view(block.address + at, size).data
        self.transfers.add("from_device", size)

    def copy(self, source: Block, target: Block, size: int, at: int = 0, to: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to byte `to` of another block."""
        with self.lock:
            self.memory.view(target.address + to, size)[:] = self.memory.view(source.address + at, size)

    def view(self, block: Block, size: int) -> memoryview | None:
        """Return the first `size` bytes of a block, which are memory of this process."""
        with self.lock:
            return self.memory.view(block.address, size).data

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device is closed; a simulated device is never lost."""
        if self.closed:
            raise DeviceUnavailableError(f"{self.name} was closed")

    def stats(self) -> dict[str, int]:
        """Return the bytes and number of blocks in use, and the peak bytes; released blocks are not retained."""
        with self.lock:
            self._free_released()
            return {
                "live_bytes": self.live_bytes, "free_bytes": 0, "peak_bytes": self.peak_bytes,
                "live_blocks": self.live_blocks,
            }  # fmt: skip

    def trim(self) -> None:
        """Free the blocks and modules that are queued for release."""
        with self.lock:
            self._free_released()

    def close(self) -> None:
        """Wait for a running call, which holds the lock, and refuse further work. Live buffers keep their content."""
        with self.lock:
            self.closed = True
