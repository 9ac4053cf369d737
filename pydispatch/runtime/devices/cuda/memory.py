"""Memory of a CUDA device: blocks from a pool of the driver, reused in the order of one stream."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from pydispatch.errors import Error, OutOfMemoryError
from pydispatch.runtime.accelerators.pool import BlockPool
from pydispatch.runtime.devices.cuda.driver import OUT_OF_MEMORY


class Owner(Protocol):
    """The context whose memory a pool hands out.

    Attributes:
        driver: Module of the CUDA driver.
        index: Number of the device, from 0.
        name: Name of the device, such as "cuda:0".
        stream: Stream on which memory is allocated and freed.
        total_bytes: Memory of the device.
        loss_reason: Error that made the device unusable for this process; "" if it is usable.
        current: Context manager that makes this context current in the thread.
        is_shut: Whether the device is lost or closed.
    """

    driver: Any
    index: int
    name: str
    stream: Any
    total_bytes: int
    loss_reason: str
    current: Any
    is_shut: Any

    def check(self, result: tuple[Any, ...], what: str) -> Any:
        """Return the value of a driver call, or raise its error. what: the action, for the message."""

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device is closed or lost."""

    def synchronize(self) -> None:
        """Wait until all enqueued work is complete."""


GRANULE = 512
"""Sizes of blocks are rounded up to a multiple of this number of bytes, as the driver rounds its allocations.

Addresses of blocks are multiples of at least 256.
"""
MAX_FREE_BYTES = 1 << 30
"""Bytes of free blocks in this pool. More are returned to the pool of the driver, which keeps them for this process."""
UNLIMITED_BYTES = (1 << 64) - 1
"""Release threshold of a driver's pool that never returns memory to the system by itself."""


class Block:
    """Range of CUDA device memory that a pool hands out.

    Attributes:
        address: Device address.
        size: Bytes of the block.
        number: Identifies the block: no two blocks of a pool have the same number.
        owner: Object that keeps borrowed memory alive; None for memory of the pool.
    """

    __slots__ = ("address", "number", "owner", "size")

    def __init__(self, address: int, size: int, block_number: int, owner: Any = None) -> None:
        """Create a block. block_number: value of the attribute `number`."""
        self.address, self.size, self.number, self.owner = address, size, block_number, owner


class StreamOrderedPool(BlockPool[Block]):
    """Pool of blocks from a memory pool of the driver (CUmemoryPool).

    All work runs in the order of one stream. A released block can therefore be reused at once: its next user runs after
    its previous one.

    unused_borrowed: Blocks over memory of other owners that no call references any more. Work in flight may still use
        them.
    """

    granule = GRANULE

    def __init__(self, context: Owner) -> None:
        """Create a memory pool of the driver that retains all freed memory until `trim`."""
        super().__init__()
        self.context = context
        driver = self.driver = context.driver
        self.unused_borrowed: deque[Block] = deque()  # borrowed blocks that only work in flight may still use
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = context.index
        self.handle = context.check(driver.cuMemPoolCreate(properties), "cuMemPoolCreate")
        self.attributes = driver.CUmemPool_attribute
        # The driver's pool keeps all freed memory for later blocks; `trim` returns it to the system.
        threshold = self.attributes.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        limit = driver.cuuint64_t(UNLIMITED_BYTES)
        context.check(driver.cuMemPoolSetAttribute(self.handle, threshold, limit), "cuMemPoolSetAttribute")

    def release(self, block: Block) -> None:
        """Queue a block for release. A borrowed block keeps its owner alive until earlier work is complete."""
        is_borrowed = block.owner is not None
        if is_borrowed:
            self.unused_borrowed.append(block)
        else:
            self.released.append(block)

    def borrow(self, address: int, size: int, owner: Any) -> Block:
        """Return a block over memory of another owner, which the block keeps alive."""
        with self.lock:
            return Block(address, size, self._next_number(), owner)

    def _take_back_released(self) -> None:
        """Collect released blocks for reuse. If they exceed MAX_FREE_BYTES, free blocks until half of it is left."""
        super()._take_back_released()
        if self.free_bytes > MAX_FREE_BYTES:
            self._free_to(MAX_FREE_BYTES // 2)

    def _allocate(self, size: int) -> Block:
        """Allocate a block from the driver's memory pool, in the order of the stream.

        If memory is short, return the unused memory of this pool and of the driver's to the system, and retry once.

        Args:
            size: Bytes, a multiple of GRANULE.

        Raises:
            OutOfMemoryError: Memory is still short.
        """
        driver, context = self.driver, self.context
        context.require_usable()
        with context.current:
            result = driver.cuMemAllocFromPoolAsync(size, self.handle, context.stream)
            if result[0] and int(result[0]) == OUT_OF_MEMORY:
                self._free_blocks()
                context.synchronize()  # the blocks are freed in the order of the stream
                driver.cuMemPoolTrimTo(self.handle, 0)  # leave no unused bytes in the driver's pool
                result = driver.cuMemAllocFromPoolAsync(size, self.handle, context.stream)
        if result[0] and int(result[0]) == OUT_OF_MEMORY:
            raise OutOfMemoryError(
                f"{context.name}: no memory for {size} bytes; {self.live_bytes} are in use here, the device has "
                f"{context.total_bytes} for everybody who uses it; let go of buffers, or work in smaller pieces"
            )
        address = int(context.check(result, f"{size} bytes of memory"))
        return Block(address, size, self._next_number())

    def _free_blocks(self) -> None:
        """Return all free blocks to the driver."""
        self._free_to(0)

    def _free_to(self, max_bytes: int) -> None:
        """Return free blocks to the driver until at most `max_bytes` are left.

        All free blocks of one size are returned together, beginning with the size that was released least recently.
        """
        context = self.context
        with context.current:
            while self.free and self.free_bytes > max_bytes:
                _size, blocks = self.free.popitem(last=False)  # `free`: size → free blocks, in order of release
                for block in blocks:
                    self.free_bytes -= block.size
                    if not context.loss_reason:  # the memory of a lost device is gone already
                        self.driver.cuMemFreeAsync(block.address, context.stream)

    def trim(self) -> None:
        """Wait for running work, then release unused memory to the system."""
        context = self.context
        context.synchronize()
        with self.lock, context.current:
            self._take_back_released()
            self._free_blocks()
            context.synchronize()
            context.check(self.driver.cuMemPoolTrimTo(self.handle, 0), "cuMemPoolTrimTo")

    def _stats(self) -> dict[str, int]:
        """Return the counts of the base class, with the bytes that the driver's pool has reserved."""
        return {**super()._stats(), "reserved_bytes": self._reserved()}

    def _reserved(self) -> int:
        """Return the bytes that the pool of the driver has reserved; 0 when they are not known."""
        if self.context.loss_reason or self.context.is_shut:
            return 0
        attribute = self.attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        with self.context.current:
            result = self.driver.cuMemPoolGetAttribute(self.handle, attribute)  # (status, value)
        if result[0]:
            return 0
        try:
            return int(result[1])
        except (Error, TypeError):  # not a number: this is only a statistic
            return 0

    def destroy(self) -> None:
        """Destroy the pool. All blocks must have been released, and no work may be running."""
        with self.lock:
            self._take_back_released()
            self._free_blocks()
            self.driver.cuMemPoolDestroy(self.handle)
