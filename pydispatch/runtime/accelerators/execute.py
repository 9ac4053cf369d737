"""Execution of the plans of one program on an accelerator: the part that all devices share.

A plan is the list of commands (dispatches, fills, copies) of a function for fixed sizes, with its buffers. `PlanData`
is the plan of the C core, a `DevicePlan` the plan as the device runs it. Commands refer to buffers by index; `blocks`
has the device memory of each buffer in one run.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydispatch._core.process_lock import process_lock
from pydispatch._core.profile import Timing
from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.context import DeviceMemory
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan

if TYPE_CHECKING:
    from pydispatch._core.commands import Export
    from pydispatch._core.plan_data import PlanData
    from pydispatch.runtime.accelerators.context import Context
    from pydispatch.runtime.accelerators.derived import Derivations
    from pydispatch.runtime.accelerators.host_calls import HostCalls, Surroundings
    from pydispatch.runtime.accelerators.libraries import Resolution


@dataclass(frozen=True)
class Executable:
    """Variant of an executable (its code for one target) that a device loads for one program.

    Attributes:
        index: Index of the executable in the program.
        name: Name of the executable in the program, without "@".
        code: Code of the variant in the language of the device, such as PTX or SPIR-V.
        source: File of an executable that is supplied at load time; None for one in the artifact.
        variant: Entry of the variant in the manifest, a JSON object.
        exports: Exports that host code dispatches.
        constants: Values of executable constants, as 32-bit words.
        resolution: Resolver of the functions that the executable imports.
        file: File of the artifact, for messages.
    """

    index: int
    name: str
    code: bytes | memoryview
    source: str | None
    variant: dict[str, Any]
    exports: Sequence[Export]
    constants: Sequence[int]
    resolution: Resolution
    file: str


class Fixed(Protocol):
    """Run of a plan over bound memory, as a prepared call has it.

    `run` can be repeated; `update` binds other memory for the later runs.
    """

    def update(self, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Bind other memory, constants or fill patterns for the next runs.

        Args:
            blocks: Device memory of each buffer of the plan; None for unused buffers.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """

    def run(self) -> None:
        """Run the plan as `Executor.run` does. The caller ensures that no other run or update is active."""


Observer = Callable[[DevicePlan, bytes, list[Timing]], None]
"""Function that is called after a plan has run: observe(plan, its constants as 32-bit words, time of each command)."""


