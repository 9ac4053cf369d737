"""Recording of a plan as a command buffer, which is submitted repeatedly.

Commands of a plan refer to buffers by index. A block is a range of device memory (buffer, offset, size); `blocks` has
one for each buffer of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill, Slot
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.descriptors import POOL_DESCRIPTORS, POOL_SETS, STORAGE_BUFFER
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice
from pydispatch.runtime.devices.vulkan.memory import Block, BoundRange
from pydispatch.runtime.devices.vulkan.pipelines import CONSTANT_BYTES, Executables, VulkanKernel
from pydispatch.runtime.devices.vulkan.recorded_buffer import RecordedBuffer, free_garbage

_COMPUTE, _TRANSFER, _HOST = 0x800, 0x1000, 0x4000  # VkPipelineStageFlagBits
# VkAccessFlagBits
_SHADER_READ, _SHADER_WRITE, _COPY_READ, _COPY_WRITE, _HOST_READ, _HOST_WRITE = (
    0x20, 0x40, 0x800, 0x1000, 0x2000, 0x4000,
)  # fmt: skip
_READS, _WRITES = _SHADER_READ | _COPY_READ, _SHADER_WRITE | _COPY_WRITE
_PATTERN_BYTES = 64 << 10
"""Bytes of the staging block that holds a fill pattern repeatedly; a fill copies it as often as needed."""
_TOP, _BOTTOM = 0x1, 0x2000  # VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT


class MovedOperand(NamedTuple):
    """Operand of a dispatch that is copied to a temporary block, because the device cannot bind its offset.

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


