"""Execution of plans on the PTX interpreter, one command after the other.

The commands of a plan (`DevicePlan`) refer to buffers by index. `blocks` has the memory of each buffer in one run,
`addresses` its address; `constants` are the push constants of all dispatches (bytes of 32-bit words), `fill_patterns`
the fill pattern of each command, 0 for commands that are no fills.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch._core.commands import Command, Copy, Custom, Dispatch, Fill
from pydispatch._core.profile import Timing
from pydispatch.errors import ArtifactError, DeviceUnavailableError, InvalidArgumentError, KernelError
from pydispatch.formats.ptx import interface, read
from pydispatch.runtime.accelerators import execute
from pydispatch.runtime.accelerators.host_calls import Surroundings
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan, label
from pydispatch.runtime.accelerators.ptx_parameters import packer_of
from pydispatch.runtime.accelerators.ptx_parts import CUBIN, KernelEntry, PtxParts

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData
    from pydispatch.formats.ptx.module import PtxModule
    from pydispatch.runtime.accelerators.execute import Executable
    from pydispatch.runtime.devices.ptx_interpreter.context import Context
    from pydispatch.runtime.simulators.ptx.image import Loaded

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Most thread blocks along x, y and z that CUDA starts."""

NO_CUBINS = (
    "machine code (cubin) runs on GPUs alone; give the interpreter PTX: nvcc -ptx -arch=sm_80 kernels.cu, and link "
    "functions from .cu, .ptx or .bc"
)
"""Reason and remedy in the message about a program whose kernels have no PTX."""


class InterpretedKernel:
    """Loaded kernel of an export, ready to be launched.

    Attributes:
        executable, export: Names of its executable and export.
        entry: The kernel as `launch` of the simulated device takes it.
        block: Invocations of a thread block along x, y and z.
        shared_bytes: Dynamic shared memory of a block.
        pack: Returns the bytes of the kernel's parameters for (addresses of bindings, constants of all dispatches,
            index of the dispatch's first constant).
    """

    __slots__ = ("block", "entry", "executable", "export", "pack", "shared_bytes")

    def __init__(self, executable: str, kernel_entry: KernelEntry, entry: Any) -> None:
        """Create a kernel of an executable.

        kernel_entry: the description of the kernel in the artifact. entry: its loaded function.
        """
        self.executable, self.export, self.entry = executable, kernel_entry.name, entry
        self.block, self.shared_bytes = kernel_entry.block, kernel_entry.shared
        self.pack = packer_of(kernel_entry).pack

    @property
    def label(self) -> str:
        """Executable and export, for messages."""
        return f"@{self.executable}::@{self.export}"


class SeparateTransients(DevicePlan):
    """Plan with one allocation per transient, so that accesses beyond a transient are detected.

    transient_sizes: (index of its buffer, bytes) of each transient.
    """

    __slots__ = ("transient_sizes",)

    def _move_transients_to_arena(self) -> None:
        """Override the base class's packing of all transients into one arena: give each a block of its own.

        The executor allocates a block for each entry of `transient_sizes`. Without `transients` there is no arena.
        """
        self.transient_sizes = [(buffer_index, self.sizes[buffer_index]) for buffer_index, _ in self.transients]
        self.transients = []


