"""Recording of a plan as a list of wgpu calls (pieces), which is encoded for each run: command buffers run only once.

Commands of a plan refer to buffers by index; `blocks` has the device memory of each. A piece is a copy or a clear, a
host command, or a list of launches that form one compute pass.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill, Slot
from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.wgsl.grid import GRID
from pydispatch.formats.wgsl.interface import CONSTANTS
from pydispatch.formats.wgsl.merge import ALIGNMENT, OFFSETS, Merged
from pydispatch.runtime.devices.webgpu.memory import Block
from pydispatch.runtime.devices.webgpu.moves import WORDS

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.kernels import Kernels, WebGPUKernel
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

_MAX_MOVE_BYTES = 64 << 20
"""Bytes of one dispatch of a shader of `moves`, which keeps its binding below every device's limit."""
_INVOCATIONS = 64
"""Invocations of a workgroup of the shaders of `moves`, as their @workgroup_size states."""
MIN_BINDING_BYTES = 16  # bytes that are bound: one element of any type

Launch = tuple[Any, Any, Sequence[tuple[int, Any]], int, int, int]
"""(pipeline, bind group, (number, bind group) of each uniform buffer, workgroups in x, y and z)."""


class HostCommands(Protocol):
    """Interface for calls of the host commands of a plan."""

    def waits(self, command: Custom) -> bool:
        """Return whether all earlier work must be complete before a host command is called."""

    def call(self, command: Custom, encoder: Any) -> None:
        """Call a host command. encoder: command encoder to record into; None if all earlier work is complete."""


class RecordedPlan:
    """Recorded plan as a list of pieces; its owner keeps it alive until it is submitted.

    A piece is a list of launches for one compute pass, a call (function, arguments) on the command encoder, or a host
    command.
    """

    __slots__ = ("__weakref__", "blocks", "context", "groups", "marks", "pieces")

    def __init__(self, context: LogicalDevice) -> None:
        self.pieces: list[Any] = []
        self.blocks: list[Block] = []  # memory of its own
        self.groups: list[Any] = []  # bind groups, which the plan owns
        self.marks: list[int] = []  # the number of pieces after each command, where they are timed
        self.context = context
        context.recordings.add(self)

    def release(self) -> None:
        """Release the bind groups and blocks of the recording, which cannot run afterwards."""
        release, groups, blocks = self.context.lib.wgpuBindGroupRelease, self.groups, self.blocks
        self.groups, self.blocks = [], []
        self.context.garbage.extend((release, group) for group in groups)
        for block in blocks:
            self.context.release(block)

    def __del__(self) -> None:
        if hasattr(self, "context"):  # a signal handler's exception can leave __init__ anywhere
            self.release()

    def run(self, what: str, host: HostCommands | None = None) -> None:
        """Submit the whole recording.

        Args:
            what: Begin of error messages.
            host: Caller of the host commands in the recording; None if it has none.
        """
        self.submit(self.pieces, what, host)

    def submit(self, pieces: list[Any], what: str, host: HostCommands | None) -> None:
        """Submit some pieces of the recording.

        They are one submission, split before each host command that requires all earlier work to be complete.
        """
        first = 0
        for index, piece in enumerate(pieces):
            if type(piece) is Custom and host is not None and host.waits(piece):
                self._encode(pieces[first:index], what, host)
                self.context.wait()
                host.call(piece, None)
                first = index + 1
        if first < len(pieces):
            self._encode(pieces[first:], what, host)

    def _encode(self, pieces: list[Any], what: str, host: HostCommands | None) -> None:
        """Encode pieces into one command encoder and submit it."""
        context = self.context
        with context.lock:
            encoder = context.encoder()
            try:
                for piece in pieces:
                    if type(piece) is list:
                        self._launch(piece, encoder)
                    elif type(piece) is tuple:
                        piece[0](encoder, *piece[1:])
                    else:
                        assert host is not None
                        host.call(piece, encoder)
            except BaseException:
                context.abandon(encoder)
                raise
            context.submit(encoder, what)

    def _launch(self, launches: list[Launch], encoder: Any) -> None:
        """Encode a compute pass with these launches."""
        lib, null = self.context.lib, self.context.ffi.NULL
        bind, start = lib.wgpuComputePassEncoderSetBindGroup, lib.wgpuComputePassEncoderDispatchWorkgroups
        use = lib.wgpuComputePassEncoderSetPipeline
        compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
        last = None
        for pipeline, group, uniforms, x, y, z in launches:
            if pipeline is not last:
                use(compute, pipeline)
                last = pipeline
            bind(compute, 0, group, 0, null)
            for group_index, uniform in uniforms:
                bind(compute, group_index, uniform, 0, null)
            start(compute, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute)
        lib.wgpuComputePassEncoderRelease(compute)


