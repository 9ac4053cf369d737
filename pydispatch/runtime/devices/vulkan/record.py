"""Recording of a plan's commands as a Vulkan command buffer, which is submitted repeatedly.

Commands of a plan refer to buffers by index. A block is a range of device memory (buffer, offset, size); `blocks` has
one for each buffer of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.dispatch_bindings import DispatchBindings, MovedOperand
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice
from pydispatch.runtime.devices.vulkan.memory import Block
from pydispatch.runtime.devices.vulkan.pipelines import Executables, VulkanKernel
from pydispatch.runtime.devices.vulkan.recorded_buffer import RecordedBuffer, free_garbage

_COMPUTE, _TRANSFER, _HOST = 0x800, 0x1000, 0x4000  # VkPipelineStageFlagBits
# VkAccessFlagBits
_SHADER_READ, _SHADER_WRITE, _COPY_READ, _COPY_WRITE, _HOST_READ, _HOST_WRITE = (
    0x20, 0x40, 0x800, 0x1000, 0x2000, 0x4000,
)  # fmt: skip
_READS, _WRITES = _SHADER_READ | _COPY_READ, _SHADER_WRITE | _COPY_WRITE
_PATTERN_BYTES = 64 << 10
"""Largest staging block for a fill that vkCmdFillBuffer cannot do: of unaligned bytes, or by a pattern of 8 bytes. The
block holds the pattern repeatedly, and the fill copies the block as often as needed.
"""
_TOP, _BOTTOM = 0x1, 0x2000  # VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT


class CommandBufferRecorder:
    """Recorder of one command buffer. Used under the context's lock.

    It is created for one plan, copy or fill. `commands` records a plan, or the caller records copies, fills and
    barriers one by one; then `finish` returns the command buffer, and the recorder is done.

    Attributes:
        context: The device.
        recorded: The command buffer, with the objects that live as long as it.
        buffer: VkCommandBuffer.
        stages: Pipeline stages (VkPipelineStageFlags) of the commands since the last barrier; 0 if there are none.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Begin a command buffer, after the driver objects in the context's garbage are destroyed."""
        self.context, self.ffi, self.calls = context, context.ffi, context.calls
        self.arena = api.Arena()  # owner of the structures that the recorded calls read
        if context.garbage:
            free_garbage(context)
        self.recorded = RecordedBuffer(context, self._allocate())
        self.buffer = self.recorded.buffer
        self.stages = 0  # VkPipelineStageFlags of the commands since the last barrier
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
        if not self.stages:  # the pipeline stages of the commands since the last barrier
            return
        if host:
            waiting_stages, accesses = _HOST, _HOST_READ
        else:
            waiting_stages, accesses = _COMPUTE | _TRANSFER, _READS | _WRITES
        memory = self.arena.new(
            "VkMemoryBarrier", srcAccessMask=_WRITES & _write_access_of(self.stages), dstAccessMask=accesses
        )
        null = self.ffi.NULL
        # One memory barrier, no buffer barriers, no image barriers.
        self.calls.vkCmdPipelineBarrier(self.buffer, self.stages, waiting_stages, 0, 1, memory, 0, null, 0, null)
        self.stages = 0

    def copy(self, source: Block, source_offset: int, target: Block, target_offset: int, size: int) -> None:
        """Record a copy of `size` bytes from a range of a block to a range of a block; the ranges do not overlap.

        Offsets are in bytes from the start of the block.
        """
        region = self.arena.array("VkBufferCopy", 1)
        region[0].srcOffset = source.offset + source_offset
        region[0].dstOffset = target.offset + target_offset
        region[0].size = size
        self.calls.vkCmdCopyBuffer(self.buffer, source.buffer, target.buffer, 1, region)
        self.stages |= _TRANSFER

    def copy_overlapping(
        self, source: Block, source_offset: int, target: Block, target_offset: int, size: int
    ) -> None:  # fmt: skip
        """Record a copy of `size` bytes between ranges of blocks, which may overlap.

        Overlapping ranges are copied through a temporary block, because vkCmdCopyBuffer forbids them.
        """
        is_one_block = source is target
        if is_one_block and source_offset == target_offset:
            return
        if is_one_block and abs(source_offset - target_offset) < size:
            intermediate = self.temporary(size)
            self.copy(source, source_offset, intermediate, 0, size)
            self.barrier()
            self.copy(intermediate, 0, target, target_offset, size)
        else:
            self.copy(source, source_offset, target, target_offset, size)

    def temporary(self, size: int) -> Block:
        """Acquire memory that lives as long as the recording."""
        block = self.context.pool.acquire(size)
        self.recorded.blocks.append(block)
        return block

    def fill(self, target: Block, offset: int, size: int, pattern: int, pattern_bytes: int) -> None:
        """Record a fill of `size` bytes from byte `offset` of a block.

        A fill of aligned words is one vkCmdFillBuffer: the 1-byte pattern 0x12 is the word 0x12121212. Other fills copy
        a staging block that holds the pattern repeatedly.

        Args:
            target: The block.
            offset: Byte offset in the block.
            size: Number of bytes, a multiple of `pattern_bytes`.
            pattern: Bits of the pattern; the lowest byte is the first one in memory.
            pattern_bytes: Size of the pattern: 1, 2, 4 or 8.
        """
        # The pattern repeated to 8 bytes, the largest size, so that one word fits if both halves are equal.
        all_bits = (1 << 8 * pattern_bytes) - 1
        eight_bytes = (pattern & all_bits).to_bytes(pattern_bytes, "little") * (8 // pattern_bytes)
        repeats_in_words = eight_bytes[:4] == eight_bytes[4:]
        are_whole_words = offset % 4 == 0 and size % 4 == 0
        if are_whole_words and repeats_in_words:
            value = int.from_bytes(eight_bytes[:4], "little")
            self.calls.vkCmdFillBuffer(self.buffer, target.buffer, target.offset + offset, size, value)
            self.stages |= _TRANSFER
            return
        # vkCmdFillBuffer writes one 32-bit value to aligned words. Other fills copy a block that repeats the pattern.
        length = min(-(-size // 8) * 8, _PATTERN_BYTES)  # of the block: `size` rounded up to a multiple of 8 bytes
        block = self.context.staging.acquire(length)
        self.recorded.blocks.append(block)
        self.ffi.memmove(block.pointer, eight_bytes * (length // 8), length)
        # One copy command with a region for each `length` bytes of the target, the last one shorter.
        count = -(-size // length)
        regions = self.arena.array("VkBufferCopy", count)
        for i in range(count):
            start = i * length
            regions[i].srcOffset, regions[i].dstOffset = block.offset, target.offset + offset + start
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
        record_host_command: Callable[[Custom], None] | None = None,
    ) -> None:
        """Record all commands of a plan.

        Args:
            commands: Commands of the plan.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            fill_patterns: Fill pattern of each command; 0 for other commands.
            executables: Kernels of the program.
            timed: Whether to record a timestamp before the first command and after each command.
            record_host_command: Function that calls a host command, which records into `buffer`; None if the plan has
                none.
        """
        words = self.arena.array("char", constants or b"\0")
        bindings = DispatchBindings(self.recorded, blocks, constants, executables)
        bindings.bind([(index, command) for index, command in enumerate(commands) if isinstance(command, Dispatch)])
        if timed:
            self._begin_timestamps(len(commands))
        region = None
        for index, command in enumerate(commands):
            # Only commands of one region do not depend on each other. A host command may record work on any buffer, and
            # timed commands must not overlap.
            begins_region = command.region != region
            if begins_region or timed or isinstance(command, Custom):
                self.barrier()
                region = command.region
            if isinstance(command, Dispatch):
                moved = bindings.moved.get(index, ())  # operands at offsets that the device cannot bind
                self._dispatch(command, executables.kernel_of(command), words, bindings.sets[index], moved)
            elif isinstance(command, Fill):
                target = command.target
                block = _block(blocks, target.buffer)
                self.fill(block, target.offset, target.size, fill_patterns[index], command.pattern_size)
            elif isinstance(command, Custom):
                assert record_host_command is not None
                record_host_command(command)
                self.stages |= _COMPUTE | _TRANSFER  # stages of all commands that it may have recorded
                self.barrier()
            elif isinstance(command, Copy):
                source, target = command.source, command.target
                source_block, target_block = _block(blocks, source.buffer), _block(blocks, target.buffer)
                self.copy_overlapping(source_block, source.offset, target_block, target.offset, source.size)
            if timed:
                self.calls.vkCmdWriteTimestamp(self.buffer, _BOTTOM, self.recorded.queries, index + 1)

    def _begin_timestamps(self, count: int) -> None:
        """Create a query pool for `count` commands, and record the first timestamp."""
        create_info = self.arena.new("VkQueryPoolCreateInfo", queryType=api.TIMESTAMP_QUERY, queryCount=count + 1)
        handle = self.ffi.new("VkQueryPool*")
        result = self.calls.vkCreateQueryPool(self.context.handle, create_info, self.ffi.NULL, handle)
        api.check(result, "vkCreateQueryPool")
        self.recorded.queries = handle[0]
        self.calls.vkCmdResetQueryPool(self.buffer, self.recorded.queries, 0, count + 1)
        self.calls.vkCmdWriteTimestamp(self.buffer, _TOP, self.recorded.queries, 0)

    def _dispatch(
        self, command: Dispatch, kernel: VulkanKernel, words: Any, descriptor_set: Any, moved: Sequence[MovedOperand]
    ) -> None:
        """Record a dispatch: bind its pipeline, buffers and push constants, and launch its grid.

        An operand at an offset that the device cannot bind is copied to a temporary block before the launch, and back
        after it if the kernel writes it. For example, an operand at byte 20 of a buffer is moved if bound offsets must
        be multiples of 16.

        Args:
            command: The dispatch.
            kernel: Its kernel.
            words: `char*` to the 32-bit constants of all dispatches.
            descriptor_set: VkDescriptorSet of the dispatch, which binds the temporary blocks already.
            moved: Its operands whose offset the device cannot bind.
        """
        calls, buffer = self.calls, self.buffer
        # Copy moved operands to their temporary blocks, also written ones: the kernel may not write all their bytes.
        if moved:
            self.barrier()
            for operand in moved:
                self.copy(operand.block, operand.offset, operand.temporary, 0, operand.size)
            self.barrier()
        # Launch the kernel.
        calls.vkCmdBindPipeline(buffer, api.BIND_COMPUTE, kernel.pipeline)
        sets = self.ffi.new("VkDescriptorSet[1]", [descriptor_set])
        calls.vkCmdBindDescriptorSets(buffer, api.BIND_COMPUTE, kernel.layout, 0, 1, sets, 0, self.ffi.NULL)
        if command.constant_count and not kernel.is_spilled:  # spilled constants are in a buffer of the set
            own_words, size = words + 4 * command.first_constant, 4 * command.constant_count
            calls.vkCmdPushConstants(buffer, kernel.layout, api.COMPUTE_STAGE, 0, size, own_words)
        calls.vkCmdDispatch(buffer, *command.grid)
        self.stages |= _COMPUTE  # the next barrier waits for compute shaders
        # Copy written operands back.
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
