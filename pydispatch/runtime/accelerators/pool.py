"""Pool of device memory: blocks by size, of which the most recently released one is handed out first."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from typing import Any, Generic, Protocol, TypeVar


class SizedBlock(Protocol):
    """Block of a pool. size: size in bytes, a multiple of the pool's granule."""

    size: int


BlockT = TypeVar("BlockT", bound=SizedBlock)


class BlockPool(ABC, Generic[BlockT]):
    """Pool of one kind of device memory; a device implements how blocks are allocated and freed.

    A loop of equal calls gets equal blocks, because the most recently released block of a size is handed out first.
    Any thread may call it. `release` only appends to a queue, because the garbage collector may call it.

    Attributes:
        granule: Bytes that the sizes of blocks are multiples of.
        free: Size in bytes → free blocks of this size, in the order of their release. Sizes are in the order in which a
            block of the size was last released.
        free_bytes: Bytes of the blocks in `free`.
        released: Blocks that `release` queued and that are not in `free` yet.
        live_bytes, live_blocks: Bytes and number of the blocks in use, which include those in `released`.
        peak_bytes: Largest `live_bytes` so far.
        last_number: Number of the newest block. Numbers are not reused, so that they identify blocks.
    """

    granule = 256

    def __init__(self, lock: Any = None) -> None:
        """Create an empty pool. lock: guards the pool; by default a lock of its own."""
        # Reentrant: while a thread holds it, garbage collection may release the last buffer of a closed device.
        self.lock = threading.RLock() if lock is None else lock
        self.free: OrderedDict[int, list[BlockT]] = OrderedDict()
        self.released: deque[BlockT] = deque()
        self.last_number = 0
        self.live_bytes = self.peak_bytes = self.live_blocks = self.free_bytes = 0

    @abstractmethod
    def _allocate(self, size: int) -> BlockT:
        """Allocate a new block of `size` bytes, a multiple of the granule.

        Raise OutOfMemoryError, which names the bytes, if the device does not have them.
        """

    @abstractmethod
    def _free_blocks(self) -> None:
        """Return the memory of all free blocks to the driver."""

    def acquire(self, size: int) -> BlockT:
        """Return a block of `size` bytes, rounded up to a multiple of `granule` bytes, with undefined content.

        The free block of exactly the rounded size that was released last is reused. Without such a block, the device
        allocates one. Raise OutOfMemoryError, which names the bytes, if the device does not have them.
        """
        size = max(size, 1)  # drivers do not allocate 0 bytes
        size = -(-size // self.granule) * self.granule  # rounded up
        with self.lock:
            if self.released:
                self._take_back_released()  # `release` only queues blocks: they become free here
            blocks = self.free.get(size)
            if blocks:
                block = blocks.pop()
                self.free_bytes -= size
            else:
                block = self._allocate(size)
            self.live_bytes += size
            self.live_blocks += 1
            if self.live_bytes > self.peak_bytes:
                self.peak_bytes = self.live_bytes
            return block

    def release(self, block: BlockT) -> None:
        """Queue a block for reuse without the lock: the garbage collector may call this method at any time.

        The next method that takes the lock moves the block to `free`.
        """
        self.released.append(block)

    def trim(self) -> None:
        """Return the memory of free blocks to the driver. No work may be running on them."""
        with self.lock:
            self._take_back_released()
            self._free_blocks()

    def stats(self) -> dict[str, int]:
        """Return the bytes in use, free for reuse and at peak, and the number of blocks in use."""
        with self.lock:
            self._take_back_released()
            return self._stats()

    def _stats(self) -> dict[str, int]:
        """Do the work of `stats`, under the lock."""
        return {
            "live_bytes": self.live_bytes, "free_bytes": self.free_bytes, "peak_bytes": self.peak_bytes,
            "live_blocks": self.live_blocks,
        }  # fmt: skip

    def _next_number(self) -> int:
        """Return a number that no block has had."""
        self.last_number += 1
        return self.last_number

    def _take_back_released(self) -> None:
        """Move released blocks to the free blocks of their size. The caller holds the lock."""
        while self.released:
            block = self.released.popleft()
            self.free.setdefault(block.size, []).append(block)
            self.free.move_to_end(block.size)
            self.live_bytes -= block.size
            self.free_bytes += block.size
            self.live_blocks -= 1
