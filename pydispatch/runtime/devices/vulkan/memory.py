"""Vulkan device memory: large chunks, one VkBuffer each, divided into blocks that are reused."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydispatch.errors import DeviceUnavailableError, OutOfMemoryError
from pydispatch.runtime.accelerators.pool import BlockPool
from pydispatch.runtime.devices.vulkan import api

GRANULE = 256
"""Alignment of the starts and ends of blocks, in bytes: the largest that a Vulkan device may require of the offset at
which a storage buffer is bound (minStorageBufferOffsetAlignment).
"""
CHUNK_BYTES = 32 << 20
"""Minimum size of a chunk, one allocation of the driver that blocks are cut from. Smaller ones are more allocations,
larger ones take memory that small programs do not use."""
_USAGE = 0x20 | 0x10 | 0x1 | 0x2  # VkBufferUsageFlags: storage, uniform, source and target of copies
# VkMemoryPropertyFlagBits
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 1, 2, 4, 8


class Chunk:
    """Allocation of device memory with one buffer over all of it, of which a `ChunkPool` hands out ranges as blocks.

    Attributes:
        buffer, memory: VkBuffer and VkDeviceMemory.
        size: Bytes.
        address: Host address of its mapping; 0 if it is not mapped.
        free: Free ranges as (offset, bytes), sorted by offset. Adjacent ones are merged.
    """

    __slots__ = ("address", "buffer", "free", "memory", "size")

    def __init__(self, buffer: Any, memory: Any, size: int, address: int) -> None:
        """Create a chunk that is free from end to end. address: host address of the mapping; 0 if it is not mapped."""
        self.buffer, self.memory, self.size, self.address = buffer, memory, size, address
        self.free: list[tuple[int, int]] = [(0, size)]

    def take(self, size: int) -> int | None:
        """Take `size` bytes from the start of the first free range that has them.

        Return their offset in bytes; None if there is no such range.
        """
        for i, (offset, room) in enumerate(self.free):
            if room >= size:
                if room == size:
                    del self.free[i]
                else:
                    self.free[i] = (offset + size, room - size)
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Return a range to the free ranges, and merge adjacent ones."""
        insort(self.free, (offset, size))
        merged = [self.free[0]]
        for start, length in self.free[1:]:
            last_start, last_length = merged[-1]
            if last_start + last_length == start:
                merged[-1] = (last_start, last_length + length)
            else:
                merged.append((start, length))
        self.free = merged


class Block:
    """Range of a chunk of Vulkan memory that a pool hands out.

    Attributes:
        number: Identifies the block: no two blocks of a pool have the same number.
        buffer: VkBuffer of the chunk.
        offset: Offset of the block in that buffer, in bytes.
        size: Bytes, a multiple of GRANULE.
        pointer: `char*` to the block if it is mapped, else None.
    """

    __slots__ = ("buffer", "chunk", "number", "offset", "pointer", "pool", "size")

    def __init__(self, pool: ChunkPool, chunk: Chunk, offset: int, size: int, ordinal: int) -> None:
        """Create a block of `size` bytes at an offset of a chunk. ordinal: its `number`, an id in the pool."""
        self.pool, self.chunk, self.offset, self.size, self.number = pool, chunk, offset, size, ordinal
        self.buffer = chunk.buffer
        self.pointer = pool.ffi.cast("char*", chunk.address + offset) if chunk.address else None

    @property
    def address(self) -> int:
        """Host address of the block; 0 if it is not mapped."""
        return self.chunk.address + self.offset if self.chunk.address else 0


class BoundRange(NamedTuple):
    """Memory that is bound at a binding: `size` bytes from byte `offset` of a block."""

    block: Block
    offset: int
    size: int


