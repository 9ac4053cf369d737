"""Device memory: allocations at synthetic addresses with gaps between them, so that every out-of-bounds access is
detected. A frame has the n threads that execute an instruction together.

Addresses are never reused, so an access after `free` is detected and named too. Not thread-safe.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pydispatch.errors import InvalidArgumentError, OutOfMemoryError

FIRST_ADDRESS = 0x10_0000_0000
"""The first address: above 32 bits, so that truncated pointers are detected."""
GAP_BYTES = 4096
"""Bytes between two allocations, at least."""
ALIGNMENT = 256
"""Divisor of the first address of each allocation, in bytes."""
WORD = 4
"""Bytes of a word, to which allocations are padded."""
SHARED = 0x7F00_0000_0000
"""Generic address of byte 0 of shared memory: each block reaches its own memory at the same addresses."""
LOCAL = 0x7E00_0000_0000
"""Generic address of byte 0 of local memory: each thread reaches its own memory at the same addresses."""
PARAM = 0x7D00_0000_0000
"""Generic address of the first kernel parameter."""
WINDOW = 1 << 32
"""Size in bytes of each range of generic addresses: that of shared memory, of local memory, and of parameters."""
_MAX_FREED = 256
"""Number of freed allocations that are remembered for messages."""


class ElementViews(dict[np.dtype[Any], Any]):
    """Bytes of memory as arrays of other types: `views[dtype]`, without an incomplete element at the end.

    A dict that creates a missing view, because a load or store must not cost a Python call to find an existing one.
    """

    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Begin without views. data: the bytes."""
        super().__init__()
        self._data = data

    def __missing__(self, dtype: np.dtype[Any]) -> Any:
        """Create the view of the bytes as elements of `dtype`, and cache it."""
        byte_count = self._data.size // dtype.itemsize * dtype.itemsize
        view = self[dtype] = self._data[:byte_count].view(dtype)
        return view


@dataclass(eq=False)
class Allocation:
    """Allocation of the simulated GPU, a range of addresses; accesses outside of all allocations are faults.

    Attributes:
        start: Its first address; 0 for the shared and local memory of a batch, which are reached by offsets.
        size: Bytes of the range.
        data: The bytes, uint8, padded to a whole word: atomic operations on the last bytes of an allocation reach the
            padding, as on any GPU.
        kind: "global", "const", "shared" or "local".
        name: Name for messages, such as that of a module's variable; "" for none.
        live: Whether it is not freed.
        is_adopted: Whether the bytes are those of a caller's array.
        views: The bytes as arrays of other types.
    """

    start: int
    size: int
    data: np.ndarray[Any, np.dtype[np.uint8]]
    kind: str = "global"
    name: str = ""
    live: bool = True
    is_adopted: bool = False
    views: ElementViews = field(init=False)

    def __post_init__(self) -> None:
        """Create the views of the bytes in other types."""
        self.views = ElementViews(self.data)

    def free(self) -> None:
        """Release the bytes. `start` and `size` remain, for messages about later accesses."""
        self.live = False
        self.data = np.zeros(0, np.uint8)
        self.views = ElementViews(self.data)

    @property
    def end(self) -> int:
        """The address after its last byte, without padding."""
        return self.start + self.size

    @property
    def writable(self) -> bool:
        """Whether kernels may write it: not for constants, nor for arrays of callers that are read-only."""
        return bool(self.data.flags.writeable) and self.kind != "const"

    def __str__(self) -> str:
        """Return what the range is, its size and its address, for messages."""
        named = f"variable '{self.name}'" if self.name else "allocation"
        return f"{named} of {self.size} bytes at {self.start:#x}"


class MemoryAccess(NamedTuple):
    """Bytes of one allocation that threads of a frame access with one instruction.

    An instruction whose threads access several allocations has one MemoryAccess for each allocation. If there is only
    one, it is for all threads.
    """

    positions: Any
    """Positions in the frame of the threads, int64 [threads]; None: all threads of the frame. Read it through
    `select_threads` and `assign_threads`."""
    memory: Allocation
    """The allocation, or the shared or local memory of the batch."""
    offsets: Any
    """Where in the memory the access of each thread begins, in bytes, int64 [threads]."""

    def select_threads(self, values: Any) -> Any:
        """Return the values of the accessing threads, [threads, ...], from the values of all threads of the frame."""
        return values if self.positions is None else values[self.positions]

    def assign_threads(self, target: Any, values: Any) -> None:
        """Store values of the accessing threads, [threads, ...], among those of all threads of the frame, [n, ...]."""
        if self.positions is None:
            target[...] = values
        else:
            target[self.positions] = values


