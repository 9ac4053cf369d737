"""Descriptor sets of the dispatches of a recorded plan: the memory that each dispatch binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydispatch._core.commands import Dispatch, Slot
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.descriptors import POOL_DESCRIPTORS, POOL_SETS, STORAGE_BUFFER
from pydispatch.runtime.devices.vulkan.memory import Block, BoundRange
from pydispatch.runtime.devices.vulkan.pipelines import CONSTANT_BYTES, Executables, VulkanKernel
from pydispatch.runtime.devices.vulkan.recorded_buffer import RecordedBuffer


class MovedOperand(NamedTuple):
    """Operand of a dispatch that is copied to a temporary block, because its offset lacks the alignment that the device
    requires of bound offsets.

    Attributes:
        temporary: The block that is bound.
        block, offset, size: The operand: `size` bytes from byte `offset` of a block.
        is_written: Whether it is copied back after the dispatch.
    """

    temporary: Block
    block: Block
    offset: int
    size: int
    is_written: bool


class DispatchBindings:
    """Descriptor sets of all dispatches of a plan, for one recording. Used under the context's lock.

    `bind` creates them, before the commands are recorded. The recorder then reads `sets` and `moved` for each dispatch.

    Attributes:
        sets: Index of a dispatch among the commands of the plan → its VkDescriptorSet.
        moved: Index of a dispatch → its operands whose offset the device cannot bind; only of dispatches that have any.
    """

    def __init__(
        self, recorded: RecordedBuffer, blocks: Sequence[Block | None], constants: bytes, executables: Executables
    ) -> None:
        """Begin without descriptor sets.

        Args:
            recorded: The recording, which owns the sets and the memory that is acquired for them.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            executables: Kernels of the program.
        """
        self.sets: dict[int, Any] = {}  # index of a dispatch in the plan → its VkDescriptorSet
        self.moved: dict[int, list[MovedOperand]] = {}  # index of a dispatch → operands that cannot be bound in place
        self._context, self._recorded = recorded.context, recorded
        self._blocks, self._constants, self._executables = blocks, constants, executables

    def bind(self, dispatches: Sequence[tuple[int, Dispatch]]) -> None:
        """Allocate one descriptor set per dispatch, and write all sets by one call of Vulkan.

        dispatches: (index among the commands of the plan, dispatch).
        """
        if not dispatches:
            return
        kernels = [self._executables.kernel_of(command) for _, command in dispatches]
        sets = self._allocate([kernel.set_layout for kernel in kernels], [kernel.bindings for kernel in kernels])
        bindings: list[tuple[Any, int, BoundRange]] = []  # (VkDescriptorSet, binding, memory to bind there)
        for (index, command), kernel, descriptor_set in zip(dispatches, kernels, sets, strict=True):
            self._executables.check_grid(kernel, command.grid)
            self.sets[index] = descriptor_set
            ranges = self._ranges_of(index, command, kernel)
            bindings += [(descriptor_set, binding, bound) for binding, bound in enumerate(ranges)]
        self._write(bindings)

    def _allocate(self, layouts: list[Any], bindings: list[int]) -> list[Any]:
        """Allocate one descriptor set per layout, and return the VkDescriptorSets in the order of the layouts.

        Consecutive sets are allocated together, as many as an empty descriptor pool can have, and at least one.

        Args:
            layouts: VkDescriptorSetLayout of each set.
            bindings: Number of descriptors of each set.
        """
        result: list[Any] = []
        first = 0
        while first < len(layouts):
            # Extend the range of layouts that are allocated at once, from `first` on, while its descriptors fit an
            # empty pool.
            count = 1
            most_sets = min(POOL_SETS, len(layouts) - first)
            while count < most_sets and sum(bindings[first : first + count + 1]) <= POOL_DESCRIPTORS:
                count += 1
            sets = self._context.ffi.new("VkDescriptorSet[]", count)
            pool = self._context.descriptors.allocate(
                layouts[first : first + count], sets, sum(bindings[first : first + count])
            )
            self._recorded.sets.append((pool, sets, count))
            result += [sets[i] for i in range(count)]
            first += count
        return result

    def _write(self, bindings: Sequence[tuple[Any, int, BoundRange]]) -> None:
        """Write the descriptors of storage buffers: each is (VkDescriptorSet, binding, memory to bind there)."""
        arena = api.Arena()  # owner of the structures until Vulkan has read them
        count = max(1, len(bindings))  # arrays are not empty, so that pointers to their first elements are valid
        writes = arena.array("VkWriteDescriptorSet", count)
        infos = arena.array("VkDescriptorBufferInfo", count)
        for n, (descriptor_set, binding, bound) in enumerate(bindings):
            info, write = infos[n], writes[n]
            info.buffer, info.offset, info.range = bound.block.buffer, bound.block.offset + bound.offset, bound.size
            write.sType = api.STRUCTURES["VkWriteDescriptorSet"]
            write.dstSet, write.dstBinding, write.descriptorCount = descriptor_set, binding, 1
            write.descriptorType, write.pBufferInfo = STORAGE_BUFFER, infos + n
        context = self._context
        context.calls.vkUpdateDescriptorSets(context.handle, len(bindings), writes, 0, context.ffi.NULL)

    def _ranges_of(self, index: int, command: Dispatch, kernel: VulkanKernel) -> list[BoundRange]:
        """Return the memory to bind at each binding of a dispatch.

        The bindings are those of the program, then one for the constants if the kernel `is_spilled`, and one for
        reports of loops that ended early if it `is_watched`. index: index of the dispatch among the plan's commands.
        """
        ranges = [self._bindable_range(index, slot, kernel, binding) for binding, slot in enumerate(command.slots)]
        if kernel.is_spilled:
            first, end = command.first_constant, command.first_constant + command.constant_count
            ranges.append(self._store_constants(self._constants[CONSTANT_BYTES * first : CONSTANT_BYTES * end]))
        if kernel.is_watched:
            ranges.append(self._create_report(kernel))
        return ranges

    def _store_constants(self, words: bytes) -> BoundRange:
        """Copy the constants of a dispatch, 32-bit words, into memory that lives as long as the recording."""
        block = self._context.staging.acquire(len(words))
        self._recorded.blocks.append(block)
        self._context.ffi.memmove(block.pointer, words, len(words))
        return BoundRange(block, 0, len(words))

    def _create_report(self, kernel: VulkanKernel) -> BoundRange:
        """Acquire the two words by which a dispatch reports loops that ended early.

        A device that cuts one loop of a shader short ends all later loops at once. So the shader ends with a test loop,
        and writes 1 to the first word if that runs fewer iterations than the second word says
        (pydispatch/compiler/emit/spirv/watch.py).
        """
        block = self._context.staging.acquire(8)
        self._recorded.blocks.append(block)
        words = self._context.ffi.cast("uint32_t*", block.pointer)
        words[0], words[1] = 0, 2  # the report, and the trip count of the shader's test loop
        if self._context.ends_loops:
            self._recorded.watches.append((words, kernel))
        return BoundRange(block, 0, 8)

    def _bindable_range(self, index: int, slot: Slot, kernel: VulkanKernel, binding: int) -> BoundRange:
        """Return the memory to bind for an operand.

        An operand at an offset that the device cannot bind is added to `moved`, and a temporary block is bound, to
        which it is copied before the dispatch. Raise InvalidArgumentError if an operand exceeds maxStorageBufferRange.

        Args:
            index: Index of the dispatch among the commands of the plan.
            slot: The operand.
            kernel: Kernel of the dispatch.
            binding: Index of the operand's binding.
        """
        block = self._blocks[slot.buffer]
        assert block is not None, "every buffer that a command names has memory"
        bound_bytes = max(4, -(-slot.size // 4) * 4)  # whole words, as shaders access them; Vulkan forbids 0 bytes
        if bound_bytes > self._context.max_range:
            raise InvalidArgumentError(
                f"{kernel.label}, binding {binding}: {slot.size} bytes, vulkan:{self._context.index} binds at most "
                f"{self._context.max_range} (maxStorageBufferRange)"
            )
        if slot.offset % self._context.alignment == 0:
            return BoundRange(block, slot.offset, bound_bytes)
        if slot.size == 0:  # the kernel accesses no byte: bind the first word of the block
            return BoundRange(block, 0, 4)
        temporary = self._context.pool.acquire(bound_bytes)
        self._recorded.blocks.append(temporary)
        operand = MovedOperand(temporary, block, slot.offset, slot.size, is_written=kernel.written[binding])
        self.moved.setdefault(index, []).append(operand)
        return BoundRange(temporary, 0, bound_bytes)
