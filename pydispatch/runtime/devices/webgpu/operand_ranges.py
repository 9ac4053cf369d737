"""Buffer ranges that a dispatch binds for its operands, with copies of the operands that the device cannot bind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from pydispatch._core.commands import Dispatch, Slot
from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.wgsl.merge import ALIGNMENT, Merged
from pydispatch.runtime.devices.webgpu.memory import Block, CopyBack
from pydispatch.runtime.devices.webgpu.pipelines import BufferRange

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.kernels import WebGPUKernel
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

MIN_BINDING_BYTES = 16
"""Bytes that a storage binding has at least: one element of any type, since WebGPU refuses to bind less."""


class Copier(Protocol):
    """Part of `record.PassRecorder` that this module uses. It cannot import `record`, which imports this module."""

    context: LogicalDevice

    def copy(self, source: Block, source_offset: int, target: Block, target_offset: int, size: int) -> None:
        """Record a copy of `size` bytes; offsets are in bytes."""

    def temporary(self, size: int) -> Block:
        """Acquire memory that lives as long as the recording."""


class OperandRanges:
    """Ranges of buffers that one dispatch binds.

    `bind_all` or, for a kernel with merged buffers, `bind_merged` finds them, and records the copies before the
    dispatch. The recorder then binds `ranges`, and after the dispatch records `copies_back`.

    Attributes:
        ranges: The range of each binding.
        first_elements: For a kernel with merged buffers, index of the first element of each operand in its buffer.
        copies_back: Copies of written operands back to their own memory.
    """

    def __init__(
        self, copier: Copier, command: Dispatch, blocks: Sequence[Block | None], kernel: WebGPUKernel
    ) -> None:  # fmt: skip
        """Create the object without ranges, which `bind_all` or `bind_merged` adds.

        Args:
            copier: Recorder of the copies.
            command: The dispatch, with its operands.
            blocks: Memory of each buffer of the plan.
            kernel: The kernel.
        """
        self.ranges: list[BufferRange] = []  # the range of each binding
        self.first_elements: list[int] = []  # index of each operand's first element in its merged buffer
        self.copies_back: list[CopyBack] = []  # copies of written operands after the dispatch
        self._copier, self._context = copier, copier.context
        self._command, self._blocks, self._kernel = command, blocks, kernel

    def bind_all(self) -> None:
        """Find the range of each operand."""
        self.ranges = [self._bindable_range(binding) for binding in range(len(self._command.slots))]

    def bind_merged(self, merged: Merged) -> None:
        """Find the range of each buffer of a kernel some of whose bindings are merged into one buffer.

        The operands of these bindings are copied into one temporary buffer, one after the other. `first_elements` gets
        the index of each operand's first element in its buffer.

        merged: Which bindings are one buffer, the bytes of an element of each, and which bindings are written.
        """
        for bindings_of_buffer, element_bytes in zip(merged.bindings, merged.bytes, strict=True):
            if len(bindings_of_buffer) == 1:  # a binding that is not merged
                self.first_elements.append(0)
                self.ranges.append(self._bindable_range(bindings_of_buffer[0]))
                continue
            merged_range, starts = self._copy_together(bindings_of_buffer, merged.written)
            self.first_elements += [start // element_bytes for start in starts]
            self.ranges.append(merged_range)

    def read_only_flags(self) -> tuple[bool, ...]:
        """Return for each range of a kernel without merged buffers whether to bind it as read-only.

        A binding that the kernel does not write is bound as read-only. But WebGPU refuses a dispatch that binds one
        buffer both as read-only and as writable. Such a dispatch binds all buffers as writable.
        """
        read_only = self._kernel.read_only
        flagged_ranges = list(zip(self.ranges, read_only, strict=True))
        written_buffers = {bound.buffer for bound, is_read_only in flagged_ranges if not is_read_only}
        read_buffers = {bound.buffer for bound, is_read_only in flagged_ranges if is_read_only}
        if written_buffers & read_buffers:
            return (False,) * len(self.ranges)
        return read_only

    def _copy_together(self, bindings: Sequence[int], written: Collection[int]) -> tuple[BufferRange, list[int]]:
        """Record copies of the operands of some bindings into one temporary buffer, for a kernel with merged buffers.

        For operands that the kernel writes, also record copies back.

        Args:
            bindings: The bindings.
            written: Bindings that the kernel writes.

        Returns:
            The range of the buffer, and the first byte of each operand in it.
        """
        starts, total = [], 0
        for binding in bindings:
            starts.append(total)
            size = max(1, self._command.slots[binding].size)  # an empty operand takes space: a buffer cannot be empty
            total += -(-size // ALIGNMENT) * ALIGNMENT  # rounded up
        self._check_size(f"bindings {', '.join(map(str, bindings))} in one buffer", total)
        temporary = self._copier.temporary(total)
        for binding, start in zip(bindings, starts, strict=True):
            slot = self._command.slots[binding]
            block = block_of(self._blocks, slot)
            self._copier.copy(block, slot.offset, temporary, start, slot.size)
            if binding in written:
                self.copies_back.append(CopyBack(temporary, start, block, slot.offset, slot.size))
        return BufferRange(temporary.buffer, 0, total), starts

    def _check_size(self, binding_text: str, size: int) -> None:
        """Raise InvalidArgumentError if a binding exceeds maxStorageBufferBindingSize.

        binding_text: the binding, for the message, such as "binding 2". size: its bytes.
        """
        limit = self._context.limits["maxStorageBufferBindingSize"]
        if size > limit:
            raise InvalidArgumentError(
                f"{self._kernel.label}, {binding_text}: {size} bytes, {self._context.name} binds at most {limit} "
                "(maxStorageBufferBindingSize)"
            )

    def _bindable_range(self, binding: int) -> BufferRange:
        """Return the range to bind for the operand of a binding.

        The range is that of the operand in its block, extended to whole words and to the smallest size that the shader
        accepts. Where this is not possible, the operand is copied to a temporary block, and the range is there; if the
        kernel may write it, `copies_back` gets the copy back. For an operand in a block of 512 bytes, a device with an
        alignment of 256, and a shader buffer of at least 16 bytes:

            offset 256, 6 bytes     bound at 256, 16 bytes
            offset 64, 100 bytes    copied, because 64 is no multiple of 256
            offset 512, 0 bytes     bound at 0, 16 bytes, which the kernel does not use

        The first operand is copied too if the shader's buffer has at least 320 bytes: 256 + 320 exceeds the block.

        Raises:
            InvalidArgumentError: The operand is smaller than the shader's type, or larger than the device binds.
        """
        kernel, slot = self._kernel, self._command.slots[binding]
        block = block_of(self._blocks, slot)
        buffer = kernel.entry.buffers.get(binding)  # None for a binding that the shader does not use
        min_bytes = MIN_BINDING_BYTES if buffer is None else max(MIN_BINDING_BYTES, _whole_words(buffer.bytes))
        size = max(min_bytes, _whole_words(slot.size))
        if buffer is not None and buffer.is_fixed_size and slot.size < buffer.bytes:
            raise InvalidArgumentError(
                f"{kernel.label}, binding {binding}: {slot.size} bytes, and '{buffer.name}' of the shader is "
                f"{buffer.type} of {buffer.bytes}: give it a larger tensor, or declare an array without a size"
            )
        self._check_size(f"binding {binding}", size)
        # An empty operand may be at the end of its block. Bind the start of the block, which the kernel does not use.
        if slot.size == 0 and min_bytes <= block.size:
            return BufferRange(block.buffer, 0, min_bytes)
        is_aligned = slot.offset % self._context.alignment == 0
        fits_block = slot.offset + size <= block.size
        if is_aligned and fits_block:
            return BufferRange(block.buffer, slot.offset, size)
        temporary = self._copier.temporary(size)
        self._copier.copy(block, slot.offset, temporary, 0, slot.size)
        if not kernel.read_only[binding]:
            self.copies_back.append(CopyBack(temporary, 0, block, slot.offset, slot.size))
        return BufferRange(temporary.buffer, 0, size)


def _whole_words(size: int) -> int:
    """Return a number of bytes rounded up to 4-byte words, in which WebGPU binds buffers."""
    return (size + 3) & ~3


def block_of(blocks: Sequence[Block | None], slot: Slot) -> Block:
    """Return the block of the buffer that an operand refers to. blocks: memory of each buffer of the plan."""
    block = blocks[slot.buffer]
    assert block is not None, "a buffer that a command names has memory"
    return block
