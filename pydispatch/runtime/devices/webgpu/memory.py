"""WebGPU memory: one wgpu buffer per block, reused by a pool.

Blocks are not suballocated, because a dispatch cannot bind one part of a buffer as read-only and write another part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydispatch.errors import DeviceUnavailableError, OutOfMemoryError
from pydispatch.runtime.accelerators.pool import BlockPool
from pydispatch.runtime.devices.webgpu import api

GRANULE = 256
"""Bytes that sizes of blocks are multiples of: blocks of similar sizes can be reused for each other."""
USAGE = api.STORAGE_BUFFER | api.UNIFORM_BUFFER | api.COPY_SOURCE | api.COPY_TARGET
"""Usage flags of every block: any buffer may be bound, and be an end of a copy."""


class Block:
    """Buffer of wgpu that a pool hands out.

    Attributes:
        pool: Pool that the block is released to.
        buffer: WGPUBuffer.
        size: Its bytes, a multiple of GRANULE.
        number: Identifies the block: no two blocks of a pool have the same number.
    """

    __slots__ = ("buffer", "number", "pool", "size")

    def __init__(self, pool: BufferPool, buffer: Any, size: int, ordinal: int) -> None:
        """Create a block of `pool` over a WGPUBuffer of `size` bytes. ordinal: its `number`."""
        self.pool, self.buffer, self.size, self.number = pool, buffer, size, ordinal


class CopyBack(NamedTuple):
    """Copy, after a dispatch, of an operand that was bound in a temporary block back to its own memory.

    It copies `size` bytes from byte `start` of `temporary` to byte `offset` of `block`.
    """

    temporary: Block
    start: int
    block: Block
    offset: int
    size: int


class BufferPool(BlockPool[Block]):
    """Pool of the wgpu buffers of one usage, such as storage buffers or staging buffers that the host can map."""

    granule = GRANULE

    def __init__(self, errors: api.Errors, lock: Any, usage: int, name: str, limit: int, total: int) -> None:
        """Create an empty pool.

        Args:
            errors: Collector of the device's errors.
            lock: Lock of the context.
            usage: WGPUBufferUsage of all buffers.
            name: Name of the pool in messages.
            limit: Bytes of the largest buffer that the device allows.
            total: Bytes that all buffers together may have.
        """
        super().__init__(lock)
        self.errors, self.usage, self.name = errors, usage, name
        self.limit, self.total = limit, total
        self.lib, self.ffi = errors.lib, errors.ffi
        self.is_closed = False

    def _allocate(self, size: int) -> Block:
        """Create a buffer of `size` bytes, after freeing cached ones if need be.

        Raises:
            DeviceUnavailableError: The pool was closed.
            OutOfMemoryError: The buffer is larger than the device allows, or there is no memory.
        """
        if self.is_closed:
            raise DeviceUnavailableError(f"{self.name} was closed")
        if size > self.limit:
            raise OutOfMemoryError(
                f"{self.name}: {size} bytes in one buffer, the device has at most {self.limit} (maxBufferSize)"
            )
        # The limit that the pool sets itself: free cached buffers, then fail.
        if self.live_bytes + self.free_bytes + size > self.total:
            self._free_blocks()
        if self.live_bytes + size > self.total:
            raise OutOfMemoryError(
                f"{self.name}: no memory for {size} bytes; {self.live_bytes} are in use of {self.total}"
            )
        # The driver may have less memory: free cached buffers, and try once more.
        buffer = self._create_buffer(size)
        if buffer is None:
            self._free_blocks()
            buffer = self._create_buffer(size)
        if buffer is None:
            raise OutOfMemoryError(f"{self.name}: no memory for {size} bytes; {self.live_bytes} are in use")
        return Block(self, buffer, size, self._next_number())

    def _create_buffer(self, size: int) -> Any:
        """Create a buffer; return None if the device has no memory for it."""
        descriptor = self.ffi.new("WGPUBufferDescriptor*", {"usage": self.usage, "size": size})
        errors, lib = self.errors, self.lib
        lib.wgpuDevicePushErrorScope(errors.device, api.OUT_OF_MEMORY_FILTER)
        errors.begin()
        buffer = lib.wgpuDeviceCreateBuffer(errors.device, descriptor)
        # An error is (WGPUErrorType, message); None if there was none.
        validation_error = errors.take()  # of the inner scope, which begin() opened
        memory_error = errors.take()  # of the outer scope, which has OUT_OF_MEMORY_FILTER
        has_buffer = buffer != self.ffi.NULL
        if has_buffer and validation_error is None and memory_error is None:
            return buffer
        if has_buffer:
            lib.wgpuBufferRelease(buffer)
        if validation_error is not None and validation_error[0] != api.OUT_OF_MEMORY:
            kind, message = validation_error
            raise api.error_of(kind, f"{self.name}: a buffer of {size} bytes: {api.without_frame(message)}")
        return None

    def _free_blocks(self) -> None:
        """Release all free buffers. Running work keeps the buffers that it uses alive."""
        for blocks in self.free.values():
            for block in blocks:
                self.lib.wgpuBufferRelease(block.buffer)
        self.free.clear()
        self.free_bytes = 0

    def close(self) -> None:
        """Release all free buffers and close the pool; no block can be acquired afterwards."""
        with self.lock:
            self._take_back_released()
            self._free_blocks()
            self.is_closed = True
