"""Recording of a plan as a `RecordedPlan`.

Commands of a plan refer to buffers by index; `blocks` has the device memory of each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill, Slot
from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.wgsl.grid import GRID
from pydispatch.formats.wgsl.interface import CONSTANTS
from pydispatch.formats.wgsl.merge import ALIGNMENT, OFFSETS, Merged
from pydispatch.runtime.devices.webgpu.memory import Block, CopyBack
from pydispatch.runtime.devices.webgpu.moves import WORDS
from pydispatch.runtime.devices.webgpu.pipelines import BufferRange
from pydispatch.runtime.devices.webgpu.recorded_plan import RecordedPlan

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.kernels import Kernels, WebGPUKernel
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

_MAX_MOVE_BYTES = 64 << 20
"""Bytes of one dispatch of a shader of `moves`, which keeps its binding below every device's limit."""
_INVOCATIONS = 64
"""Invocations of a workgroup of the shaders of `moves`, as their @workgroup_size states."""
_MAX_GRID = 65535
"""Workgroups along one axis that every device starts."""
MIN_BINDING_BYTES = 16
"""Bytes that a storage binding has at least: one element of any type, since WebGPU refuses to bind less."""


class PendingUniform(NamedTuple):
    """Uniform buffer of a launch whose bind group is created when recording ends.

    Attributes:
        groups: Receives (group_index, bind group); the bind groups of uniform buffers of the launch.
        group_index: Index of the bind group in the pipeline layout.
        offset: First byte in `PassRecorder.uniform_bytes`.
        size: Bytes that are bound.
    """

    groups: list[tuple[int, Any]]
    group_index: int
    offset: int
    size: int