class PassRecorder:
    """Recorder of one `RecordedPlan`. Used under the context's lock.

    Attributes:
        context: The device.
        lib: Functions of wgpu.
        recording: The recording.
        uniform_bytes: Contents of the uniform buffers of all launches: push constants, offsets and grids.
        pending_uniforms: (list that receives the bind group, index of the group, offset in `uniform_bytes`, bytes) of
            each uniform buffer.
    """

    def __init__(self, context: LogicalDevice) -> None:
        self.context, self.lib = context, context.lib
        self.recording = RecordedPlan(context)
        self.uniform_bytes = bytearray()
        self.pending_uniforms: list[tuple[list[Any], int, int, int]] = []

    # Copies and fills

    def copy(self, source: Block, at: int, target: Block, to: int, size: int) -> None:
        """Record a copy of `size` bytes from byte `at` of a block to byte `to` of a block; the ranges may overlap.

        Copies that are not aligned to words, or within one block, run as a shader.
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
        """Record a fill with a pattern of 1, 2, 4 or 8 bytes; `size` is a multiple of the pattern's size."""
        if size == 0:
            return
        word = (pattern & (1 << 8 * pattern_bytes) - 1).to_bytes(pattern_bytes, "little") * (8 // pattern_bytes)
        if not any(word) and (at | size) & 3 == 0:
            self.recording.pieces.append((self.lib.wgpuCommandEncoderClearBuffer, target.buffer, at, size))
            return
        for first in range(0, size, _MAX_MOVE_BYTES):
            self._dispatch_move("fill", target, at + first, min(_MAX_MOVE_BYTES, size - first), pattern=word)

    def _dispatch_move(
        self, name: str, target: Block, to: int, size: int, source: Block | None = None, at: int = 0,
        pattern: bytes = b"\0" * 8,
    ) -> None:  # fmt: skip
        """Record a dispatch of the shader that copies or fills ranges that are not aligned to words.

        Args:
            name: "copy" or "fill", see `moves`.
            to: First byte in the target.
            source: Source of a copy; None for a fill.
            at: First byte in the source.
            pattern: Eight bytes to fill with.
        """
        pipeline, layout = self.context.moves.pipeline(name)
        window, skip = self._window(target, to, size)
        ranges, first = [window], 0
        if source is not None:
            window, from_ = self._window(source, at, size + 4)
            ranges.append(window)
            first = from_ - skip & 0xFFFFFFFF
        words = struct.pack("<3I8sI", skip, size, first, pattern, 0)
        count = -(-((skip & 3) + size) // (4 * _INVOCATIONS))
        assert len(words) == 4 * WORDS
        group = self._group(layout, ranges)
        self._add(pipeline, group, (min(max(1, count), 65535), 1, 1), {CONSTANTS[0]: words})

    def _window(self, block: Block, at: int, size: int) -> tuple[tuple[Any, int, int], int]:
        """Return the (buffer, offset, bytes) to bind for a range of a block, and the start of the range in that
        binding.

        The offset is rounded down to the alignment that the device requires of bindings.
        """
        start = at & -self.context.alignment
        return (block.buffer, start, min(block.size, at + size + 3 & ~3) - start), at - start

    def temporary(self, size: int) -> Block:
        """Acquire memory that lives as long as the recording."""
        block = self.context.pool.acquire(size)
        self.recording.blocks.append(block)
        return block

    def _group(self, layout: Any, ranges: Sequence[tuple[Any, int, int]]) -> Any:
        """Return a bind group for (buffer, offset, bytes) ranges, which lives as long as the recording."""
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
        if not self.recording.pieces or type(self.recording.pieces[-1]) is not list or self._is_marked():
            self.recording.pieces.append([])
        step = self.context.uniform_alignment
        groups: list[tuple[int, Any]] = []
        for group_index, words in uniforms.items():
            self.pending_uniforms.append((groups, group_index, len(self.uniform_bytes), -(-len(words) // 16) * 16))
            self.uniform_bytes += words.ljust(-(-len(words) // step) * step, b"\0")
        self.recording.pieces[-1].append((pipeline, group, groups, *grid))

    def _is_marked(self) -> bool:
        """Return whether the last piece belongs to a command that is timed by itself."""
        return bool(self.recording.marks) and self.recording.marks[-1] == len(self.recording.pieces)

    # Plans

    def commands(
        self, commands: Sequence[Command], blocks: Sequence[Block | None], constants: bytes, patterns: Sequence[int],
        kernels: Kernels, timed: bool = False,
    ) -> None:  # fmt: skip
        """Record all commands of a plan.

        Args:
            commands: Commands of the plan.
            blocks: Memory of each buffer of the plan.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            patterns: Fill pattern of each command.
            kernels: Kernels of the program.
            timed: Whether each command gets a compute pass of its own, so that it can be timed.
        """
        for index, command in enumerate(commands):
            if isinstance(command, Dispatch):
                self._dispatch(command, blocks, constants, kernels)
            elif isinstance(command, Fill):
                target_slot = command.target
                self.fill(
                    _block(blocks, target_slot),
                    target_slot.offset,
                    target_slot.size,
                    patterns[index],
                    command.pattern_size,
                )
            elif isinstance(command, Custom):
                self.recording.pieces.append(command)
            elif isinstance(command, Copy):
                source, target = command.source, command.target
                self.copy(_block(blocks, source), source.offset, _block(blocks, target), target.offset, source.size)
            if timed:
                self.recording.marks.append(len(self.recording.pieces))

    def _dispatch(self, command: Dispatch, blocks: Sequence[Block | None], constants: bytes, kernels: Kernels) -> None:
        """Record a dispatch: bind its buffers and constants, and copy back the bindings that had to be copied."""
        kernel = kernels.kernel_of(command)
        if 0 in command.grid:
            return
        launch_grid = kernels.form_of(kernel, command.grid)
        copies_back: list[tuple[Block, int, Block, int, int]] = []
        uniforms: dict[int, bytes] = {}
        if kernel.merged is not None:
            ranges, offsets = self._merged_ranges(command, blocks, kernel, kernel.merged, copies_back)
            uniforms[OFFSETS[0]] = struct.pack(f"<{len(offsets)}I", *offsets) or bytes(16)
            read_only = (False,) * len(ranges)
        else:
            ranges = [
                self._bindable_range(slot, blocks, kernel, i, copies_back) for i, slot in enumerate(command.slots)
            ]
            read_only = kernel.read_only
            if any(read_only):
                written = {range_[0] for range_, flag in zip(ranges, read_only, strict=True) if not flag}
                if any(range_[0] in written for range_, flag in zip(ranges, read_only, strict=True) if flag):
                    read_only = (False,) * len(ranges)
        if kernel.has_constants and command.constant_count:
            first = 4 * command.first_constant
            uniforms[CONSTANTS[0]] = constants[first : first + 4 * command.constant_count]
        is_folded = launch_grid != command.grid
        if is_folded:
            x, y, z = command.grid
            uniforms[GRID[0]] = struct.pack("<4I", x, y, z, x * y * z)
        pipeline, layout = kernels.pipeline(kernel, read_only, is_folded)
        self._add(pipeline, self._group(layout, ranges), launch_grid, uniforms)
        for temporary, start, block, at, size in copies_back:
            self.copy(temporary, start, block, at, size)

    def _merged_ranges(
        self, command: Dispatch, blocks: Sequence[Block | None], kernel: WebGPUKernel, merged: Merged,
        copies_back: list[tuple[Block, int, Block, int, int]],
    ) -> tuple[list[tuple[Any, int, int]], list[int]]:  # fmt: skip
        """Return the bindings of a kernel with merged buffers, and the first element of each original buffer.

        The operands of several bindings are copied into one temporary buffer, one after the other.

        Args:
            command: The dispatch, with the operand of each binding.
            blocks: Memory by index, which operands refer to.
            kernel: The kernel.
            merged: Which bindings are one buffer, the bytes of an element of each, and which bindings are written.
            copies_back: Receives the copies to record after the dispatch: (block, offset, target, its offset, bytes).

        Returns:
            (buffer, offset, bytes) of each buffer, and for each original binding the index of its first element.
        """
        ranges, offsets = [], []
        for group, element_bytes in zip(merged.bindings, merged.bytes, strict=True):
            if len(group) == 1:
                offsets.append(0)
                ranges.append(self._bindable_range(command.slots[group[0]], blocks, kernel, group[0], copies_back))
                continue
            starts, total = [], 0
            for binding in group:
                slot = command.slots[binding]
                starts.append(total)
                total += -(-max(slot.size, 1) // ALIGNMENT) * ALIGNMENT
            self._check_size(kernel, f"bindings {', '.join(map(str, group))} in one buffer", total)
            temporary = self.temporary(total)
            for binding, start in zip(group, starts, strict=True):
                slot = command.slots[binding]
                block = _block(blocks, slot)
                self.copy(block, slot.offset, temporary, start, slot.size)
                if binding in merged.written:
                    copies_back.append((temporary, start, block, slot.offset, slot.size))
            offsets += [start // element_bytes for start in starts]
            ranges.append((temporary.buffer, 0, total))
        return ranges, offsets

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
        copies_back: list[tuple[Block, int, Block, int, int]],
    ) -> tuple[Any, int, int]:  # fmt: skip
        """Return the (buffer, offset, bytes) to bind for an operand.

        An operand at an unaligned offset, or at the end of its block, is copied to a temporary block.

        Args:
            slot: The operand.
            blocks: Memory by index, which operands refer to.
            kernel: The kernel.
            binding: Index of its binding.
            copies_back: Receives the copies to record after the dispatch, as in `_merged_ranges`.
        """
        context, block, offset = self.context, _block(blocks, slot), slot.offset
        buffer = kernel.entry.buffers.get(binding)
        min_bytes = MIN_BINDING_BYTES if buffer is None else max(MIN_BINDING_BYTES, buffer.bytes + 3 & ~3)
        size = max(min_bytes, slot.size + 3 & ~3)
        if buffer is not None and buffer.is_all and slot.size < buffer.bytes:
            raise InvalidArgumentError(
                f"{kernel.label}, binding {binding}: {slot.size} bytes, and '{buffer.name}' of the shader is "
                f"{buffer.type} of {buffer.bytes}: give it a larger tensor, or declare an array without a size"
            )
        self._check_size(kernel, f"binding {binding}", size)
        if slot.size == 0 and min_bytes <= block.size:
            return block.buffer, 0, min_bytes
        if offset % context.alignment == 0 and offset + size <= block.size:
            return block.buffer, offset, size
        temporary = self.temporary(size)
        self.copy(block, offset, temporary, 0, slot.size)
        if not kernel.read_only[binding]:
            copies_back.append((temporary, 0, block, offset, slot.size))
        return temporary.buffer, 0, size

    def finish(self) -> RecordedPlan:
        """Finish the recording: write the constants of all dispatches to one uniform buffer, and return the
        recording.
        """
        recorded, context = self.recording, self.context
        if self.uniform_bytes:
            block = self.temporary(len(self.uniform_bytes))
            context.write(block, context.ffi.from_buffer(self.uniform_bytes), len(self.uniform_bytes))
            layout = context.pipelines.uniform_group()
            for bound, group_index, at, size in self.pending_uniforms:
                bound.append((group_index, self._group(layout, [(block.buffer, at, size)])))
        return recorded


def _block(blocks: Sequence[Block | None], slot: Slot) -> Block:
    """Return the block of a buffer that a command names."""
    block = blocks[slot.buffer]
    assert block is not None, "a buffer that a command names has memory"
    return block