class Executor(ABC):
    """Executables and constants of one program on a device, which runs the program's plans there.

    The linker of the device creates an executor, calls `load` for each executable, and sets `constants` and
    `derivations`. A new plan is converted by `keep`. Each call then passes the result to `run`, to `fix` for repeated
    runs, or to `time` for a profile. `forget` releases the constants when the device is closed. The module of the
    program owns the executor, which holds no reference to the module.

    Attributes:
        context: The open device.
        alignments: Index of an executable → alignment in bytes that it requires of its bindings; absent: any.
        constants: Bytes of each constant of the artifact, by its index; valid as long as the module.
        derivations: Constants that are computed from others on first use; None if there are none.
        raised: Id of a thread → exception that ends the procedure that it runs; the C core passes only a status.
        calls: Caller of host commands; None if the program has none.
        observers: Id of a thread → observer of the plans that its procedure runs.
    """

    def __init__(self, context: Context) -> None:
        """Create an executor without executables and constants on an open device."""
        self.context: Any = context
        self.constants: list[memoryview] = []  # bytes of each constant of the artifact
        self.derivations: Derivations | None = None  # the constants that are computed from others
        self._uploaded: dict[int, DeviceMemory] = {}  # index of a constant → its device memory
        self._uploading = process_lock()  # guards `_uploaded`
        self.alignments: dict[int, int] = {}  # index of an executable → bytes that it requires of its bindings
        self.raised: dict[int, BaseException] = {}  # id of a thread → exception that ends the procedure that it runs
        self.calls: HostCalls | None = None  # caller of host commands
        self.observers: dict[int, Observer] = {}  # id of a thread → observer of the plans that its procedure runs

    @abstractmethod
    def load(self, executable: Executable) -> int | None:
        """Load the kernels of an executable.

        Returns:
            Alignment in bytes, at most 64, that its bindings need, or None for any alignment. Plans copy operands that
                are less aligned to aligned memory.

        Raises:
            ArtifactError: The code is invalid.
            DeviceUnavailableError: The device lacks a feature.
            MissingImportError: An imported function is not found.
        """

    @abstractmethod
    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Run or enqueue all commands of a plan.

        Args:
            device_plan: The plan.
            blocks: Device memory of each buffer of the plan; None for unused buffers.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """

    def fix(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Fixed:
        """Return a run of a plan over fixed memory that can be repeated.

        The default implementation calls `run` with these arguments each time.
        """
        return _UnfixedRun(self, device_plan, blocks, constants, fill_patterns)

    @abstractmethod
    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run the commands one at a time, wait for each, and return their device times.

        Args:
            device_plan: The plan.
            blocks: Device memory of each buffer of the plan; None for unused buffers.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """

    def keep(self, data: PlanData) -> DevicePlan:
        """Return the plan of the C core as a plan for this device. The caller caches it in `data.device`."""
        return DevicePlan(data, self.alignments)

    # For programs with host commands

    def cuts_at(self, synchronous: bool) -> bool:
        """Return whether plans are split at a host command, so that `run` never sees it: always, unless overridden.

        synchronous: whether all earlier commands must be complete before the host command.
        """
        return True

    def surroundings(self, synchronous: bool) -> Surroundings:
        """Return the device state that a host command receives.

        With `synchronous`, first wait for all submitted work.
        """
        raise DeviceUnavailableError(f"{self.context.name} has no host commands")

    def constant(self, index: int) -> Any:
        """Return the device block of constant `index` of the program, uploaded or derived on first use."""
        with self._uploading:
            if self.derivations is not None and index in self.derivations.entry_of_constant:
                self._derive(index)
            return self._block(index)

    def forget(self) -> None:
        """Release the memory of constants, because the device was closed."""
        self._uploaded.clear()
        if self.derivations is not None:
            self.derivations.shared.blocks.clear()

    def _block(self, index: int) -> Any:
        """Return the block of a constant of the program, which is uploaded on first use.

        A derived constant is in `_uploaded` already, since `_derive` has computed it.
        """
        memory = self._uploaded.get(index)
        if memory is None:
            data = self.constants[index]
            memory = DeviceMemory(self.context, self.context.acquire(data.nbytes), data.nbytes)
            self.context.copy_in(memory.block, data, data.nbytes)
            self._uploaded[index] = memory
        return memory.block

    def _derive(self, index: int) -> None:
        """Store a derived constant (such as packed weights) in `_uploaded`, and the derived ones that it depends on.

        `shared.blocks` has the derived constants that any loaded program with an equal artifact has computed. The
        missing ones are computed by derivations: plans of which each has one or more constants as its results.
        """
        assert self.derivations is not None
        shared, uploaded_before = self.derivations.shared, set(self._uploaded)
        with shared.lock:
            for derivation_index in self.derivations.order(index):  # those of its operands come first
                plan, first_constant = self.derivations.entries[derivation_index]
                if first_constant not in shared.blocks:  # then no result of this derivation is there
                    shared.blocks.update(enumerate(self._run_derivation(plan), first_constant))
                derived = range(first_constant, first_constant + len(plan.results))
                self._uploaded.update((i, shared.blocks[i]) for i in derived)
        # Release the constants that were uploaded only because a derivation reads them: often no function does.
        for index_read in set(self._uploaded) - uploaded_before - self.derivations.entry_of_constant.keys():
            del self._uploaded[index_read]

    def _run_derivation(self, data: PlanData) -> list[DeviceMemory]:
        """Run the plan of a function that has no arguments, and return the memory of its results, in order."""
        device_plan, context = self.keep(data), self.context
        # `device_plan.results` has (index of its buffer, index of the result, bytes) of each result.
        results = {
            result_index: DeviceMemory(context, context.acquire(size), size)
            for _, result_index, size in device_plan.results
        }
        blocks: Blocks = [None] * device_plan.count
        for buffer_index, result_index, _ in device_plan.results:
            blocks[buffer_index] = results[result_index].block
        for buffer_index, constant_index in device_plan.constants:
            blocks[buffer_index] = self._block(constant_index)
        self._run_once(device_plan, blocks, data.constants, device_plan.fill_patterns)
        return [results[result_index] for result_index in range(len(results))]

    def _run_once(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> None:
        """Run a plan, with its transients (intermediate buffers) in memory that is acquired for this run.

        If this thread has an observer (a function that profiles its calls), the commands are timed, and the observer is
        called with the times. Otherwise the commands are run, if there are any.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Device memory of each buffer; None for unused buffers. That of the arena, the buffer that contains
                all transients, is set here.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """
        arena = self.context.acquire(device_plan.arena_bytes) if device_plan.transients else None
        try:
            if device_plan.transients:
                blocks[device_plan.arena_index] = arena
            observe = self.observers.get(threading.get_ident()) if self.observers else None
            if observe is not None:
                observe(device_plan, constants, self.time(device_plan, blocks, constants, fill_patterns))
            elif device_plan.commands:
                traced.run(self, device_plan, blocks, constants, fill_patterns)
        finally:
            if device_plan.transients:
                self.context.release(arena)

    # For calls through the memory of the process

    def run_addresses(self, data: PlanData, constants: bytes, fill_patterns: list[int], addresses: list[int]) -> None:
        """Copy arguments from host memory to the device, run a plan, and copy the results back.

        `_core.device.Runner` calls this method for calls whose arguments and results are in host memory.

        Args:
            data: The plan of the C core. Its DevicePlan, the plan as this device runs it, is cached in `data.device`.
            constants: Push constants of this call, words of 32 bits: the scalars that kernels receive. The constants of
                a DevicePlan are tensors of the program, such as weights.
            fill_patterns: Fill pattern of each command of the plan.
            addresses: Host address of each buffer that is an argument or result; 0 for unused ones.
        """
        context = self.context
        device_plan: DevicePlan | None = data.device
        if device_plan is None:
            device_plan = data.device = self.keep(data)
        acquired: list[Any] = []  # blocks to release after the run
        blocks: Blocks = [None] * device_plan.count
        try:
            # Find or acquire the memory of each buffer, and copy arguments into it.
            for buffer_index, index in device_plan.constants:
                blocks[buffer_index] = self.constant(index)
            if device_plan.transients:
                acquired.append(block := context.acquire(device_plan.arena_bytes))
                blocks[device_plan.arena_index] = block
            for buffer_index, _, size in (*device_plan.results, *device_plan.arguments):
                acquired.append(block := context.acquire(size))
                blocks[buffer_index] = block
            for buffer_index, _, size in device_plan.arguments:
                if addresses[buffer_index]:
                    context.copy_in(blocks[buffer_index], addresses[buffer_index], size)
            # Run the commands, and copy the results. The commands of the device plan may include copies of unaligned
            # operands, which `data` lacks.
            if device_plan.commands:
                traced.run(self, device_plan, blocks, constants, device_plan.fill_patterns_of(fill_patterns))
            else:
                context.require_usable()  # a closed or lost device is an error also where nothing runs
            for buffer_index, _, size in device_plan.results:
                if addresses[buffer_index]:
                    context.copy_out(blocks[buffer_index], addresses[buffer_index], size)
        finally:
            # In reverse: the pool hands out the last released block first, so that equal calls get equal blocks.
            while acquired:
                context.release(acquired.pop())

    # For procedures, whose tensors stay on the device

    def acquire(self, size: int) -> DeviceMemory:
        """Return memory of at least `size` bytes, with any content, which is released with the returned object."""
        return DeviceMemory(self.context, self.context.acquire(size), size)

    def constant_memory(self, index: int) -> DeviceMemory:
        """Return the memory of a constant, filled on first use."""
        self.constant(index)
        return self._uploaded[index]

    def copy(self, source: DeviceMemory, at: int, target: DeviceMemory, to: int, size: int) -> None:
        """Copy `size` bytes from byte `at` of one device memory to byte `to` of another."""
        self.context.copy(source.block, target.block, size, at, to)

    def read(self, source: DeviceMemory, at: int, address: int, size: int) -> None:
        """Copy `size` bytes from byte `at` of device memory to a host address."""
        self.context.copy_out(source.block, address, size, at)

    def write(self, target: DeviceMemory, address: int, size: int) -> None:
        """Copy `size` bytes from a host address to the start of device memory."""
        self.context.copy_in(target.block, address, size)

    def can_use_in_place(self, block: Any) -> bool:
        """Return whether kernels can access a block in place."""
        return True

    def run_blocks(
        self, data: PlanData, constants: bytes, fill_patterns: list[int], memories: list[DeviceMemory | None]
    ) -> None:
        """Run a plan with arguments and results in device memory.

        `_core.device.Runner` calls this method for the plans of a procedure (a function with control flow on the host),
        whose tensors stay on the device between its steps.

        Args:
            data: The plan of the C core. Its DevicePlan, the plan as this device runs it, is cached in `data.device`.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command of the plan.
            memories: Memory of each buffer that is an argument or result; None for other buffers.
        """
        device_plan: DevicePlan | None = data.device
        if device_plan is None:
            device_plan = data.device = self.keep(data)
        blocks: Blocks = [None if memory is None else memory.block for memory in memories]
        blocks += [None] * (device_plan.count - len(blocks))  # of buffers that only this plan has, such as the arena
        # If a result has the memory of an argument, take the plan without the copy from the argument to the result. It
        # has the same buffers, so that `blocks` fits it.
        device_plan = device_plan.in_place_variant(memories)
        for buffer_index, index in device_plan.constants:
            blocks[buffer_index] = self.constant(index)
        self._run_once(device_plan, blocks, constants, device_plan.fill_patterns_of(fill_patterns))


class _UnfixedRun:
    """Run of a plan over fixed memory that calls `Executor.run` each time; implements `Fixed`.

    Fixed memory is the same device memory in every run, until `update` replaces it.
    """

    def __init__(
        self,
        executor: Executor,
        device_plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> None:
        """Bind the memory, constants and fill patterns that are passed to `Executor.run` in the first runs."""
        self.executor, self.device_plan = executor, device_plan
        self.update(blocks, constants, fill_patterns)

    def update(self, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Set the arguments that the following runs pass to `Executor.run`."""
        self.run_arguments = blocks, constants, fill_patterns

    def run(self) -> None:
        """Run the plan once over the current memory."""
        self.executor.run(self.device_plan, *self.run_arguments)
