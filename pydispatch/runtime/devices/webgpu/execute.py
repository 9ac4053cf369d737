"""Execution of plans on WebGPU: recordings are cached by the buffers that they bind, and encoded for each run.

The commands of a plan (`DevicePlan`) refer to buffers by index. `blocks` has the memory of each buffer in one run;
`constants` are the push constants of all dispatches (bytes of 32-bit words), `fill_patterns` the fill pattern of each
command, 0 for commands that are no fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydispatch._core.commands import Command, Custom, Dispatch
from pydispatch._core.profile import Timing
from pydispatch.runtime.accelerators.host_calls import Surroundings
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan, label
from pydispatch.runtime.accelerators.recordings import FixedRecording, RecordingExecutor
from pydispatch.runtime.devices.webgpu.kernels import Kernels
from pydispatch.runtime.devices.webgpu.plan import Plan
from pydispatch.runtime.devices.webgpu.record import PassRecorder
from pydispatch.runtime.devices.webgpu.recorded_plan import RecordedPlan
from pydispatch.runtime.devices.webgpu.timing import seconds_of
from pydispatch.runtime.devices.webgpu.wgsl_parts import WgslParts

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData
    from pydispatch.runtime.accelerators.execute import Executable
    from pydispatch.runtime.devices.webgpu.context import Context


class Executor(RecordingExecutor[RecordedPlan]):
    """Executor of one program on a WebGPU device: it records plans as `RecordedPlan`, and runs the recordings.

    It owns the pipelines and constants of the program.
    """

    def __init__(self, context: Context) -> None:
        """Create an executor without pipelines and constants on an open device."""
        super().__init__(context)
        self.kernels = Kernels(context)

    def forget(self) -> None:
        """Release the memory of constants, and the pipelines, because the device was closed."""
        super().forget()
        self.kernels.release()

    def load(self, executable: Executable) -> None:
        """Link the WGSL modules of an executable with its imports, and create its shader modules."""
        name, variant = executable.name, executable.variant
        where = f"{executable.file}: executable '{name}'"
        is_supplied = executable.source is not None
        parts = WgslParts(len(executable.code), variant.get("wgsl"), where, is_supplied)
        codes = [bytes(executable.code[offset : offset + size]) for offset, size in parts.modules]
        if variant.get("imports"):
            codes = executable.resolution.link(name, codes, variant)
        self.kernels.load(executable, parts, codes)

    def keep(self, data: PlanData) -> DevicePlan:
        """Convert a plan of the C core for this device.

        Its transients (buffers for intermediate results of one run) become ranges of one buffer, the arena, at offsets
        that WebGPU can bind.
        """
        return Plan(data, self.context.alignment)

    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Submit the commands of a plan."""
        with self._with_temporaries(device_plan, blocks) as blocks:
            self._run(device_plan, blocks, constants, fill_patterns)

    @contextmanager
    def _with_temporaries(self, device_plan: DevicePlan, blocks: Blocks) -> Iterator[Blocks]:
        """Yield the blocks of a plan together with temporary blocks of this run, which are released at the end.

        The temporary blocks are those of transients that are operands of host commands. Such transients are not in the
        arena: host commands could not copy between them, because WebGPU's copy command does not copy within one buffer.
        """
        assert isinstance(device_plan, Plan)  # `keep` creates all plans of this executor
        if not device_plan.transient_sizes:
            yield blocks
            return
        blocks, temporaries = list(blocks), list[Any]()
        try:
            for index, size in device_plan.transient_sizes:
                blocks[index] = block = self.context.acquire(size)
                temporaries.append(block)
            yield blocks
        finally:
            for block in reversed(temporaries):
                self.context.release(block)

    def _run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Submit the cached recording for these blocks, or record one first.

        The recording is taken out of the cache meanwhile, so that no other thread uses it.
        """
        key = self.key_of(device_plan, blocks, constants, fill_patterns)
        recordings = self.recordings(device_plan)
        recorded = recordings.take(key)
        if recorded is None:
            with self.context.lock:
                recorded = self.record(device_plan, blocks, constants, fill_patterns)
        self.submit(recorded, device_plan, blocks, constants)
        recordings.put(key, recorded)

    def fix(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Fixed:
        """Return a run of a plan over fixed memory, whose recording is submitted again each time."""
        return Fixed(self, device_plan, blocks, constants, fill_patterns)

    def record(
        self,
        device_plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
        timed: bool = False,
    ) -> RecordedPlan:
        """Record the commands of a plan; the caller holds the context's lock.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Device memory of each buffer; None for unused buffers.
            constants: Push constants of all dispatches, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
            timed: Whether each command gets a compute pass of its own, so that it can be timed.
        """
        self.context.require_usable()
        recorder = PassRecorder(self.context)
        recorder.commands(device_plan.commands, blocks, constants, fill_patterns, self.kernels, timed)
        return recorder.finish()

    def submit(self, recorded: RecordedPlan, device_plan: DevicePlan, blocks: Blocks, constants: bytes) -> None:
        """Submit a recording. blocks, constants: those of the recording, for its host commands."""
        if self.context.closed:
            self.context.require_usable()
        recorded.run(self.context.name, self._host_commands(device_plan, blocks, constants))

    def _host_commands(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes) -> _Host | None:
        """Return the caller of host commands for one run; None if the program has none."""
        return None if self.calls is None else _Host(self, device_plan.data.function, blocks, constants)

    def cuts_at(self, synchronous: bool) -> bool:
        """Return False: a plan is not split at its host commands, since its recording splits submissions there."""
        return False

    def surroundings(self, synchronous: bool, encoder: Any = None) -> Surroundings:
        """Return the device state that a host command receives.

        synchronous: unused, since a synchronous command gets no encoder. encoder: the WGPUCommandEncoder that the
        command records into; None if all earlier work is complete.
        """
        context, ffi = self.context, self.context.ffi

        def handle_bits(handle: Any) -> int:
            """Return a handle of wgpu as an integer, for C."""
            return int(ffi.cast("uintptr_t", handle))

        recorded = None if encoder is None else handle_bits(encoder)
        # `address_of` returns (WGPUBuffer, byte offset in it) for an operand at an offset of a block.
        return Surroundings(
            "webgpu", context, address_of=lambda block, offset: (handle_bits(block.buffer), offset), stream=None,
            command_buffer=recorded, handle=handle_bits(context.device),
        )  # fmt: skip

    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run a plan with a compute pass for each command, and return the device time of each."""
        context = self.context
        with self._with_temporaries(device_plan, blocks) as blocks:
            with context.lock:
                recorded = self.record(device_plan, blocks, constants, fill_patterns, timed=True)
            seconds = seconds_of(context, recorded, self._host_commands(device_plan, blocks, constants))
        labels = [self._label(command) for command in device_plan.commands]
        return [Timing(name, spent) for name, spent in zip(labels, seconds, strict=True)]

    def _label(self, command: Command) -> str:
        """Return the name of a command in traces and profiles; a dispatch has the name of its kernel."""
        return label(command, self.kernels.kernel_of(command).label if isinstance(command, Dispatch) else "")