class Executor(execute.Executor):
    """Executor of one program on the PTX interpreter: it loads the kernels, and runs the commands of plans in order.

    Attributes:
        kernels: (index of the executable, ordinal of the export) → kernel.
        loaded: Loaded modules, which the context frees after the executor is deleted.
    """

    def __init__(self, context: Context) -> None:
        """Create an executor without kernels."""
        super().__init__(context)
        self.kernels: dict[tuple[int, int], InterpretedKernel] = {}
        self.loaded: list[Loaded] = []

    def __del__(self) -> None:
        """Queue the modules for release. They are not freed here, because a launch may be running."""
        if hasattr(self, "loaded"):  # a signal handler's exception can leave __init__ anywhere
            self.context.released_modules.extend(self.loaded)

    def keep(self, data: PlanData) -> DevicePlan:
        """Return the plan of the C core with one allocation per transient, so that accesses beyond one are detected."""
        return SeparateTransients(data, self.alignments)

    def load(self, executable: Executable) -> int:
        """Load the PTX modules of an executable, and return the alignment of its bindings in bytes.

        Raise DeviceUnavailableError for cubins.
        """
        name, source, variant, file = executable.name, executable.source, executable.variant, executable.file
        where = f"executable '{name}'{f' ({source})' if source else ''}"
        parts = PtxParts(executable.code, variant.get("ptx"), f"{file}: {where}")
        if any(module_range.kind == CUBIN for module_range in parts.modules):
            raise DeviceUnavailableError(f"{file}: {where}: {NO_CUBINS}")
        # Link the PTX of each module with the libraries if it imports functions, and find the kernel of each export.
        texts = parts.module_codes(executable.code)
        if variant.get("imports"):
            texts = executable.resolution.link(name, texts, variant)
        entries = parts.kernel_entries(texts, executable.exports)
        # Parse and check the modules, and load them into the simulated device.
        file_name = Path(source).name if source else f"{name}.ptx"
        names = [file_name if i == 0 else f"{file_name} {i}" for i in range(len(texts))]  # a.ptx, a.ptx 1, a.ptx 2
        modules = [read.read(text, f"{where}: {label}") for text, label in zip(texts, names, strict=True)]
        for module in modules:
            self._check_target(module, where)
        # Errors of running kernels name their module without the executable.
        modules = [replace(module, name=label) for module, label in zip(modules, names, strict=True)]
        loaded = [self._load(module, where) for module in modules]
        # Set the constants of the executable, and store its kernels for dispatches.
        self._write_constants(loaded, modules, parts.constant_values(executable.constants))
        for entry in entries:
            self._check_shared(entry, modules[entry.module], where)
            kernel = InterpretedKernel(name, kernel_entry=entry, entry=loaded[entry.module].entry(entry.symbol))
            self.kernels[executable.index, entry.ordinal] = kernel
        return int(variant["alignment"])

    def _load(self, module: PtxModule, where: str) -> Loaded:
        """Load a module into the simulated device.

        Raise ArtifactError, which begins with `where`, if the device cannot run the module.
        """
        with self.context.lock:
            try:
                loaded: Loaded = self.context.machine.load(module, module.name)
            except ArtifactError as error:
                raise ArtifactError(f"{where}: {error}") from None
            self.loaded.append(loaded)
            return loaded

    def _check_target(self, module: PtxModule, where: str) -> None:
        """Raise DeviceUnavailableError, which begins with `where`, if a module needs a newer compute capability."""
        supported = interface.capabilities(*self.context.capability)
        if not supported.issuperset(interface.requirements(module.target)):
            major, minor = self.context.capability
            raise DeviceUnavailableError(
                f"{where}: it is PTX for {module.target}, the interpreter has compute capability {major}.{minor}; "
                f"open 'ptx-interpreter?capability=...', or compile it with nvcc -ptx -arch=sm_{major}{minor}"
            )

    def _check_shared(self, entry: KernelEntry, module: PtxModule, where: str) -> None:
        """Raise DeviceUnavailableError if a kernel needs more shared memory, static and dynamic, than a block can have.

        module: the module of the kernel. where: text that the message begins with.
        """
        function = module.function(entry.symbol)
        variables = [*module.variables, *(function.variables if function is not None else ())]
        static_bytes = sum(variable.size for variable in variables if variable.space == "shared")
        major, minor = self.context.capability
        sm_number = 10 * major + minor  # 80 for sm_80
        limit = interface.shared_limit(sm_number)
        if static_bytes + entry.shared > limit:
            raise DeviceUnavailableError(
                f"{where}, export '@{entry.name}': {static_bytes} bytes of shared memory and {entry.shared} "
                f"dynamic ones, a block of this device has at most {limit}"
            )

    def _write_constants(
        self, loaded: Sequence[Loaded], modules: Sequence[PtxModule], values: Sequence[tuple[str, int]]
    ) -> None:
        """Write executable constants to the variables of the modules.

        Args:
            loaded, modules: Each module as loaded and as parsed.
            values: (name of a variable, word of up to 64 bits) of each constant. Every module that declares the
                variable receives the low bytes of the word, as many as the variable has.

        Raises:
            ArtifactError: No module has the variable of a constant.
        """
        for variable, word in values:
            declaring = [
                loaded_module for loaded_module, module in zip(loaded, modules, strict=True)
                if any(declared.name == variable for declared in module.variables)
            ]  # fmt: skip
            if not declaring:
                raise ArtifactError(f"{modules[0].name}: there is no variable '{variable}' for an executable constant")
            for loaded_module in declaring:
                address, size = loaded_module.variable(variable)
                with self.context.lock:
                    self.context.memory.write(address, word.to_bytes(8, "little")[:size])

    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Run all commands, which are complete on return."""
        self._run(device_plan, blocks, constants, fill_patterns, after=None)

    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run a plan, and return the seconds that each command took on the host's clock."""
        stamps = [time.perf_counter()]  # the start, then the end of each command
        self._run(device_plan, blocks, constants, fill_patterns, after=lambda: stamps.append(time.perf_counter()))
        return [
            Timing(self._label(command), stamps[i + 1] - stamps[i]) for i, command in enumerate(device_plan.commands)
        ]

    def cuts_at(self, synchronous: bool) -> bool:
        """Return False: commands run one after the other, so a host command needs no split."""
        return False

    def surroundings(self, synchronous: bool) -> Surroundings:
        """Return the device state that a host command receives. synchronous: unused, all earlier work is complete.

        `address_of` returns (pointer, offset) of a tensor. Here the pointer includes the offset, so the second is 0.
        """
        return Surroundings(
            "ptx-interpreter", self.context, address_of=lambda block, offset: (block.address + offset, 0)
        )

    def _label(self, command: Command) -> str:
        """Return the name of a command in traces and profiles; a dispatch has the name of its kernel."""
        return label(command, self._kernel_of(command).label if isinstance(command, Dispatch) else "")

    def _kernel_of(self, command: Dispatch) -> InterpretedKernel:
        """Return the loaded kernel that a dispatch runs."""
        return self.kernels[command.executable, command.ordinal]

    def _fill(self, command: Fill, addresses: Sequence[int], fill_pattern: int) -> None:
        """Fill a range of a buffer with the low `command.pattern_size` bytes of a pattern.

        addresses: device address of each buffer of the plan.
        """
        target, size = command.target, command.pattern_size
        mask = (1 << 8 * size) - 1  # 0xFFFF for 2 bytes
        pattern = (fill_pattern & mask).to_bytes(size, "little")
        self.context.memory.fill(addresses[target.buffer] + target.offset, pattern, count=target.size // size)

    def _run(
        self,
        device_plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
        after: Callable[[], None] | None,
    ) -> None:
        """Run the commands of a plan in order; each is complete before the next one begins.

        A transient, a buffer for intermediate values, gets a block of its own for the time of the run.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Memory of each buffer of the plan; None for transients and unused buffers.
            constants: Push constants of all dispatches, 32-bit words.
            fill_patterns: Fill pattern of each command; 0 for other commands.
            after: Called after each command; None for no call.
        """
        context = self.context
        with context.lock:
            context.require_usable()
            assert isinstance(device_plan, SeparateTransients)  # `keep` creates all plans of this executor
            # Transients have no block yet: their 0 and None are replaced below.
            addresses = [block.address if block is not None else 0 for block in blocks]
            blocks, transients = list(blocks), []
            try:
                for index, size in device_plan.transient_sizes:
                    transients.append(block := context.acquire(size))
                    addresses[index], blocks[index] = block.address, block
                for index, command in enumerate(device_plan.commands):
                    if isinstance(command, Dispatch):
                        self._dispatch(command, addresses, constants)
                    elif isinstance(command, Fill):
                        self._fill(command, addresses, fill_patterns[index])
                    elif isinstance(command, Custom):
                        assert self.calls is not None  # the host commands, set for every program that has some
                        surroundings = self.surroundings(synchronous=True)
                        self.calls.call(device_plan.data.function, command, blocks, constants, surroundings)
                    elif isinstance(command, Copy):
                        source, target = command.source, command.target
                        data = context.memory.read(addresses[source.buffer] + source.offset, source.size)
                        context.memory.write(addresses[target.buffer] + target.offset, data)
                    if after is not None:
                        after()
            finally:
                for block in transients:
                    context.release(block)

    def _dispatch(self, command: Dispatch, addresses: Sequence[int], constants: bytes) -> None:
        """Launch a kernel. If it fails, raise KernelError with its executable and export.

        addresses: device address of each buffer. constants: push constants of all dispatches of the plan.
        """
        kernel, grid = self._kernel_of(command), command.grid
        if any(size > limit for size, limit in zip(grid, MAX_GRID, strict=True)):
            raise InvalidArgumentError(
                f"{kernel.label}: a grid of {' x '.join(map(str, grid))} workgroups, CUDA starts at most "
                f"{' x '.join(map(str, MAX_GRID))}"
            )
        bindings = [addresses[slot.buffer] + slot.offset for slot in command.slots]
        try:
            packed = kernel.pack(bindings, constants, command.first_constant)
            self.context.machine.launch(kernel.entry, grid, kernel.block, packed, kernel.shared_bytes)
        except KernelError as error:
            raise KernelError(
                f"{kernel.label}: {error}", kernel.executable, kernel.export, error.workgroup, error.code
            ) from None
