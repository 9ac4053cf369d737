"""Execution of plans on Vulkan: command buffers are recorded once and cached by the memory that they refer to.

The commands of a plan (`DevicePlan`) refer to buffers by index. `blocks` has the memory of each buffer in one run;
`constants` are the push constants of all dispatches (bytes of 32-bit words), `fill_patterns` the fill pattern of each
command, 0 for commands that are no fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch._core.commands import Custom, Dispatch
from pydispatch._core.profile import Timing
from pydispatch._core.trace import Kind
from pydispatch.errors import CommandError
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.host_calls import Surroundings
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan, label
from pydispatch.runtime.accelerators.recordings import FixedRecording, RecordingExecutor
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.member import SpirvMember
from pydispatch.runtime.devices.vulkan.pipelines import Executables
from pydispatch.runtime.devices.vulkan.record import CommandBufferRecorder
from pydispatch.runtime.devices.vulkan.recorded_buffer import RecordedBuffer
from pydispatch.runtime.devices.vulkan.spirv import check_writes

if TYPE_CHECKING:
    from pydispatch._core.commands import Command
    from pydispatch.runtime.accelerators.execute import Executable
    from pydispatch.runtime.devices.vulkan.context import Context


class Executor(RecordingExecutor[RecordedBuffer]):
    """Executor of one program on a Vulkan device: it records the commands of plans, and submits them.

    It owns the pipelines and constants of the program.
    """

    def __init__(self, context: Context) -> None:
        """Create an executor without pipelines and constants on an open device."""
        super().__init__(context)
        self.executables = Executables(context)

    def forget(self) -> None:
        """Release the memory of constants, and the pipelines, because the device was closed."""
        super().forget()
        self.executables.release()

    def load(self, executable: Executable) -> None:
        """Link the SPIR-V modules of an executable with its imports, and create its pipelines."""
        name, variant = executable.name, executable.variant
        # Code that is supplied at load time has no table of modules: it is a single module.
        module_table = variant.get("spirv") if executable.source is None else None
        member = SpirvMember(len(executable.code), module_table, where=f"{executable.file}: executable '{name}'")
        modules = [bytes(executable.code[offset : offset + size]) for offset, size in member.modules]
        if variant.get("imports"):
            modules = executable.resolution.link(name, modules, variant)
            # A linked function may write a buffer that the program declares read-only, which is an error.
            check_writes(f"executable '@{name}'", modules, member.entries, variant)
        self.executables.load(executable, member, modules)

    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Submit the plan as one command buffer, and wait until it is complete.

        A recording is a finished command buffer, which refers to certain blocks. Recordings are cached by the
        numbers of these blocks, and by constants and fill patterns if they differ between calls. A recording is taken
        out of the cache while it runs, so that no other thread submits it. `epoch` counts the times that the pool has
        destroyed memory: a recording of an earlier epoch may refer to destroyed memory.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Device memory of each buffer; None for unused buffers.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """
        context = self.context
        key = self.key_of(device_plan, blocks, constants, fill_patterns)
        recordings = self.recordings(device_plan)

        def prepare() -> RecordedBuffer:
            """Return a cached recording of the plan, or record the plan: if none is cached, or it may be outdated.

            `Context.run` calls this under the lock that `record` needs.
            """
            recording = recordings.take(key)
            if recording is None or recording.epoch != context.pool.epoch:
                recording = self.record(device_plan, blocks, constants, fill_patterns)
            return recording

        recordings.put(key, context.run(prepare))

    def fix(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Fixed:
        """Return a run of a plan over fixed memory, whose first run records the commands."""
        return Fixed(self, device_plan, blocks, constants, fill_patterns)

    def record(
        self,
        device_plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
        timed: bool = False,
    ) -> RecordedBuffer:
        """Record the commands of a plan into a command buffer; the caller holds the context's lock.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Memory of each buffer of the plan.
            constants: 32-bit words that the commands read in this call.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
            timed: Whether to record a timestamp after each command.
        """
        recorder = CommandBufferRecorder(self.context)

        def record_host_command(command: Custom) -> None:
            """Let a host command of the plan record its work into the command buffer of `recorder`."""
            self._record_command(device_plan.data.function, command, blocks, constants, recorder.buffer)

        try:
            recorder.commands(
                device_plan.commands, blocks, constants, fill_patterns, self.executables, timed, record_host_command
            )
        except BaseException:
            recorder.recorded.release()  # the blocks and descriptor sets that the recording has acquired so far
            raise
        return recorder.finish()

    def _record_command(self, function: int, command: Custom, blocks: Blocks, constants: bytes, buffer: Any) -> None:
        """Call a host command that records into a command buffer. function: index of the function that contains it.

        Raise CommandError if the command fails, or if the validation layer reports an error in the recorded work.
        """
        assert self.calls is not None  # set for every program with host commands
        instance = self.context.instance
        message_count = len(instance.messages)
        self.calls.call(function, command, blocks, constants, self.surroundings(synchronous=False, buffer=buffer))
        if len(messages := instance.messages) > message_count:
            label = self.calls.label(command)
            raise CommandError(f"{label} recorded work that is not valid: {messages[message_count]}", label)

    def cuts_at(self, synchronous: bool) -> bool:
        """Return whether plans are split at a host command: only at a synchronous one, which runs when all earlier
        work is complete. Others record into the command buffer of the plan.
        """
        return synchronous

    def surroundings(self, synchronous: bool, buffer: Any = None) -> Surroundings:
        """Return the device state that a host command receives, with the handles of Vulkan objects as integers: the
        VkDevice, the VkCommandBuffer that is recorded, and the VkBuffers that contain the blocks.

        A host command is a function of the user that a plan calls between dispatches. A synchronous one runs when all
        earlier work is complete; others record their work into the command buffer of the plan.

        Args:
            synchronous: Unused: there is nothing to wait for, as `Context.run`, which submits all work, returns only
                after the work is complete.
            buffer: VkCommandBuffer that is being recorded; None for a synchronous command.
        """
        context, ffi = self.context, self.context.ffi

        def handle_bits(handle: Any) -> int:
            """Return a handle of the Vulkan API as an integer, for C."""
            return int(ffi.cast("uintptr_t", handle))

        def address_of(block: Any, offset: int) -> tuple[int, int]:
            """Return the VkBuffer that contains a block, and the offset in it of byte `offset` of the block."""
            return handle_bits(block.buffer), block.offset + offset

        recorded = None if buffer is None else handle_bits(buffer)
        handle = handle_bits(context.handle)  # the VkDevice
        return Surroundings("vulkan", context, address_of, stream=None, command_buffer=recorded, handle=handle)

    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run a plan with a timestamp after each command, and return the device time of each command.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Memory of each buffer of the plan.
            constants: 32-bit words that the commands read in this call.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """
        context, ffi = self.context, self.context.ffi

        def prepare() -> RecordedBuffer:
            """Record the plan with timestamps; `Context.run` calls this under the lock."""
            with traced.span(Kind.SUBMIT):
                return self.record(device_plan, blocks, constants, fill_patterns, timed=True)

        with traced.span(Kind.WAIT):
            recorded = context.run(prepare)
        count = len(device_plan.commands) + 1  # one stamp before the first command
        stamps = ffi.new("uint64_t[]", count)
        context.calls.vkGetQueryPoolResults(
            context.handle,
            recorded.queries,
            0,
            count,
            ffi.sizeof(stamps),
            stamps,
            8,  # bytes from one stamp to the next
            api.QUERY_64_BITS | api.QUERY_WAITS,
        )
        seconds_per_tick = context.features.properties.limits.timestampPeriod * 1e-9
        labels = [self._label(command) for command in device_plan.commands]
        return [Timing(label, (stamps[i + 1] - stamps[i]) * seconds_per_tick) for i, label in enumerate(labels)]

    def _label(self, command: Command) -> str:
        """Return the name of a command in traces and profiles; a dispatch has the name of its kernel."""
        return label(command, self.executables.kernel_of(command).label if isinstance(command, Dispatch) else "")


class Fixed(FixedRecording[RecordedBuffer]):
    """Command buffer of a plan over fixed memory; implements `pydispatch.runtime.accelerators.execute.Fixed`.

    arguments: (blocks, constants, fill patterns) for `Executor.record`.
    """

    def run(self) -> None:
        """Submit the command buffer once, and wait until it is complete."""
        self.context.run(self._prepare)

    def _prepare(self) -> RecordedBuffer:
        """Return the recorded commands of the plan; record them again if the pool has destroyed memory since.

        The pool increases its epoch whenever it destroys memory, to which the recorded commands may refer.
        """
        if self.recorded is None or self.recorded.epoch != self.context.pool.epoch:
            self.recorded = self.executor.record(self.plan, *self.arguments)
        return self.recorded
