"""Recording of a plan's commands as a `RecordedPlan`: calls of wgpu for copies, fills and dispatches.

Commands of a plan refer to buffers by index; `blocks` has the device memory of each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill
from pydispatch.formats.wgsl.grid import GRID
from pydispatch.formats.wgsl.interface import CONSTANTS
from pydispatch.formats.wgsl.merge import OFFSETS
from pydispatch.runtime.devices.webgpu.memory import Block
from pydispatch.runtime.devices.webgpu.moves import WORDS
from pydispatch.runtime.devices.webgpu.operand_ranges import OperandRanges, block_of
from pydispatch.runtime.devices.webgpu.pipelines import BufferRange
from pydispatch.runtime.devices.webgpu.recorded_plan import RecordedPlan

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.kernels import Kernels
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice

_MAX_MOVE_BYTES = 64 << 20
"""Bytes of one dispatch of a shader of `moves`, which keeps its binding below every device's limit."""
_INVOCATIONS = 64
"""Invocations of a workgroup of the shaders of `moves`, as their @workgroup_size states."""
_MAX_GRID = 65535
"""Workgroups along one axis that every device starts."""


def _rounded_up(size: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is not less than `size`."""
    return -(-size // multiple) * multiple


class PendingUniform(NamedTuple):
    """Uniform buffer of a launch whose bind group is created when recording ends.

    Attributes:
        groups: List in the launch's recorded call, to which `finish` appends (group_index, bind group).
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

    def copy(self, source: Block, source_offset: int, target: Block, target_offset: int, size: int) -> None:
        """Record a copy of `size` bytes from a range of a block to a range of a block; the ranges may overlap.

        Copies that are not aligned to 4-byte words, or within one block, run as a shader, since WebGPU's copy command
        takes neither. Overlapping ranges are copied through a temporary block. Offsets and size are in bytes.
        """
        is_one_block = source is target
        if size == 0 or (is_one_block and source_offset == target_offset):
            return
        # A piece of the recording: a function that is called with the encoder and these arguments.
        are_whole_words = (source_offset | target_offset | size) & 3 == 0  # all three are multiples of 4
        if are_whole_words and not is_one_block:
            call = self.lib.wgpuCommandEncoderCopyBufferToBuffer
            self.recording.pieces.append((call, source.buffer, source_offset, target.buffer, target_offset, size))
        elif is_one_block and abs(source_offset - target_offset) < size:
            intermediate = self.temporary(size)
            self.copy(source, source_offset, intermediate, 0, size)
            self.copy(intermediate, 0, target, target_offset, size)
        else:
            for done in range(0, size, _MAX_MOVE_BYTES):  # bytes of the dispatches so far
                chunk = min(_MAX_MOVE_BYTES, size - done)
                self._dispatch_move("copy", target, target_offset + done, chunk, source, source_offset + done)

    def fill(self, target: Block, offset: int, size: int, pattern: int, pattern_bytes: int) -> None:
        """Record a fill of `size` bytes from byte `offset` of a block.

        WebGPU has a command only to clear whole words of 4 bytes to 0. A shader of this package does all other fills.

        pattern: bits of a pattern of `pattern_bytes` (1, 2, 4 or 8) bytes, little-endian. `size` is a multiple of
        `pattern_bytes`.
        """
        if size == 0:
            return
        all_bits = (1 << 8 * pattern_bytes) - 1
        eight_bytes = (pattern & all_bits).to_bytes(pattern_bytes, "little") * (8 // pattern_bytes)
        is_zero = not any(eight_bytes)
        are_whole_words = (offset | size) & 3 == 0  # both are multiples of 4
        if is_zero and are_whole_words:
            self.recording.pieces.append((self.lib.wgpuCommandEncoderClearBuffer, target.buffer, offset, size))
            return
        for done in range(0, size, _MAX_MOVE_BYTES):  # bytes of the dispatches so far
            self._dispatch_move("fill", target, offset + done, min(_MAX_MOVE_BYTES, size - done), pattern=eight_bytes)

    def _dispatch_move(
        self, name: str, target: Block, target_offset: int, size: int, source: Block | None = None,
        source_offset: int = 0, pattern: bytes = b"\0" * 8,
    ) -> None:  # fmt: skip
        """Record a dispatch of the shader that copies or fills ranges that are not aligned to words.

        Buffers are bound from a multiple of the device's alignment on, so that a range may start later in its binding.
        With an alignment of 256, a copy of 6 bytes from byte 10 to byte 257 binds the source from byte 0 on
        (`source_start` 10) and the target from byte 256 on (`target_start` 1). `shift` is 10 - 1 = 9: byte b of the
        target binding comes from byte b + 9 of the source binding.

        Args:
            name: Entry point "copy" or "fill" of the shader in `moves`.
            target: Block to write.
            target_offset: First byte in the target.
            size: Bytes to write, at most _MAX_MOVE_BYTES.
            source: Source of a copy; None for a fill.
            source_offset: First byte in the source.
            pattern: Eight bytes that a fill repeats; unused by a copy.
        """
        pipeline, layout = self.context.moves.pipeline(name)
        target_range, target_start = self._aligned_range(target, target_offset, size)
        ranges, shift = [target_range], 0
        if source is not None:
            # A word of the target may take bytes of two words of the source: bind one more word.
            source_range, source_start = self._aligned_range(source, source_offset, size + 4)
            ranges.append(source_range)
            shift = (source_start - target_start) & 0xFFFFFFFF  # modulo 2^32, because the shader adds it to a u32
        unused = 0
        # `Move` in the shader, whose field `first` is the shift.
        words = struct.pack("<3I8sI", target_start, size, shift, pattern, unused)
        assert len(words) == 4 * WORDS
        # One invocation for each word: ceil(bytes from the first word on / bytes of a workgroup).
        workgroups = -(-((target_start & 3) + size) // (4 * _INVOCATIONS))
        grid = min(max(1, workgroups), _MAX_GRID), 1, 1  # if limited, invocations write several words each
        self._add(pipeline, self._group(layout, ranges), grid, {CONSTANTS.group: words})

    def _aligned_range(self, block: Block, offset: int, size: int) -> tuple[BufferRange, int]:
        """Return what to bind for a range of a block, and the start of the range in that binding.

        The start is rounded down to the alignment that the device requires of bindings, the end up to whole words of 4
        bytes, but not beyond the block.
        """
        start = offset & -self.context.alignment  # a power of two: 300 & -256 = 256
        end = min(block.size, (offset + size + 3) & ~3)
        return BufferRange(block.buffer, start, end - start), offset - start

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

        The contents of its uniform buffers are appended to `uniform_bytes`. 24 bytes of constants take 256 bytes there
        on a device with an alignment of 256, and 32 of these are bound. `finish` creates the bind groups.

        Args:
            pipeline: WGPUComputePipeline.
            group: Bind group of its storage buffers.
            grid: Number of workgroups in x, y and z.
            uniforms: Index of a bind group → content of its uniform buffer.
        """
        pieces = self.recording.pieces
        is_pass_open = bool(pieces) and type(pieces[-1]) is list  # a list of launches is a compute pass
        if not is_pass_open or self._last_piece_is_timed():  # a timed pass gets no further launches
            pieces.append([])
        uniform_groups: list[tuple[int, Any]] = []  # `finish` fills it, once the uniform buffer exists
        for group_index, words in uniforms.items():
            # A uniform buffer begins at a multiple of the device's alignment and is bound in multiples of 16 bytes.
            bound_bytes = _rounded_up(len(words), 16)
            self.pending_uniforms.append(
                PendingUniform(uniform_groups, group_index, len(self.uniform_bytes), bound_bytes)
            )
            self.uniform_bytes += words.ljust(_rounded_up(len(words), self.context.uniform_alignment), b"\0")
        pieces[-1].append((pipeline, group, uniform_groups, *grid))

    def _last_piece_is_timed(self) -> bool:
        """Return whether the last piece belongs to a command that is recorded completely and timed by itself.

        Such a piece gets no further launches: the next command needs a compute pass of its own. `marks` has the number
        of pieces after each timed command.
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
                self.fill(block_of(blocks, slot), slot.offset, slot.size, fill_patterns[index], command.pattern_size)
            elif isinstance(command, Custom):
                self.recording.pieces.append(command)  # the host command is called when the recording is encoded
            elif isinstance(command, Copy):
                source, target = command.source, command.target
                self.copy(block_of(blocks, source), source.offset, block_of(blocks, target), target.offset, source.size)
            if timed:
                self.recording.marks.append(len(self.recording.pieces))

    def _dispatch(self, command: Dispatch, blocks: Sequence[Block | None], constants: bytes, kernels: Kernels) -> None:
        """Record a dispatch: bind its buffers and constants, and copy back written operands that were bound as copies.

        A copy is bound in place of an operand that the device cannot bind where it is, such as one at an unaligned
        offset. A kernel that has more buffers than the device can bind has merged ones: several operands are copied
        into one bound buffer, and a uniform buffer has their offsets. A grid beyond the device's limits is folded: it
        is launched in another shape, and the kernel computes the workgroup ids of the program's grid.

        Args:
            command: The dispatch.
            blocks: Memory of each buffer of the plan; None for one that no command uses.
            constants: Bytes of the constants of all dispatches, 32-bit words.
            kernels: Kernels of the program.
        """
        kernel = kernels.kernel_of(command)
        if 0 in command.grid:  # no workgroup runs, and folding would divide by 0
            return
        launch_grid = kernels.launch_grid(kernel, command.grid)  # `command.grid`, or a folded one
        operands = OperandRanges(self, command, blocks, kernel)
        # Bind the operands.
        uniforms: dict[int, bytes] = {}  # index of a bind group → content of its uniform buffer
        if kernel.merged is not None:
            operands.bind_merged(kernel.merged)
            offsets = operands.first_elements  # of each operand in its merged buffer, in elements
            empty = bytes(16)  # a uniform buffer has at least 16 bytes
            uniforms[OFFSETS.group] = struct.pack(f"<{len(offsets)}I", *offsets) or empty
            read_only = (False,) * len(operands.ranges)  # a merged buffer may have operands that are written
        else:
            operands.bind_all()
            read_only = operands.read_only_flags()
        # Add the constants of the dispatch, and the program's grid if another one is launched.
        if kernel.has_constants and command.constant_count:
            first = 4 * command.first_constant
            uniforms[CONSTANTS.group] = constants[first : first + 4 * command.constant_count]
        is_folded = launch_grid != command.grid
        if is_folded:
            x, y, z = command.grid
            uniforms[GRID.group] = struct.pack("<4I", x, y, z, x * y * z)  # workgroups from x * y * z on return
        # Record the launch, and then the copies of operands that it writes back to their own memory.
        pipeline, layout = kernels.pipeline(kernel, read_only, is_folded)
        self._add(pipeline, self._group(layout, operands.ranges), launch_grid, uniforms)
        for copy in operands.copies_back:
            self.copy(copy.temporary, copy.start, copy.block, copy.offset, copy.size)

    def finish(self) -> RecordedPlan:
        """Write the uniform buffers of all launches to one buffer, create their bind groups, and return the
        recording.
        """
        recorded, context = self.recording, self.context
        if self.uniform_bytes:
            block = self.temporary(len(self.uniform_bytes))
            context.write(block, context.ffi.from_buffer(self.uniform_bytes), len(self.uniform_bytes))
            layout = context.pipelines.uniform_group_layout()
            for groups, group_index, offset, size in self.pending_uniforms:
                groups.append((group_index, self._group(layout, [BufferRange(block.buffer, offset, size)])))
        return recorded