class _Host:
    """Caller of the host commands of one run of a plan; implements `recorded_plan.HostCommands`.

    arguments: (index of the function that the plan is of, blocks, constants) for `HostCalls.call`.
    """

    def __init__(self, executor: Executor, function: int, blocks: Blocks, constants: bytes) -> None:
        """Create the caller for a run of a plan of function number `function`; `executor.calls` is set."""
        assert executor.calls is not None
        self.executor, self.calls, self.arguments = executor, executor.calls, (function, blocks, constants)

    def waits(self, command: Custom) -> bool:
        """Return whether all earlier work must be complete before a host command is called."""
        return self.calls.commands[command.command].synchronous

    def call(self, command: Custom, encoder: Any) -> None:
        """Call a host command of the run. encoder: the WGPUCommandEncoder that it records into, or None."""
        function, blocks, constants = self.arguments
        # Without an encoder all earlier work is complete, and the command runs by itself. The surroundings are the
        # device, its handles and the encoder, as the command receives them.
        surroundings = self.executor.surroundings(synchronous=encoder is None, encoder=encoder)
        self.calls.call(function, command, blocks, constants, surroundings)


class Fixed(FixedRecording[RecordedPlan]):
    """Recording over fixed memory; implements `pydispatch.runtime.accelerators.execute.Fixed`."""

    executor: Executor

    def run(self) -> None:
        """Submit the recording once; the first run records it."""
        recorded = self.recorded
        blocks, constants, fill_patterns = self.arguments
        if recorded is None:
            with self.context.lock:
                recorded = self.recorded = self.executor.record(self.plan, blocks, constants, fill_patterns)
        self.executor.submit(recorded, self.plan, blocks, constants)
