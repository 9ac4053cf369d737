"""Memory of a CUDA device: blocks from a pool of the driver, used again and again in the order of one stream."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any, Protocol

from pydispatch.errors import Error, OutOfMemoryError
from pydispatch.runtime.devices.cuda.driver import OUT_OF_MEMORY


class Owner(Protocol):
    """The context whose memory a pool hands out."""

    driver: Any
    index: int
    name: str
    stream: Any
    total_bytes: int
    lost: str
    current: Any
    is_shut: Any

    def check(self, result: tuple[Any, ...], what: str) -> Any: ...
    def require_usable(self) -> None: ...
    def synchronize(self) -> None: ...


GRANULE = 512
"""Bytes that blocks are multiples of, as those of the driver are; addresses are multiples of 256 at least."""
MOST_KEPT = 1 << 30
"""Bytes of free blocks that wait here. More go to the pool of the driver, which keeps them for this process."""
KEEP_ALL = (1 << 64) - 1


class Block:
    """A range of device memory. number: tells it from every other block that there was. owner: of memory that is not
    the pool's, whoever keeps it alive."""

    __slots__ = ("address", "number", "owner", "size")

    def __init__(self, address: int, size: int, number: int, owner: Any = None) -> None:
        self.address, self.size, self.number, self.owner = address, size, number, owner


class StreamOrderedPool:
    """Blocks that come back are handed out again at once, those that came last first: everything runs in the order of
    one stream, so the next user of a block runs after the last one. Any thread; `release` never blocks, so that it may
    be called by the garbage collector."""

    def __init__(self, context: Owner) -> None:
        self.context = context
        driver = self.driver = context.driver
        self.lock = threading.Lock()
        self.ready: OrderedDict[int, list[Block]] = OrderedDict()  # by size, those used last at the end
        self.returned: deque[Block] = deque()
        self.lent: deque[Block] = deque()  # memory of others that no call uses any more
        self.numbers = 0
        self.live_bytes = self.peak_bytes = self.live_blocks = self.ready_bytes = 0
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = context.index
        self.handle = context.check(driver.cuMemPoolCreate(properties), "cuMemPoolCreate")
        self.attributes = driver.CUmemPool_attribute
        threshold = self.attributes.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        limit = driver.cuuint64_t(KEEP_ALL)
        context.check(driver.cuMemPoolSetAttribute(self.handle, threshold, limit), "cuMemPoolSetAttribute")

    def acquire(self, size: int) -> Block:
        """Return a block of at least `size` bytes, with any content. OutOfMemoryError names the bytes."""
        size = -(-max(size, 1) // GRANULE) * GRANULE
        with self.lock:
            if self.returned:
                self._drain()
            free_blocks = self.ready.get(size)
            if free_blocks:
                block = free_blocks.pop()
                self.ready_bytes -= size
            else:
                block = self._allocate(size)
            self.live_bytes += size
            self.live_blocks += 1
            if self.live_bytes > self.peak_bytes:
                self.peak_bytes = self.live_bytes
            return block

    def release(self, block: Block) -> None:
        (self.returned if block.owner is None else self.lent).append(block)

    def lend(self, address: int, size: int, owner: Any) -> Block:
        """Return a block over memory of others, which `owner` keeps alive."""
        with self.lock:
            self.numbers += 1
            return Block(address, size, self.numbers, owner)

    def _drain(self) -> None:
        while self.returned:
            block = self.returned.popleft()
            self.ready.setdefault(block.size, []).append(block)
            self.ready.move_to_end(block.size)
            self.live_bytes -= block.size
            self.ready_bytes += block.size
            self.live_blocks -= 1
        if self.ready_bytes > MOST_KEPT:
            self._give_back(MOST_KEPT // 2)

    def _allocate(self, size: int) -> Block:
        driver, context = self.driver, self.context
        context.require_usable()
        with context.current:
            result = driver.cuMemAllocFromPoolAsync(size, self.handle, context.stream)
            if result[0] and int(result[0]) == OUT_OF_MEMORY:
                self._give_back(0)
                context.synchronize()
                driver.cuMemPoolTrimTo(self.handle, 0)
                result = driver.cuMemAllocFromPoolAsync(size, self.handle, context.stream)
        if result[0] and int(result[0]) == OUT_OF_MEMORY:
            raise OutOfMemoryError(
                f"{context.name}: no memory for {size} bytes; {self.live_bytes} are in use here, the device has "
                f"{context.total_bytes} for everybody who uses it; let go of buffers, or work in smaller pieces"
            )
        address = int(context.check(result, f"{size} bytes of memory"))
        self.numbers += 1
        return Block(address, size, self.numbers)

    def _give_back(self, most: int) -> None:
        """Free blocks go to the driver until `most` bytes of them are left, those of sizes not used for long first."""
        context = self.context
        with context.current:
            while self.ready and self.ready_bytes > most:
                _, blocks = self.ready.popitem(last=False)
                for block in blocks:
                    self.ready_bytes -= block.size
                    if not context.lost:
                        self.driver.cuMemFreeAsync(block.address, context.stream)

    def trim(self) -> None:
        """Wait for running work, then release unused memory to the system."""
        context = self.context
        context.synchronize()
        with self.lock, context.current:
            self._drain()
            self._give_back(0)
            context.synchronize()
            context.check(self.driver.cuMemPoolTrimTo(self.handle, 0), "cuMemPoolTrimTo")

    def stats(self) -> dict[str, int]:
        with self.lock:
            self._drain()
            return {
                "live_bytes": self.live_bytes, "free_bytes": self.ready_bytes, "peak_bytes": self.peak_bytes,
                "live_blocks": self.live_blocks, "reserved_bytes": self._reserved(),
            }  # fmt: skip

    def _reserved(self) -> int:
        """Return the bytes that the pool of the driver holds; 0 when they are not known."""
        if self.context.lost or self.context.is_shut:
            return 0
        name = self.attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        with self.context.current:
            result = self.driver.cuMemPoolGetAttribute(self.handle, name)
        try:
            return 0 if result[0] else int(result[1])
        except (Error, TypeError):
            return 0

    def destroy(self) -> None:
        """Destroy the pool. All blocks must have been released, and no work may be running."""
        with self.lock:
            self._drain()
            self._give_back(0)
            self.driver.cuMemPoolDestroy(self.handle)
