"""Device memory: one buffer of wgpu for each block, used again and again.

Blocks are no parts of larger buffers, since a dispatch cannot read one part of a buffer through a read-only binding and
write another.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pydispatch.errors import DeviceUnavailableError, OutOfMemoryError
from pydispatch.runtime.devices.webgpu import api

GRANULE = 256
"""Bytes that sizes of blocks are multiples of."""
USAGE = api.STORAGE_BUFFER | api.UNIFORM_BUFFER | api.COPY_SOURCE | api.COPY_TARGET


class Block:
    """A buffer. number: tells it from every other block that there was."""

    __slots__ = ("buffer", "number", "pool", "size")

    def __init__(self, pool: BufferPool, buffer: Any, size: int, number: int) -> None:
        self.pool, self.buffer, self.size, self.number = pool, buffer, size, number


class BufferPool:
    """Blocks of one usage. Those that come back are handed out again first, so that a loop of equal calls sees equal
    blocks. Any thread; `release` never blocks, so that the garbage collector may call it."""

    def __init__(self, errors: api.Errors, lock: Any, usage: int, name: str, limit: int, total: int) -> None:
        """lock: of the context. limit: bytes of the largest buffer. total: bytes of all of them together."""
        self.errors, self.lock, self.usage, self.name = errors, lock, usage, name
        self.limit, self.total = limit, total
        self.lib, self.ffi = errors.lib, errors.ffi
        self.ready: dict[int, list[Block]] = {}
        self.returned: deque[Block] = deque()
        self.numbers, self.closed = 0, False
        self.live_bytes = self.peak_bytes = self.live_blocks = self.free_bytes = 0

    def acquire(self, size: int) -> Block:
        """Return a block of at least `size` bytes, with any content. OutOfMemoryError names the bytes."""
        size = -(-max(size, 1) // GRANULE) * GRANULE
        with self.lock:
            if self.returned:
                self._drain()
            free_blocks = self.ready.get(size)
            if free_blocks:
                block = free_blocks.pop()
                self.free_bytes -= size
            else:
                block = self._make(size)
            self.live_bytes += size
            self.live_blocks += 1
            if self.live_bytes > self.peak_bytes:
                self.peak_bytes = self.live_bytes
            return block

    def release(self, block: Block) -> None:
        self.returned.append(block)

    def _drain(self) -> None:
        while self.returned:
            block = self.returned.popleft()
            self.ready.setdefault(block.size, []).append(block)
            self.live_bytes -= block.size
            self.live_blocks -= 1
            self.free_bytes += block.size

    def _make(self, size: int) -> Block:
        if self.closed:
            raise DeviceUnavailableError(f"{self.name} was closed")
        if size > self.limit:
            raise OutOfMemoryError(
                f"{self.name}: {size} bytes in one buffer, the device has at most {self.limit} (maxBufferSize)"
            )
        if self.live_bytes + self.free_bytes + size > self.total:
            self._trim()
        if self.live_bytes + size > self.total:
            raise OutOfMemoryError(
                f"{self.name}: no memory for {size} bytes; {self.live_bytes} are in use of {self.total}"
            )
        buffer = self._buffer(size)
        if buffer is None:
            self._trim()
            buffer = self._buffer(size)
        if buffer is None:
            raise OutOfMemoryError(f"{self.name}: no memory for {size} bytes; {self.live_bytes} are in use")
        self.numbers += 1
        return Block(self, buffer, size, self.numbers)

    def _buffer(self, size: int) -> Any:
        """Return a new buffer; None without memory for it."""
        create = self.ffi.new("WGPUBufferDescriptor*", {"usage": self.usage, "size": size})
        errors, lib = self.errors, self.lib
        lib.wgpuDevicePushErrorScope(errors.device, api.OUT_OF_MEMORY_FILTER)
        errors.begin()
        buffer = lib.wgpuDeviceCreateBuffer(errors.device, create)
        problem, memory = errors.take(), errors.take()
        if problem is None and memory is None and buffer != self.ffi.NULL:
            return buffer
        if buffer != self.ffi.NULL:
            lib.wgpuBufferRelease(buffer)
        if problem is not None and problem[0] != api.OUT_OF_MEMORY:
            raise api.error_of(problem[0], f"{self.name}: a buffer of {size} bytes: {api.plain(problem[1])}")
        return None

    def trim(self) -> None:
        """Give blocks that nobody uses back to the driver."""
        with self.lock:
            self._drain()
            self._trim()

    def _trim(self) -> None:
        """Release all free buffers. Running work keeps the buffers that it uses alive."""
        for blocks in self.ready.values():
            for block in blocks:
                self.lib.wgpuBufferRelease(block.buffer)
        self.ready.clear()
        self.free_bytes = 0

    def stats(self) -> dict[str, int]:
        with self.lock:
            self._drain()
            return {
                "live_bytes": self.live_bytes, "free_bytes": self.free_bytes, "peak_bytes": self.peak_bytes,
                "live_blocks": self.live_blocks,
            }  # fmt: skip

    def close(self) -> None:
        """Release all free buffers and close the pool; no block can be acquired afterwards."""
        with self.lock:
            self._drain()
            self._trim()
            self.closed = True