class GlobalMemory:
    """Global and constant memory of a machine: allocations at addresses that are never reused, with gaps between them.

    So an access beyond an allocation, or to one that was freed, is an error instead of an access to another one.

    limit: total bytes that `allocate` may allocate.
    """

    def __init__(self, limit: int = 64 << 30) -> None:
        """Create memory without allocations. For `limit`, see the class."""
        self._limit, self._used = limit, 0
        self._next = FIRST_ADDRESS
        self.initial_shared_byte = 0
        """Value of all bytes of shared memory when a block of threads begins: 0, or POISON_BYTE if the device poisons
        memory: floats that were not written are then NaN."""
        self._starts: list[int] = []  # first addresses of the allocations, in order
        self._allocations: list[Allocation] = []  # in the order of their addresses
        self._freed: list[Allocation] = []  # those freed last, for messages about accesses to them

    def allocate(self, nbytes: int, kind: str = "global", name: str = "") -> int:
        """Allocate nbytes of zeros, and return their address, a multiple of `ALIGNMENT`.

        Args:
            nbytes: Number of bytes that the kernel may access; 0 or more.
            kind: "global" or "const"; kernels may not write to a constant.
            name: Name for messages, such as that of a module's variable; "" for none.

        Raises:
            InvalidArgumentError: nbytes is negative.
            OutOfMemoryError: The limit of this memory is exceeded, or the host has no memory left.
        """
        if nbytes < 0:
            raise InvalidArgumentError(f"memory: expected a size of 0 or more bytes, got {nbytes}")
        if self._used + nbytes > self._limit:
            raise OutOfMemoryError(
                f"the interpreter of PTX has no memory for {nbytes} bytes: {self._used} of {self._limit} are in use; "
                "let go of buffers, or work in smaller pieces"
            )
        try:
            # Whole words: atomic operations on the last bytes reach the padding, as on any GPU.
            data = np.zeros(-(-nbytes // WORD) * WORD, np.uint8)
        except MemoryError:
            raise OutOfMemoryError(f"memory: the host has no {nbytes} bytes left") from None
        self._used += nbytes
        return self._append_allocation(data, nbytes, kind, name)

    def adopt(self, array: np.ndarray[Any, Any]) -> int:
        """Adopt a C-contiguous array as an allocation, and return its address: kernels read and write the array itself,
        until `free`.
        """
        if not array.flags.c_contiguous:
            raise InvalidArgumentError("memory: only C-contiguous arrays can be adopted; copy it first")
        bytes_ = array.reshape(-1).view(np.uint8)
        return self._append_allocation(bytes_, array.nbytes, kind="global", name="", is_adopted=True)

    def _append_allocation(self, data: Any, size: int, kind: str, name: str, is_adopted: bool = False) -> int:
        """Add an allocation after the last one, with a gap, and return its address.

        `size` is the requested number of bytes; `data` may have more, up to a whole word.
        """
        start = self._next
        self._next = -(-(start + data.size + GAP_BYTES) // ALIGNMENT) * ALIGNMENT
        self._starts.append(start)
        self._allocations.append(Allocation(start, size, data, kind, name, is_adopted=is_adopted))
        return start

    def free(self, address: int) -> None:
        """End the allocation that begins at `address`. Its addresses are never reused, so that later accesses fault."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or self._starts[index] != address:
            raise InvalidArgumentError(
                f"memory: {address:#x} is no address of an allocation{self.describe_near(address)}"
            )
        allocation = self._allocations.pop(index)
        del self._starts[index]
        if not allocation.is_adopted:  # adopted arrays do not count: their owners have allocated them
            self._used -= allocation.size
        allocation.free()
        self._freed.append(allocation)
        del self._freed[:-_MAX_FREED]  # the last ones are remembered for messages

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds the byte at an address, or begins there without any bytes; None if there is
        none.
        """
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        allocation = self._allocations[index]
        return allocation if address < allocation.start + max(allocation.size, 1) else None

    def describe_near(self, address: int) -> str:
        """Return text for the end of a message: the allocation at or nearest to an address, such as '; nearest: 8 bytes
        past the end of the allocation of 64 bytes at 0x1000000000'.
        """
        for freed in reversed(self._freed):
            if freed.start <= address < freed.start + max(freed.size, 1):
                return f"; it was freed: {freed}"
        index = bisect_right(self._starts, address) - 1
        neighbours = [self._allocations[i] for i in (index, index + 1) if 0 <= i < len(self._allocations)]
        if not neighbours:
            return "; nothing is allocated"
        # By the distance of the address from the start of an allocation after it, or the end of one before it.
        nearest = min(neighbours, key=lambda a: a.start - address if a.start > address else address - a.end)
        if nearest.start > address:
            return f"; nearest: {nearest.start - address} bytes before the {nearest}"
        if address < nearest.end:
            return f"; it is {address - nearest.start} bytes into the {nearest}"
        return f"; nearest: {address - nearest.end} bytes past the end of the {nearest}"

    def view(self, address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes at an address in place, uint8 [nbytes].

        InvalidArgumentError when they leave the allocation.
        """
        allocation = self.find(address)
        if allocation is None or nbytes < 0 or nbytes > allocation.end - address:
            raise InvalidArgumentError(
                f"memory: {nbytes} bytes at {address:#x} lie in no allocation{self.describe_near(address)}"
            )
        start = address - allocation.start
        return allocation.data[start : start + nbytes]

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of the bytes at an address."""
        return self.view(address, nbytes).tobytes()

    def write(self, address: int, data: bytes | bytearray | memoryview | np.ndarray[Any, Any]) -> None:
        """Copy bytes, or an array's bytes, to an address."""
        if isinstance(data, np.ndarray):
            source = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        else:
            source = np.frombuffer(data, np.uint8)
        self.view(address, source.size)[:] = source

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """Write a pattern count times in sequence."""
        target = self.view(address, len(pattern) * count)
        target.reshape(count, len(pattern))[:] = np.frombuffer(pattern, np.uint8)