class ChunkPool(BlockPool[Block]):
    """Pool of memory of one Vulkan memory type, whose blocks are ranges of chunks.

    A chunk is one large allocation of the driver with one VkBuffer over it, because drivers allow few allocations and
    take long for each.

    epoch: Number of destroyed chunks. A recorded command buffer of an earlier epoch may refer to the buffer of a
        destroyed chunk, so it must be recorded again.
    """

    granule = GRANULE

    def __init__(
        self, device: Any, calls: Any, memory_type: int, mapped: bool, name: str, limit: int, total: int
    ) -> None:
        """Create an empty pool.

        A chunk is one large allocation of the driver with one VkBuffer over it; the blocks of the pool are ranges of
        chunks.

        Args:
            device: VkDevice.
            calls: Functions of the device by name.
            memory_type: Index of the memory type in VkPhysicalDeviceMemoryProperties.
            mapped: Whether the host can access the memory: chunks are mapped as long as they live.
            name: Name of the pool in messages.
            limit: Bytes of the largest block.
            total: Bytes of all blocks together.
        """
        super().__init__()
        self.ffi, _ = api.binding()
        self.device, self.calls, self.memory_type, self.mapped = device, calls, memory_type, mapped
        self.name, self.limit, self.total = name, limit, total
        self.chunks: list[Chunk] = []
        self.is_destroyed = False
        self.epoch = 0  # number of destroyed chunks
        self.name_buffer: Any = None  # name_buffer(VkBuffer, text) sets the debug name of a chunk; None for no names

    def _allocate(self, size: int) -> Block:
        """Allocate a block in a free range: as it is, after merging free blocks, or in a new chunk."""
        if self.is_destroyed:
            raise DeviceUnavailableError(f"{self.name} was closed")
        location = self._find(size)
        if location is None and self.free:
            self._merge()
            location = self._find(size)
        if location is None:
            self.chunks.append(self._new_chunk(size))
            location = self._find(size)
        assert location is not None
        return Block(self, *location, size, self._next_number())

    def _find(self, size: int) -> tuple[Chunk, int] | None:
        """Take `size` bytes from the first chunk with a free range of this size, and return (chunk, offset).

        Return None if there is no such chunk.
        """
        for chunk in self.chunks:
            offset = chunk.take(size)
            if offset is not None:
                return chunk, offset
        return None

    def _merge(self) -> None:
        """Return the pool's free blocks to the free ranges of their chunks, so that other sizes can use the memory."""
        for blocks in self.free.values():
            for block in blocks:
                block.chunk.give(block.offset, block.size)
        self.free.clear()
        self.free_bytes = 0

    def _new_chunk(self, size: int) -> Chunk:
        """Allocate a chunk of at least `size` bytes: of CHUNK_BYTES, or of `size` if that is larger or memory is short.

        Raise OutOfMemoryError if there is no memory even after unused chunks were freed.
        """
        if size > self.limit:
            raise OutOfMemoryError(f"{self.name}: {size} bytes in one buffer, the device has at most {self.limit}")
        chunk_sizes = [size]  # in the order of the attempts
        if size < min(CHUNK_BYTES, self.limit):
            chunk_sizes.insert(0, min(CHUNK_BYTES, self.limit))
        for chunk_bytes in chunk_sizes:
            try:
                return self._chunk(chunk_bytes)
            except OutOfMemoryError:
                continue
        # Neither size fits: release the unused blocks, which frees chunks without other blocks, and try once more.
        self._free_blocks()
        try:
            return self._chunk(size)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"{self.name}: no memory for {size} bytes; {self.live_bytes} are in use ({error})"
            ) from None

    def _chunk(self, size: int) -> Chunk:
        """Allocate a chunk of `size` bytes with a VkBuffer over it, and map it if the pool's memory is mapped.

        Raise OutOfMemoryError if the pool's total is exceeded or the driver has no memory.
        """
        if sum(chunk.size for chunk in self.chunks) + size > self.total:
            raise OutOfMemoryError(f"the device has {self.total}")
        ffi, calls, arena = self.ffi, self.calls, api.Arena()
        buffer, memory, address = ffi.new("VkBuffer*"), ffi.new("VkDeviceMemory*"), ffi.new("void**")
        create_info = arena.new("VkBufferCreateInfo", size=size, usage=_USAGE)
        api.check(calls.vkCreateBuffer(self.device, create_info, ffi.NULL, buffer), f"a buffer of {size} bytes")
        try:
            needs = ffi.new("VkMemoryRequirements*")
            calls.vkGetBufferMemoryRequirements(self.device, buffer[0], needs)
            info = arena.new("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=self.memory_type)
            api.check(calls.vkAllocateMemory(self.device, info, ffi.NULL, memory), f"{size} bytes of memory")
            api.check(calls.vkBindBufferMemory(self.device, buffer[0], memory[0], 0), "vkBindBufferMemory")
            if self.mapped:
                result = calls.vkMapMemory(self.device, memory[0], 0, api.WHOLE_SIZE, 0, address)
                api.check(result, f"mapping {size} bytes")
        except BaseException:  # release what was created: the buffer, and the memory unless allocating it failed
            calls.vkDestroyBuffer(self.device, buffer[0], ffi.NULL)
            if memory[0] != ffi.NULL:
                calls.vkFreeMemory(self.device, memory[0], ffi.NULL)
            raise
        if self.name_buffer is not None:
            self.name_buffer(buffer[0], f"{self.name}, chunk {len(self.chunks)}")
        host_address = int(ffi.cast("uintptr_t", address[0])) if self.mapped else 0
        return Chunk(buffer[0], memory[0], size, host_address)

    def _free_blocks(self) -> None:
        """Return free blocks to their chunks, and destroy the chunks without blocks in use.

        Destroying a chunk ends the epoch: recordings may refer to its buffer, and are recorded again.
        """
        self._merge()
        used = []
        for chunk in self.chunks:
            if chunk.free == [(0, chunk.size)]:  # no block is in use
                self.calls.vkDestroyBuffer(self.device, chunk.buffer, self.ffi.NULL)
                self.calls.vkFreeMemory(self.device, chunk.memory, self.ffi.NULL)
                self.epoch += 1
            else:
                used.append(chunk)
        self.chunks = used

    def destroy(self) -> None:
        """Free all memory, blocks in use included; the device must be idle. No block can be acquired afterwards."""
        with self.lock:
            self.is_destroyed = True
            self.free.clear()
            self.released.clear()
        for chunk in self.chunks:
            self.calls.vkDestroyBuffer(self.device, chunk.buffer, self.ffi.NULL)
            self.calls.vkFreeMemory(self.device, chunk.memory, self.ffi.NULL)
        self.chunks = []

    def _stats(self) -> dict[str, int]:
        """Return the counts of the base class, with the free bytes in chunks."""
        return {**super()._stats(), "free_bytes": sum(chunk.size for chunk in self.chunks) - self.live_bytes}


class MemoryTypes(NamedTuple):
    """Memory types of a device that its pools use, indices in VkPhysicalDeviceMemoryProperties.memoryTypes."""

    buffers: int  # type of the memory of buffers
    is_mapped: bool  # whether the CPU can access the memory of buffers
    staging: int  # type of the memory through which the CPU copies to and from buffers that it cannot access


def heap_bytes_of(properties: Any, memory_type: int) -> int:
    """Return the size of the heap that memory of a type is allocated from.

    properties: VkPhysicalDeviceMemoryProperties. memory_type: index of the type in it.
    """
    return int(properties.memoryHeaps[properties.memoryTypes[memory_type].heapIndex].size)


def memory_types(properties: Any, force_staging: bool) -> MemoryTypes:
    """Choose the memory types of a device: one for buffers, and one for staging.

    Staging memory is host memory through which the CPU copies to and from buffers that it cannot access.

    - Buffers use a shared type, device memory that the CPU can access, if its heap has at least half the size of the
      largest device-local heap, as on an integrated GPU. Copies then need no staging.
    - Else buffers use device memory that is not mapped, as on a discrete GPU with 8 GiB of which the CPU can access a
      heap of 256 MiB.
    - On a device without device-local memory, buffers use the staging type.

    Args:
        properties: VkPhysicalDeviceMemoryProperties.
        force_staging: Whether the CPU does not access buffers even if it could, as on a discrete GPU (`?staging=1`).
    """
    # (VkMemoryPropertyFlags, bytes of its heap) of each memory type.
    sizes = [properties.memoryHeaps[i].size for i in range(properties.memoryHeapCount)]
    types = [
        (properties.memoryTypes[i].propertyFlags, sizes[properties.memoryTypes[i].heapIndex])
        for i in range(properties.memoryTypeCount)
    ]
    # Candidates: cached memory is preferred, because the CPU reads it faster.
    largest_local_heap = max((heap_bytes for flags, heap_bytes in types if flags & _DEVICE_LOCAL), default=0)
    staging_type = _best_type(types, _HOST_VISIBLE | _HOST_COHERENT, _HOST_CACHED)
    shared_flags = _DEVICE_LOCAL | _HOST_VISIBLE | _HOST_COHERENT
    shared_type = _best_type(types, shared_flags, _HOST_CACHED, largest_local_heap // 2)
    assert staging_type is not None, "every device has memory that is host visible and coherent"
    # Use the first of the shared type, device memory that is not mapped, and the staging type that the device has.
    if shared_type is not None and not force_staging:
        return MemoryTypes(shared_type, is_mapped=True, staging=staging_type)
    device_type = _best_type(types, _DEVICE_LOCAL, 0)
    if device_type is None:
        return MemoryTypes(staging_type, is_mapped=True, staging=staging_type)
    return MemoryTypes(device_type, is_mapped=False, staging=staging_type)


def _best_type(
    types: Sequence[tuple[int, int]], required_flags: int, preferred_flags: int, min_heap_bytes: int = 0
) -> int | None:
    """Return the index of the type with all required and most preferred flags in a heap of at least `min_heap_bytes`.

    Of equal types this is the first one: Vulkan orders types by speed. Return None if there is no such type.

    types: (VkMemoryPropertyFlags, bytes of the heap) of each memory type.
    """
    candidates = [
        i for i, (flags, heap_bytes) in enumerate(types)
        if flags & required_flags == required_flags and heap_bytes >= min_heap_bytes
    ]  # fmt: skip

    def preference(i: int) -> tuple[int, int]:
        """Return (number of preferred flags of type i, negated index), which is larger for a better type."""
        flags, _ = types[i]
        return (flags & preferred_flags).bit_count(), -i

    return max(candidates, key=preference, default=None)