class CommandBufferRecorder:
    """Recorder of one command buffer. Used under the context's lock.

    It is created for one plan, copy or fill. `commands` records a plan, or the caller records copies, fills and
    barriers one by one; then `finish` returns the command buffer, and the recorder is done.

    Attributes:
        context: The device.
        recorded: The command buffer, with the objects that live as long as it.
        buffer: VkCommandBuffer.
        stages: Pipeline stages (VkPipelineStageFlags) of the commands since the last barrier; 0 if there are none.
        bound: Index of a dispatch among the commands of the plan → its VkDescriptorSet.
        moved: Index of a dispatch → its operands whose offset the device cannot bind; only of dispatches that have any.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Begin a command buffer, after the driver objects in the context's garbage are destroyed."""
        self.context, self.ffi, self.calls = context, context.ffi, context.calls
        self.arena = api.Arena()  # owner of the structures that the recorded calls read
        if context.garbage:
            free_garbage(context)
        self.recorded = RecordedBuffer(context, self._allocate())
        self.buffer = self.recorded.buffer
        self.stages = 0
        self.bound: dict[int, Any] = {}
        self.moved: dict[int, list[MovedOperand]] = {}
        begin = self.arena.new("VkCommandBufferBeginInfo")
        api.check(self.calls.vkBeginCommandBuffer(self.buffer, begin), "vkBeginCommandBuffer")

    def _allocate(self) -> Any:
        """Allocate a primary command buffer."""
        context = self.context
        info = self.arena.new(
            "VkCommandBufferAllocateInfo", commandPool=context.command_pool, level=0, commandBufferCount=1
        )
        buffers = self.ffi.new("VkCommandBuffer[1]")
        api.check(self.calls.vkAllocateCommandBuffers(context.handle, info, buffers), "vkAllocateCommandBuffers")
        return buffers[0]

    def barrier(self, host: bool = False) -> None:
        """Record a barrier: earlier commands complete and are visible to later commands, or with `host` to the host.

        Without commands since the last barrier it records nothing.
        """
        if not self.stages:
            return
        target, reads = (_HOST, _HOST_READ) if host else (_COMPUTE | _TRANSFER, _READS | _WRITES)
        memory = self.arena.new(
            "VkMemoryBarrier", srcAccessMask=_WRITES & _write_access_of(self.stages), dstAccessMask=reads
        )
        null = self.ffi.NULL
        self.calls.vkCmdPipelineBarrier(self.buffer, self.stages, target, 0, 1, memory, 0, null, 0, null)
        self.stages = 0

    def copy(self, source: Block, at: int, target: Block, to: int, size: int) -> None:
        """Record a copy of `size` bytes from byte `at` of a block to byte `to` of a block; the ranges do not
        overlap.
        """
        region = self.arena.array("VkBufferCopy", 1)
        region[0].srcOffset, region[0].dstOffset, region[0].size = source.offset + at, target.offset + to, size
        self.calls.vkCmdCopyBuffer(self.buffer, source.buffer, target.buffer, 1, region)
        self.stages |= _TRANSFER

    def copy_within(self, source: Block, at: int, target: Block, to: int, size: int) -> None:
        """Record a copy of `size` bytes between blocks, or within a block between ranges that may overlap.

        Overlapping ranges are copied through a temporary block, because vkCmdCopyBuffer forbids them.
        """
        if source is target and at == to:
            return
        if source is not target or abs(at - to) >= size:
            self.copy(source, at, target, to, size)
            return
        intermediate = self.temporary(size)
        self.copy(source, at, intermediate, 0, size)
        self.barrier()
        self.copy(intermediate, 0, target, to, size)

    def temporary(self, size: int) -> Block:
        """Acquire memory that lives as long as the recording."""
        block = self.context.pool.acquire(size)
        self.recorded.blocks.append(block)
        return block

    def fill(self, target: Block, at: int, size: int, pattern: int, pattern_bytes: int) -> None:
        """Record a fill of `size` bytes from byte `at` of a block.

        pattern: bits of a pattern of `pattern_bytes` (1, 2, 4 or 8) bytes, little-endian. `size` is a multiple of
        `pattern_bytes`.
        """
        all_bits = (1 << 8 * pattern_bytes) - 1
        eight_bytes = (pattern & all_bits).to_bytes(pattern_bytes, "little") * (8 // pattern_bytes)
        repeats_in_words = eight_bytes[:4] == eight_bytes[4:]
        if at % 4 == 0 and size % 4 == 0 and repeats_in_words:
            value = int.from_bytes(eight_bytes[:4], "little")
            self.calls.vkCmdFillBuffer(self.buffer, target.buffer, target.offset + at, size, value)
            self.stages |= _TRANSFER
            return
        # vkCmdFillBuffer writes one 32-bit value to aligned words. Other fills copy a block that repeats the pattern.
        length = min(-(-size // 8) * 8, _PATTERN_BYTES)
        block = self.context.staging.acquire(length)
        self.recorded.blocks.append(block)
        self.ffi.memmove(block.pointer, eight_bytes * (length // 8), length)
        count = -(-size // length)
        regions = self.arena.array("VkBufferCopy", count)
        for i in range(count):
            start = i * length
            regions[i].srcOffset, regions[i].dstOffset = block.offset, target.offset + at + start
            regions[i].size = min(length, size - start)
        self.calls.vkCmdCopyBuffer(self.buffer, block.buffer, target.buffer, count, regions)
        self.stages |= _TRANSFER

    # Plans

    def commands(
        self,
        commands: Sequence[Command],
        blocks: Sequence[Block | None],
        constants: bytes,
        fill_patterns: Sequence[int],
        executables: Executables,
        timed: bool = False,
        host: Callable[[Custom], None] | None = None,
    ) -> None:
        """Record all commands of a plan.

        Args:
            commands: Commands of the plan.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            fill_patterns: Fill pattern of each command; 0 for other commands.
            executables: Kernels of the program.
            timed: Whether to record a timestamp before the first command and after each command.
            host: Calls a host command, which records into `buffer`; None if the plan has none.
        """
        words = self.arena.array("char", constants or b"\0")
        self._descriptors(commands, blocks, executables, constants)
        if timed:
            self._begin_timestamps(len(commands))
        region = None
        for index, command in enumerate(commands):
            # Commands of one region do not depend on each other. A host command may record work on any buffer, and
            # timed commands must not overlap.
            if command.region != region or timed or isinstance(command, Custom):
                self.barrier()
                region = command.region
            if isinstance(command, Dispatch):
                self._dispatch(index, command, blocks, words, executables)
            elif isinstance(command, Fill):
                target = command.target
                block = _block(blocks, target.buffer)
                self.fill(block, target.offset, target.size, fill_patterns[index], command.pattern_size)
            elif isinstance(command, Custom):
                assert host is not None
                host(command)
                self.stages |= _COMPUTE | _TRANSFER  # the stages that its commands may have
                self.barrier()
            elif isinstance(command, Copy):
                source, target = command.source, command.target
                from_, to = _block(blocks, source.buffer), _block(blocks, target.buffer)
                self.copy_within(from_, source.offset, to, target.offset, source.size)
            if timed:
                self.calls.vkCmdWriteTimestamp(self.buffer, _BOTTOM, self.recorded.queries, index + 1)

    def _begin_timestamps(self, count: int) -> None:
        """Create a query pool for `count` commands, and record the first timestamp."""
        create = self.arena.new("VkQueryPoolCreateInfo", queryType=api.TIMESTAMP_QUERY, queryCount=count + 1)
        handle = self.ffi.new("VkQueryPool*")
        api.check(self.calls.vkCreateQueryPool(self.context.handle, create, self.ffi.NULL, handle), "vkCreateQueryPool")
        self.recorded.queries = handle[0]
        self.calls.vkCmdResetQueryPool(self.buffer, self.recorded.queries, 0, count + 1)
        self.calls.vkCmdWriteTimestamp(self.buffer, _TOP, self.recorded.queries, 0)

    def _descriptors(
        self, commands: Sequence[Command], blocks: Sequence[Block | None], executables: Executables, constants: bytes
    ) -> None:
        """Allocate one descriptor set per dispatch, add it to `bound`, and write all sets by one call of Vulkan."""
        dispatches = [(i, c, executables.kernel_of(c)) for i, c in enumerate(commands) if isinstance(c, Dispatch)]
        if not dispatches:
            return
        sets = self._sets([kernel.set_layout for _, _, kernel in dispatches], [k.bindings for _, _, k in dispatches])
        bindings: list[tuple[Any, int, BoundRange]] = []  # (VkDescriptorSet, binding, memory to bind there)
        for (index, command, kernel), set_ in zip(dispatches, sets, strict=True):
            executables.check_grid(kernel, command.grid)
            self.bound[index] = set_
            ranges = self._ranges_of(index, command, kernel, blocks, constants)
            bindings += [(set_, binding, bound) for binding, bound in enumerate(ranges)]
        self._write_descriptors(bindings)

    def _ranges_of(
        self, index: int, command: Dispatch, kernel: VulkanKernel, blocks: Sequence[Block | None], constants: bytes
    ) -> list[BoundRange]:
        """Return the memory to bind at each binding of a dispatch.

        The bindings are those of the program, then one for the constants if the kernel `is_spilled`, and one for
        reports of loops that ended early if it `is_watched`. index: index of the dispatch among the plan's commands.
        """
        ranges = [
            self._bindable_range(index, slot, blocks, kernel, binding) for binding, slot in enumerate(command.slots)
        ]
        if kernel.is_spilled:
            first, end = command.first_constant, command.first_constant + command.constant_count
            ranges.append(self._store_constants(constants[CONSTANT_BYTES * first : CONSTANT_BYTES * end]))
        if kernel.is_watched:
            ranges.append(self._create_report(kernel))
        return ranges

    def _write_descriptors(self, bindings: Sequence[tuple[Any, int, BoundRange]]) -> None:
        """Write the descriptors of storage buffers: each is (VkDescriptorSet, binding, memory to bind there)."""
        count = max(1, len(bindings))  # cffi has no pointer to an empty array
        writes = self.arena.array("VkWriteDescriptorSet", count)
        infos = self.arena.array("VkDescriptorBufferInfo", count)
        for n, (set_, binding, bound) in enumerate(bindings):
            info, write = infos[n], writes[n]
            info.buffer, info.offset, info.range = bound.block.buffer, bound.block.offset + bound.offset, bound.size
            write.sType = api.STRUCTURES["VkWriteDescriptorSet"]
            write.dstSet, write.dstBinding, write.descriptorCount = set_, binding, 1
            write.descriptorType, write.pBufferInfo = STORAGE_BUFFER, infos + n
        self.calls.vkUpdateDescriptorSets(self.context.handle, len(bindings), writes, 0, self.ffi.NULL)

    def _store_constants(self, words: bytes) -> BoundRange:
        """Copy the constants of a dispatch, 32-bit words, into memory that lives as long as the recording."""
        block = self.context.staging.acquire(len(words))
        self.recorded.blocks.append(block)
        self.ffi.memmove(block.pointer, words, len(words))
        return BoundRange(block, 0, len(words))

    def _create_report(self, kernel: VulkanKernel) -> BoundRange:
        """Acquire the two words by which a dispatch reports loops that ended early.

        The shader writes 1 to the first word if a loop has ended early. The second word is the trip count of the loop
        by which it tests that (pydispatch/compiler/emit/spirv/watch.py).
        """
        block = self.context.staging.acquire(8)
        self.recorded.blocks.append(block)
        words = self.ffi.cast("uint32_t*", block.pointer)
        words[0], words[1] = 0, 2  # the report, and the trip count of the shader's test loop
        if self.context.ends_loops:
            self.recorded.watches.append((words, kernel))
        return BoundRange(block, 0, 8)

    def _bindable_range(
        self, index: int, slot: Slot, blocks: Sequence[Block | None], kernel: VulkanKernel, binding: int
    ) -> BoundRange:
        """Return the memory to bind for an operand of the dispatch with index `index`.

        An operand at an offset that the device cannot bind is added to `moved`, and its temporary block is bound. Raise
        InvalidArgumentError if it exceeds maxStorageBufferRange.

        Args:
            index: Index of the dispatch among the commands of the plan.
            slot: The operand.
            blocks: Memory of each buffer of the plan.
            kernel: Kernel of the dispatch.
            binding: Index of the operand's binding.
        """
        block, offset, length = _block(blocks, slot.buffer), slot.offset, slot.size
        bound_bytes = max(4, -(-length // 4) * 4)  # whole words, as shaders access them; Vulkan forbids 0 bytes
        if bound_bytes > self.context.max_range:
            raise InvalidArgumentError(
                f"{kernel.label}, binding {binding}: {length} bytes, vulkan:{self.context.index} binds at most "
                f"{self.context.max_range} (maxStorageBufferRange)"
            )
        if offset % self.context.alignment == 0:
            return BoundRange(block, offset, bound_bytes)
        if length == 0:  # no byte is accessed: any aligned word does
            return BoundRange(block, 0, 4)
        temporary = self.temporary(bound_bytes)
        operand = MovedOperand(temporary, block, offset, length, is_written=kernel.written[binding])
        self.moved.setdefault(index, []).append(operand)
        return BoundRange(temporary, 0, bound_bytes)

    def _sets(self, layouts: list[Any], bindings: list[int]) -> list[Any]:
        """Allocate one descriptor set per layout, and return the VkDescriptorSets in the order of the layouts.

        Each call of the pool allocates as many sets at once as fit an empty descriptor pool, at least one.

        Args:
            layouts: VkDescriptorSetLayout of each set.
            bindings: Number of descriptors of each set.
        """
        result: list[Any] = []
        first = 0
        while first < len(layouts):
            count = 1
            most_sets = min(POOL_SETS, len(layouts) - first)
            while count < most_sets and sum(bindings[first : first + count + 1]) <= POOL_DESCRIPTORS:
                count += 1
            sets = self.ffi.new("VkDescriptorSet[]", count)
            pool = self.context.descriptors.allocate(
                layouts[first : first + count], sets, sum(bindings[first : first + count])
            )
            self.recorded.sets.append((pool, sets, count))
            result += [sets[i] for i in range(count)]
            first += count
        return result

    def _dispatch(
        self, index: int, command: Dispatch, blocks: Sequence[Block | None], words: Any, executables: Executables
    ) -> None:
        """Record a dispatch.

        Operands whose offset the device cannot bind are copied to temporary blocks before it, and back after it if it
        writes them.

        Args:
            index: Index of the dispatch among the commands of the plan.
            command: The dispatch.
            blocks: Memory of each buffer of the plan.
            words: `char*` to the constants of all dispatches.
            executables: Kernels of the program.
        """
        calls, buffer, kernel = self.calls, self.buffer, executables.kernel_of(command)
        moved = self.moved.get(index, ())
        if moved:
            self.barrier()
            for operand in moved:
                self.copy(operand.block, operand.offset, operand.temporary, 0, operand.size)
            self.barrier()
        calls.vkCmdBindPipeline(buffer, api.BIND_COMPUTE, kernel.pipeline)
        sets = self.ffi.new("VkDescriptorSet[1]", [self.bound[index]])
        calls.vkCmdBindDescriptorSets(buffer, api.BIND_COMPUTE, kernel.layout, 0, 1, sets, 0, self.ffi.NULL)
        if command.constant_count and not kernel.is_spilled:
            first, size = words + 4 * command.first_constant, 4 * command.constant_count
            calls.vkCmdPushConstants(buffer, kernel.layout, api.COMPUTE_STAGE, 0, size, first)
        calls.vkCmdDispatch(buffer, *command.grid)
        self.stages |= _COMPUTE
        written_operands = [operand for operand in moved if operand.is_written]
        if written_operands:
            self.barrier()
            for operand in written_operands:
                self.copy(operand.temporary, 0, operand.block, operand.offset, operand.size)

    def finish(self) -> RecordedBuffer:
        """End the recording and return it. Its last barrier makes the results visible to the host."""
        self.barrier(host=True)
        api.check(self.calls.vkEndCommandBuffer(self.buffer), "vkEndCommandBuffer")
        return self.recorded


def _block(blocks: Sequence[Block | None], buffer: int) -> Block:
    """Return the block of a buffer that a command names."""
    block = blocks[buffer]
    assert block is not None, "every buffer that a command names has memory"
    return block


def _write_access_of(stages: int) -> int:
    """Return the VkAccessFlags of all writes that commands of these pipeline stages can do."""
    return (_SHADER_WRITE if stages & _COMPUTE else 0) | (_COPY_WRITE if stages & _TRANSFER else 0)