class PassRecorder:
    """Recorder of one `RecordedPlan`. Used under the context's lock.

    `commands` records a plan, or the caller records copies and fills one by one; then `finish` returns the recording,
    and the recorder is done.

    Attributes:
        context: The device.
        lib: Functions of wgpu.
        recording: The recording.
        uniform_bytes: Contents of the uniform buffers of all launches: push constants of dispatches and of `moves`,
            offsets of merged buffers, and grids that were folded.
        pending_uniforms: The uniform buffers of all launches, ranges of one buffer that `finish` creates.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Create a recorder whose recording is empty."""
        self.context, self.lib = context, context.lib
        self.recording = RecordedPlan(context)
        self.uniform_bytes = bytearray()
        self.pending_uniforms: list[PendingUniform] = []

    # Copies and fills

    def copy(self, source: Block, at: int, target: Block, to: int, size: int) -> None:
        """Record a copy of `size` bytes from byte `at` of a block to byte `to` of a block; the ranges may overlap.

        Copies that are not aligned to 4-byte words, or within one block, run as a shader, since WebGPU's copy command
        takes neither. Overlapping ranges are copied through a temporary block.
        """
        if size == 0 or (source is target and at == to):
            return
        if source is not target and (at | to | size) & 3 == 0:
            call = self.lib.wgpuCommandEncoderCopyBufferToBuffer
            self.recording.pieces.append((call, source.buffer, at, target.buffer, to, size))
        elif source is target and abs(at - to) < size:
            intermediate = self.temporary(size)
            self.copy(source, at, intermediate, 0, size)
            self.copy(intermediate, 0, target, to, size)
        else:
            for first in range(0, size, _MAX_MOVE_BYTES):
                self._dispatch_move("copy", target, to + first, min(_MAX_MOVE_BYTES, size - first), source, at + first)

    def fill(self, target: Block, at: int, size: int, pattern: int, pattern_bytes: int) -> None:
        """Record a fill of `size` bytes from byte `at` of a block.

        pattern: bits of a pattern of `pattern_bytes` (1, 2, 4 or 8) bytes, little-endian. `size` is a multiple of
        `pattern_bytes`.
        """
        if size == 0:
            return
        all_bits = (1 << 8 * pattern_bytes) - 1
        eight_bytes = (pattern & all_bits).to_bytes(pattern_bytes, "little") * (8 // pattern_bytes)
        if not any(eight_bytes) and (at | size) & 3 == 0:
            self.recording.pieces.append((self.lib.wgpuCommandEncoderClearBuffer, target.buffer, at, size))
            return
        for first in range(0, size, _MAX_MOVE_BYTES):
            self._dispatch_move("fill", target, at + first, min(_MAX_MOVE_BYTES, size - first), pattern=eight_bytes)

    def _dispatch_move(
        self, name: str, target: Block, to: int, size: int, source: Block | None = None, at: int = 0,
        pattern: bytes = b"\0" * 8,
    ) -> None:  # fmt: skip
        """Record a dispatch of the shader that copies or fills ranges that are not aligned to words.

        Args:
            name: Entry point "copy" or "fill" of the shader in `moves`.
            target: Block to write.
            to: First byte in the target.
            size: Bytes to write, at most _MAX_MOVE_BYTES.
            source: Source of a copy; None for a fill.
            at: First byte in the source.
            pattern: Eight bytes that a fill repeats; unused by a copy.
        """
        pipeline, layout = self.context.moves.pipeline(name)
        target_range, target_start = self._aligned_range(target, to, size)
        ranges, first = [target_range], 0
        if source is not None:
            # A word of the target may take bytes of two words of the source: bind one more word.
            source_range, source_start = self._aligned_range(source, at, size + 4)
            ranges.append(source_range)
            first = source_start - target_start & 0xFFFFFFFF  # source byte of the target's byte 0, modulo 2^32
        unused = 0
        words = struct.pack("<3I8sI", target_start, size, first, pattern, unused)  # `Move` in the shader
        assert len(words) == 4 * WORDS
        workgroups = -(-((target_start & 3) + size) // (4 * _INVOCATIONS))  # one invocation for each word
        grid = min(max(1, workgroups), _MAX_GRID), 1, 1  # in a smaller grid invocations write several words each
        self._add(pipeline, self._group(layout, ranges), grid, {CONSTANTS.group: words})

    def _aligned_range(self, block: Block, at: int, size: int) -> tuple[BufferRange, int]:
        """Return what to bind for a range of a block, and the start of the range in that binding.

        The start is rounded down to the alignment that the device requires of bindings, the end up to whole words of 4
        bytes, but not beyond the block.
        """
        start = at & -self.context.alignment
        end = min(block.size, (at + size + 3) & ~3)
        return BufferRange(block.buffer, start, end - start), at - start

    def temporary(self, size: int) -> Block:
        """Acquire memory that lives as long as the recording."""
        block = self.context.pool.acquire(size)
        self.recording.blocks.append(block)
        return block

    def _group(self, layout: Any, ranges: Sequence[BufferRange]) -> Any:
        """Return a bind group of bindings 0, 1, ... with these ranges, which lives as long as the recording."""
        group = self.context.pipelines.group(layout, ranges)
        self.recording.groups.append(group)
        return group

    def _add(self, pipeline: Any, group: Any, grid: tuple[int, int, int], uniforms: Mapping[int, bytes]) -> None:
        """Append a launch to the open compute pass, or to a new one.

        Args:
            pipeline: WGPUComputePipeline.
            group: Bind group of its storage buffers.
            grid: Number of workgroups in x, y and z.
            uniforms: Index of a bind group → content of its uniform buffer.
        """
        pieces = self.recording.pieces
        is_pass_open = bool(pieces) and type(pieces[-1]) is list  # a list of launches is a compute pass
        if not is_pass_open or self._last_piece_is_timed():
            pieces.append([])
        # A uniform buffer begins at a multiple of the device's alignment and is bound in multiples of 16 bytes.
        alignment = self.context.uniform_alignment
        groups: list[tuple[int, Any]] = []  # filled when recording ends, once the uniform buffer exists
        for group_index, words in uniforms.items():
            bound_bytes = -(-len(words) // 16) * 16
            self.pending_uniforms.append(PendingUniform(groups, group_index, len(self.uniform_bytes), bound_bytes))
            self.uniform_bytes += words.ljust(-(-len(words) // alignment) * alignment, b"\0")
        pieces[-1].append((pipeline, group, groups, *grid))

    def _last_piece_is_timed(self) -> bool:
        """Return whether the last piece belongs to an earlier command that is timed by itself: no launch of a later
        command may join its pass.
        """
        return bool(self.recording.marks) and self.recording.marks[-1] == len(self.recording.pieces)

    # Plans

    def commands(
        self, commands: Sequence[Command], blocks: Sequence[Block | None], constants: bytes,
        fill_patterns: Sequence[int], kernels: Kernels, timed: bool = False,
    ) -> None:  # fmt: skip
        """Record all commands of a plan.

        Args:
            commands: Commands of the plan.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            fill_patterns: Fill pattern of each command; 0 for other commands.
            kernels: Kernels of the program.
            timed: Whether each command gets a compute pass of its own, so that it can be timed.
        """
        for index, command in enumerate(commands):
            if isinstance(command, Dispatch):
                self._dispatch(command, blocks, constants, kernels)
            elif isinstance(command, Fill):
                slot = command.target
                self.fill(_block(blocks, slot), slot.offset, slot.size, fill_patterns[index], command.pattern_size)
            elif isinstance(command, Custom):
                self.recording.pieces.append(command)
            elif isinstance(command, Copy):
                source, target = command.source, command.target
                self.copy(_block(blocks, source), source.offset, _block(blocks, target), target.offset, source.size)
            if timed:
                self.recording.marks.append(len(self.recording.pieces))

    def _dispatch(self, command: Dispatch, blocks: Sequence[Block | None], constants: bytes, kernels: Kernels) -> None:
        """Record a dispatch: bind its buffers and constants, and copy back the operands that were bound as copies.

        A kernel that has more buffers than the device can bind has merged ones: several operands are ranges of one
        bound buffer, and a uniform buffer has their offsets. A grid beyond the device's limits is folded: it is
        launched in another shape, and the kernel computes the workgroup ids of the program's grid.

        Args:
            command: The dispatch.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            kernels: Kernels of the program.
        """
        kernel = kernels.kernel_of(command)
        if 0 in command.grid:  # no workgroup runs, and folding would divide by 0
            return
        launch_grid = kernels.form_of(kernel, command.grid)  # `command.grid`, or a folded one
        copies_back: list[CopyBack] = []
        uniforms: dict[int, bytes] = {}  # index of a bind group → content of its uniform buffer
        if kernel.merged is not None:
            ranges, offsets = self._merged_ranges(command, blocks, kernel, kernel.merged, copies_back)
            empty = bytes(16)  # a uniform buffer has at least 16 bytes
            uniforms[OFFSETS.group] = struct.pack(f"<{len(offsets)}I", *offsets) or empty
            read_only = (False,) * len(ranges)  # a merged buffer may have operands that are written
        else:
            ranges = [
                self._bindable_range(slot, blocks, kernel, i, copies_back) for i, slot in enumerate(command.slots)
            ]
            read_only = _bindable_access(ranges, kernel.read_only)
        if kernel.has_constants and command.constant_count:
            first = 4 * command.first_constant
            uniforms[CONSTANTS.group] = constants[first : first + 4 * command.constant_count]
        is_folded = launch_grid != command.grid
        if is_folded:
            x, y, z = command.grid
            uniforms[GRID.group] = struct.pack("<4I", x, y, z, x * y * z)
        pipeline, layout = kernels.pipeline(kernel, read_only, is_folded)
        self._add(pipeline, self._group(layout, ranges), launch_grid, uniforms)
        for copy in copies_back:
            self.copy(copy.temporary, copy.start, copy.block, copy.offset, copy.size)

    def _merged_ranges(
        self, command: Dispatch, blocks: Sequence[Block | None], kernel: WebGPUKernel, merged: Merged,
        copies_back: list[CopyBack],
    ) -> tuple[list[BufferRange], list[int]]:  # fmt: skip
        """Return the bindings of a kernel with merged buffers, and the first element of each original buffer.

        The operands of several bindings are copied into one temporary buffer, one after the other.

        Args:
            command: The dispatch, with the operand of each binding.
            blocks: Memory of each buffer of the plan.
            kernel: The kernel.
            merged: Which bindings are one buffer, the bytes of an element of each, and which bindings are written.
            copies_back: Receives the copies to record after the dispatch.

        Returns:
            The range of each merged buffer, and for each original binding the index of its first element.
        """
        ranges, offsets = [], []
        # group: the original bindings in one merged buffer.
        for group, element_bytes in zip(merged.bindings, merged.bytes, strict=True):
            if len(group) == 1:
                offsets.append(0)
                ranges.append(self._bindable_range(command.slots[group[0]], blocks, kernel, group[0], copies_back))
                continue
            operands = [(command.slots[binding], binding in merged.written) for binding in group]
            what = f"bindings {', '.join(map(str, group))} in one buffer"
            merged_range, starts = self._copy_operands_together(operands, blocks, kernel, what, copies_back)
            offsets += [start // element_bytes for start in starts]
            ranges.append(merged_range)
        return ranges, offsets

    def _copy_operands_together(
        self, operands: Sequence[tuple[Slot, bool]], blocks: Sequence[Block | None], kernel: WebGPUKernel, what: str,
        copies_back: list[CopyBack],
    ) -> tuple[BufferRange, list[int]]:  # fmt: skip
        """Record copies of operands into one temporary buffer. Return the buffer, and the first byte of each operand.

        Args:
            operands: (operand, whether the kernel writes it).
            blocks: Memory of each buffer of the plan.
            kernel: The kernel, for an error.
            what: Name of the binding, for an error.
            copies_back: Receives the copies to record after the dispatch.
        """
        starts, total = [], 0
        for slot, _ in operands:
            starts.append(total)
            total += -(-max(slot.size, 1) // ALIGNMENT) * ALIGNMENT
        self._check_size(kernel, what, total)
        temporary = self.temporary(total)
        for (slot, is_written), start in zip(operands, starts, strict=True):
            block = _block(blocks, slot)
            self.copy(block, slot.offset, temporary, start, slot.size)
            if is_written:
                copies_back.append(CopyBack(temporary, start, block, slot.offset, slot.size))
        return BufferRange(temporary.buffer, 0, total), starts

    def _check_size(self, kernel: WebGPUKernel, what: str, size: int) -> None:
        """Raise InvalidArgumentError if a binding exceeds maxStorageBufferBindingSize. what: names the binding."""
        limit = self.context.limits["maxStorageBufferBindingSize"]
        if size > limit:
            raise InvalidArgumentError(
                f"{kernel.label}, {what}: {size} bytes, {self.context.name} binds at most {limit} "
                "(maxStorageBufferBindingSize)"
            )

    def _bindable_range(
        self, slot: Slot, blocks: Sequence[Block | None], kernel: WebGPUKernel, binding: int,
        copies_back: list[CopyBack],
    ) -> BufferRange:  # fmt: skip
        """Return the range to bind for an operand.

        An operand at an unaligned offset is copied to a temporary block. So is one that is shorter than the smallest
        binding of the shader, if its block ends too early to bind more.

        Args:
            slot: The operand.
            blocks: Memory of each buffer of the plan.
            kernel: The kernel.
            binding: Index of the operand's binding.
            copies_back: Receives the copies to record after the dispatch, of operands that the kernel may write.

        Raises:
            InvalidArgumentError: The operand is smaller than the shader's type, or larger than the device binds.
        """
        context, block, offset = self.context, _block(blocks, slot), slot.offset
        buffer = kernel.entry.buffers.get(binding)
        # Bindings are multiples of 4 bytes.
        min_bytes = MIN_BINDING_BYTES if buffer is None else max(MIN_BINDING_BYTES, (buffer.bytes + 3) & ~3)
        size = max(min_bytes, (slot.size + 3) & ~3)
        if buffer is not None and buffer.is_fixed_size and slot.size < buffer.bytes:
            raise InvalidArgumentError(
                f"{kernel.label}, binding {binding}: {slot.size} bytes, and '{buffer.name}' of the shader is "
                f"{buffer.type} of {buffer.bytes}: give it a larger tensor, or declare an array without a size"
            )
        self._check_size(kernel, f"binding {binding}", size)
        if slot.size == 0 and min_bytes <= block.size:  # any bytes do: its own offset may be at the end of the block
            return BufferRange(block.buffer, 0, min_bytes)
        if offset % context.alignment == 0 and offset + size <= block.size:
            return BufferRange(block.buffer, offset, size)
        temporary = self.temporary(size)
        self.copy(block, offset, temporary, 0, slot.size)
        if not kernel.read_only[binding]:
            copies_back.append(CopyBack(temporary, 0, block, offset, slot.size))
        return BufferRange(temporary.buffer, 0, size)

    def finish(self) -> RecordedPlan:
        """Write the uniform buffers of all launches to one buffer, create their bind groups, and return the
        recording.
        """
        recorded, context = self.recording, self.context
        if self.uniform_bytes:
            block = self.temporary(len(self.uniform_bytes))
            context.write(block, context.ffi.from_buffer(self.uniform_bytes), len(self.uniform_bytes))
            layout = context.pipelines.uniform_group()
            for groups, group_index, offset, size in self.pending_uniforms:
                groups.append((group_index, self._group(layout, [BufferRange(block.buffer, offset, size)])))
        return recorded


def _bindable_access(ranges: Sequence[BufferRange], read_only: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return for each binding whether to bind it as read-only; `read_only` is what the shader needs.

    WebGPU refuses a buffer that one dispatch binds both as read-only and as writable. All bindings of a dispatch with
    such a buffer are writable.
    """
    written = {bound.buffer for bound, flag in zip(ranges, read_only, strict=True) if not flag}
    if any(bound.buffer in written for bound, flag in zip(ranges, read_only, strict=True) if flag):
        return (False,) * len(ranges)
    return read_only


def _block(blocks: Sequence[Block | None], slot: Slot) -> Block:
    """Return the block of the buffer that an operand refers to."""
    block = blocks[slot.buffer]
    assert block is not None, "a buffer that a command names has memory"
    return block
