"""Interface of an open accelerator device, as programs and buffers use it: blocks of memory, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pydispatch._core.device import memory_at
from pydispatch._core.process_lock import process_lock
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

HostMemory = Any
"""Bytes of the process: a contiguous array or another object with the buffer protocol, or their address as an int."""


POISON_BYTE = 0xFF
"""Byte that fills new blocks if PYDISPATCH_CHECK=poison is set: floats of such bytes are NaN, so that results show
reads of unwritten memory. Same as PYD_POISON_BYTE of pydispatch/pool.h."""

NATIVE_TYPES = (Buffer, np.ndarray, np.generic, int, float, complex)
"""Types of arguments that are not passed to `Context.convert`, which makes buffers of arrays of other libraries."""


class Block(Protocol):
    """Range of device memory. number: identifies the block; no two blocks of a context have the same number."""

    @property
    def number(self) -> int: ...


class Transfers:
    """Thread-safe counters of copies between host memory and a device."""

    def __init__(self) -> None:
        """Create counters of the copies in each direction and of their bytes, at 0."""
        self._lock = process_lock()
        self._counts = dict.fromkeys(("to_device", "to_device_bytes", "from_device", "from_device_bytes"), 0)

    def add(self, direction: str, size: int) -> None:
        """Count one copy of `size` bytes; a copy of 0 bytes is not counted. direction: "to_device" or "from_device"."""
        if size == 0:
            return
        with self._lock:
            self._counts[direction] += 1
            self._counts[direction + "_bytes"] += size

    def counts(self) -> dict[str, int]:
        """Return the number of copies and of bytes in each direction since the device was opened."""
        with self._lock:
            return dict(self._counts)


class Context(Protocol):
    """Interface of an open device, as programs and buffers use it: memory and copies.

    Work takes effect in the order in which it is submitted; a device may complete it later.

    The most recently released block is handed out first, possibly at once. This is safe because later work runs after
    earlier work that still uses the block.
    """

    name: str
    """Name of the device, such as "vulkan:0"."""

    transfers: Transfers
    """Counters of the copies that `copy_in` and `copy_out` make."""

    is_poisoned: bool
    """Whether blocks are filled with NaN before they are handed out, as PYDISPATCH_CHECK=poison requests."""

    borrow: Callable[[NDArray[Any], int], Any] | None = None
    """borrow(array, bytes) → a block over the memory of an array, or None if the caller has to copy the array.

    The device only reads such a block, and the caller releases it with `release`. The function is None on a device that
    may still read the array after a run has returned.
    """

    convert: Callable[..., Any] | None = None
    """convert(value, is_out=False) is called for arguments and `out=` values of other types than NumPy's arrays,
    buffers and numbers. For an array of another library in memory of this device, it returns a buffer over this memory;
    else it returns the value. None on a device that shares no memory with other libraries."""

    def acquire(self, size: int) -> Any:
        """Return a block of at least `size` bytes with undefined content.

        If `is_poisoned` (requested by PYDISPATCH_CHECK=poison), it is filled with POISON_BYTE, so that floats that a
        kernel reads before they are written are NaN. Raise OutOfMemoryError, which names the size.
        """
        block = self.allocate(size)
        if self.is_poisoned and size:
            try:
                self.upload(block, np.full(size, POISON_BYTE, np.uint8), size)
            except BaseException:
                self.release(block)
                raise
        return block

    def allocate(self, size: int) -> Any:
        """Return a block of at least `size` bytes with undefined content; implements `acquire`.

        If `is_poisoned`, `acquire` fills the block with NaN after this method has returned.
        """

    def release(self, block: Any) -> None:
        """Release a block to its pool. Never blocks, because any thread and the garbage collector may call it."""

    def copy_in(self, block: Any, source: HostMemory, size: int) -> None:
        """Copy `size` bytes of host memory to the start of a block. The source may change when the call returns."""
        if size:
            self.transfers.add("to_device", size)
            self.upload(block, source, size)

    def upload(self, block: Any, source: HostMemory, size: int) -> None:
        """Copy `size` bytes, more than 0, of host memory to the start of a block. `copy_in` counts and calls it."""

    def copy_out(self, block: Any, target: HostMemory, size: int, at: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to host memory; the copy is complete on return."""

    def copy(self, source: Any, target: Any, size: int, at: int = 0, to: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to byte `to` of another block."""

    def view(self, block: Any, size: int) -> memoryview | None:
        """Wait for work on a block, and return its bytes as writable memory; None if the CPU cannot access them."""

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device is closed or lost."""

    def stats(self) -> dict[str, int]:
        """Return live_bytes, free_bytes, peak_bytes and live_blocks."""

    def trim(self) -> None:
        """Return unused memory to the driver."""

    def close(self) -> None:
        """Wait for work in flight, and refuse further work. Live buffers keep their content."""


class DeviceMemory:
    """Block in use, released with this object; implements `pydispatch.runtime.buffer.Memory`.

    Attributes:
        context: Open device that has the block.
        block: The block.
        size: Bytes in use; the block may be larger.
    """

    __slots__ = ("__weakref__", "block", "context", "size")

    def __init__(self, context: Any, block: Any, size: int) -> None:
        self.context, self.block, self.size = context, block, size

    def __del__(self) -> None:
        """Release the block to its pool."""
        if hasattr(self, "size"):  # a signal handler's exception can leave __init__ anywhere
            self.context.release(self.block)

    @property
    def device_name(self) -> str:
        """Name of the device that has the memory, such as "cuda:0"."""
        return str(self.context.name)

    def view(self) -> memoryview | None:
        """Wait for work on the block, and return its bytes in use; None if the CPU cannot access them."""
        view: memoryview | None = self.context.view(self.block, self.size)
        return view

    def read(self, target: memoryview) -> None:
        """Copy the first bytes of the block into host memory, as many as `target` has."""
        self.context.copy_out(self.block, target, target.nbytes)

    def write(self, source: memoryview) -> None:
        """Copy host memory to the start of the block."""
        self.context.copy_in(self.block, source, source.nbytes)


def bytes_of(array: Any) -> HostMemory:
    """Return an array as `HostMemory`: itself, or its address if NumPy exposes no buffer for its type (ml_dtypes)."""
    is_type_of_numpy = array.dtype.kind != "V" and array.dtype.isbuiltin == 1
    return array if is_type_of_numpy else array.__array_interface__["data"][0]


def view_of(source: HostMemory, size: int, writable: bool = False) -> memoryview:
    """Return the first `size` bytes of host memory, an address or an object with a buffer, as a memoryview of bytes.

    writable: whether memory at an address may be written. Memory of an object is writable if the object is.
    """
    if type(source) is int:
        return memory_at(source, size, writable)
    if size == 0:  # an array without elements may have strides that memoryview does not cast
        return memoryview(bytearray())
    if isinstance(source, np.ndarray):
        source = source.reshape(-1).view(np.uint8)
    return memoryview(source).cast("B")[:size]
