"""A device of `pydispatch.device` that runs plans by itself, and its programs."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pydispatch._core.artifact import MAX_ALIGNMENT, ArtifactFile
from pydispatch._core.device import Runner, constant_bytes, exports_of, link_executable
from pydispatch._core.memory import Pool
from pydispatch._core.sched import Scheduler
from pydispatch.errors import ArtifactError, DeviceUnavailableError, InvalidArgumentError
from pydispatch.files import read_code
from pydispatch.runtime.accelerators.commands import CommandExecutor
from pydispatch.runtime.accelerators.context import DeviceMemory
from pydispatch.runtime.accelerators.derived import Derivations
from pydispatch.runtime.accelerators.execute import Executable
from pydispatch.runtime.accelerators.function import AcceleratorFunction
from pydispatch.runtime.accelerators.host_calls import HostCalls, LinkedCommand
from pydispatch.runtime.accelerators.libraries import Libraries, Resolution
from pydispatch.runtime.accelerators.procedure import AcceleratorProcedure
from pydispatch.runtime.buffer import MakesBuffers
from pydispatch.runtime.interface import Device
from pydispatch.runtime.program.commands import Commands, commands_of, provide
from pydispatch.runtime.program.derived import Sharing
from pydispatch.runtime.program.imports import Registry
from pydispatch.runtime.program.linker import not_given
from pydispatch.runtime.program.loader import load
from pydispatch.runtime.program.program import Program, _verify, remember
from pydispatch.runtime.program.source import open_artifact, with_plain_path
from pydispatch.runtime.program.variants import Chosen, DeviceProperties

if TYPE_CHECKING:
    from typing_extensions import Self

    from pydispatch._core.program import Module
    from pydispatch._core.state import State
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.runtime.accelerators.context import Context
    from pydispatch.runtime.accelerators.execute import Executor
    from pydispatch.runtime.accelerators.libraries import Dialect
    from pydispatch.runtime.program.imports import Provider

ALIGNMENTS = tuple(1 << bit for bit in range(MAX_ALIGNMENT.bit_length()))
"""Alignments in bytes that an executable may require of its bindings."""
HOST_BYTES = 64 << 20
"""Bytes of host memory that a program with control flow or state, whose steps the host runs, retains for reuse."""

_sharing: weakref.WeakKeyDictionary[Any, Sharing] = weakref.WeakKeyDictionary()
"""Context of each open device → the derived constants of its programs (packed weights, folded scales)."""


class AcceleratorDevice(MakesBuffers, Device):
    """A GPU, or an interpreter that runs its kernels on the CPU. Its programs take and return `pydispatch.Buffer`.

    `load` links a program with the libraries, host commands and executables that were added to the device before. A
    subclass for each driver creates the executor of a program (`_executor`) and the functions of its calls
    (`_program`).
    """

    # Whether all host commands are synchronous, however they are registered, as on an interpreter.
    _is_synchronous = False

    def __init__(self, name: str, context: Context, dialect: Dialect) -> None:
        """Create a device without libraries and host commands.

        name: such as "vulkan:0". context: the open device. dialect: language of its kernels and libraries.
        """
        self.name = self.spec = name
        self._context: Any = context
        self._dialect = dialect  # language of its kernels, such as PTX or SPIR-V
        self._supplied_code: dict[str, tuple[bytes, str]] = {}  # code of `add_executable` and its file, by name
        self._libraries = Libraries(dialect)  # libraries of `add_plugin`, with functions that kernels may call
        self._registry: Registry | None = None  # the host commands; None before the first `add_command`
        # Id of the registration of a host command (its Provider) → whether the command waits for earlier work.
        self._synchronous: dict[int, bool] = {}

    @abstractmethod
    def _properties(self) -> DeviceProperties:
        """Return the properties by which variants are selected."""

    @abstractmethod
    def _executor(self) -> Executor:
        """Return a new executor, for one program."""

    def _program(self, module: Module, name: str, executor: Executor, imports: Any) -> Program:
        """Return the program that `load` returns.

        name: name of the artifact. imports: functions that its kernels import, and the library of each.
        """
        return AcceleratorProgram(module, name, self, executor, imports)

    def _after_load(self) -> None:
        """Handle the load of a program; does nothing unless overridden."""

    @property
    def workers(self) -> int:
        """Number of queues that run dispatches."""
        return 1

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Load a program: choose the variant of each executable for this device, and link its code.

        Args:
            source: The path of a `.pdx` file, its bytes, or an Artifact.
            parameters: Values of parameters (weights) that the artifact does not contain, by their scope, "" for those
                without one. A value is the path of a `.safetensors`, `.npz` or `.npy` file, a mapping from names to
                arrays, or a list of these.

        Raises:
            ArtifactError: The artifact is damaged.
            DeviceUnavailableError: No variant in the artifact runs on this device, or the device is closed or lost.
            InvalidArgumentError: A parameter is missing, or has another shape or dtype.
            MissingImportError: No library provides a function that the program calls.
        """
        self._context.require_usable()
        source = with_plain_path(source)
        file = open_artifact(source)
        # Resolves the functions that kernels import, and records the library of each.
        resolution = Resolution(self._dialect, self._libraries.in_search_order())
        linker = _Linker(
            self._executor(), dict(self._supplied_code), resolution, self._registry, dict(self._synchronous)
        )
        sharing = _sharing.setdefault(self._context, Sharing())  # equal programs share their derived constants
        # One thread and this host memory are for the steps that the host itself runs.
        module = load(file, self._properties(), Scheduler(1), Pool(HOST_BYTES), linker, parameters, sharing)
        self._after_load()
        program = self._program(module, file.name, linker.executor, resolution.imports)
        # A program can be pickled unless it may use registrations of this device: unpickling loads it from its source.
        has_libraries = bool(self._libraries.in_search_order())
        has_registrations = has_libraries or bool(self._supplied_code) or self._registry is not None
        if not has_registrations:
            remember(program, self.spec, source, parameters)
        return program

    def add_executable(self, name: str, code: str | os.PathLike[str] | bytes) -> None:
        """Supply the kernels of an executable that programs declare without code.

        code: path or bytes of a module in the language of the device, such as SPIR-V, with an entry point per export.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"add_executable: expected the name of an executable, got {name!r}")
        where = f"add_executable '{name}'"  # begins messages
        data, label = read_code(where, code, f"a {self._dialect.language} module, with an entry point per export")
        self._check_code(data, f"{where}: {label}")
        self._supplied_code[name] = data, label

    @abstractmethod
    def _check_code(self, data: bytes, where: str) -> None:
        """Raise ArtifactError, which begins with `where`, unless the bytes are kernels for this device."""

    def add_plugin(self, plugin: Any, /, *, priority: int = 0, **params: object) -> Provider:
        return self._libraries.add(plugin, priority, params)

    def add_import(self, name: str, function: object, context: object = None, *, priority: int = 0) -> NoReturn:
        """Raise DeviceUnavailableError: kernels on this device cannot call functions of this process."""
        raise DeviceUnavailableError(f"{self.name} calls no functions of this process ('{name}'); use a CPU device")

    def add_command(
        self, name: str, function: object, context: object = None, *, priority: int = 0, synchronous: bool = False
    ) -> Provider:
        """Register a host command: host code that programs call between their dispatches (docs/host-commands.md).

        Args:
            name: The name of the command in programs.
            function: `f(context, *operands)` in Python, or a C function of `pydispatch/host_command.h`. A tensor is a
                Buffer, valid until the function returns; a scalar is a number. The function submits work to
                `context.stream` (CUDA) or records it into `context.command_buffer` (Vulkan: the recording runs in every
                call with the same memory; WebGPU: recorded for each call).
            context: An address or ctypes object that is passed to a C function.
            priority: Providers of higher priority are searched first. Of equal priorities, the provider that was added
                last is searched first.
            synchronous: Whether all earlier work completes before the command begins, and the command ends before later
                work begins. C functions then get host memory. On an interpreter, a device whose kernels run on the
                CPU, all commands are synchronous.
        """
        if self._registry is None:
            self._registry = Registry()
        provider = self._registry.add_command(name, function, context, priority)
        self._synchronous[provider.id] = bool(synchronous) or self._is_synchronous
        return provider

    def remove_plugin(self, provider: Provider) -> None:
        """Remove a library or a host command; programs that are loaded keep it."""
        is_command = getattr(provider, "kind", "") == "command"  # any other object is refused by `_libraries.remove`
        if is_command and self._registry is not None:
            self._registry.remove(provider)
        else:
            self._libraries.remove(provider)

    def _allocate_memory(self, nbytes: int) -> DeviceMemory:
        """Acquire a block of device memory for `nbytes` bytes, which is released with the result."""
        context = self._context
        context.require_usable()
        return DeviceMemory(context, context.acquire(nbytes), nbytes)

    def memory(self) -> dict[str, int]:
        return dict(self._context.stats())

    def transfers(self) -> dict[str, int]:
        """Return the number of copies since the device was opened, and their bytes.

        The keys are to_device, to_device_bytes, from_device and from_device_bytes. A view of shared memory is no copy.
        """
        counts: dict[str, int] = self._context.transfers.counts()
        return counts

    def trim(self) -> None:
        self._context.trim()

    def close(self) -> None:
        """Close the device for all of its users. Buffers keep their content; calls of its programs raise an error."""
        self._context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


class _Linker:
    """Linker of the executables of one program; implements `runtime.program.loader.Linker`.

    The loader calls `link` with the chosen variants, and `finish` when all constants are bound.

    Args:
        executor: Executor of the program, to which executables and constants are added.
        supplied: Name of an executable without code in the artifact → (code, name of its file) from `add_executable`.
        resolution: The libraries that kernels may call.
        registry: The host commands of the device; None if it has none.
        synchronous: Id of a host command's provider → whether the command waits for earlier work.
    """

    def __init__(
        self, executor: Executor, supplied: dict[str, tuple[bytes, str]], resolution: Resolution,
        registry: Registry | None, synchronous: dict[int, bool],
    ) -> None:  # fmt: skip
        """Create a linker that has linked no executable; the class describes the parameters."""
        self.executor, self.supplied, self.resolution = executor, supplied, resolution
        self.registry, self.synchronous = registry, synchronous

    def link(self, module: Module, file: ArtifactFile, variants: list[Chosen]) -> None:
        """Load the chosen variant of each executable."""
        for chosen in variants:
            self._link(module, file, chosen)

    def _link(self, module: Module, file: ArtifactFile, chosen: Chosen) -> None:
        """Load one executable with the code of its chosen variant, or with code that was supplied for it.

        An executable is a set of kernels. `chosen` has its index and name in the program, and the variant, the code for
        one architecture, that was selected for this device.

        Raises:
            MissingImportError: The code of the executable has to be supplied by `add_executable`, and was not.
            ArtifactError: The code requires an alignment of its bindings that is not in ALIGNMENTS.
        """
        index, variant = chosen.index, chosen.entry
        code: bytes | memoryview = file.find(variant["member"], verify=True)
        source = None  # file of code that was supplied
        if variant.get("dynamic"):  # the program only declares the executable, without code
            if chosen.name not in self.supplied:
                raise not_given(chosen, self.supplied, example_file=f"kernels{self.resolution.dialect.suffix}")
            code, source = self.supplied[chosen.name]
        exports = exports_of(module, index)
        executable = Executable(
            index, chosen.name, code, source, variant, exports, chosen.constants, self.resolution, file.name
        )
        alignment = self.executor.load(executable)
        if alignment is not None:
            if alignment not in ALIGNMENTS:
                raise ArtifactError(
                    f"{file.name}: executable '{chosen.name}' wants bindings aligned to {alignment} bytes"
                )
            self.executor.alignments[index] = alignment
        # The C core is passed the alignment 1, which every operand has. Instead, `DevicePlan` inserts copies of
        # operands that are less aligned than `alignments` states.
        link_executable(module, index, variant=chosen.number, alignment=1)

    def finish(self, module: Module) -> None:
        """Complete the executor with constants and host commands, and make it run the calls of the module.

        A derivation is the host code that computes derived constants (packed weights) from other constants.
        """
        if module.derivations():
            self.executor.derivations = Derivations(module)
        self.executor.constants = [constant_bytes(module, i) for i in range(len(module.constants()))]
        if commands := commands_of(module):
            self._link_commands(module, commands)
        Runner(module, self.executor)  # registers itself with the module, which keeps it alive

    def _link_commands(self, module: Module, commands: Commands) -> None:
        """Resolve the host commands of the program, and wrap the executor in one that calls them.

        The module keeps their functions alive. A command that `add_command` did not register is synchronous.
        """
        resolution, implementations = provide(self.registry, commands)
        module.hold(resolution)
        linked = [
            LinkedCommand(
                name, operands, implementation.function, implementation.address, implementation.context,
                synchronous=self.synchronous.get(implementation.provider, True),
            )
            for (name, operands), implementation in zip(commands, implementations, strict=True)
        ]  # fmt: skip
        calls = HostCalls(linked, names=dict(module.functions()))  # index → name of the program's functions
        self.executor = CommandExecutor(self.executor, calls)  # type: ignore[assignment]


class AcceleratorProgram(Program):
    """Loaded program on an accelerator; see Program. Its functions read device buffers without a copy, and return
    device buffers.

    `AcceleratorDevice.load` creates it. A function without control flow is a plan of dispatches for the sizes of each
    call. A procedure is a function with control flow, state or checks: the host runs its steps.
    `program.f.profile(a, b)` measures each dispatch of the function f.
    """

    # Classes of the functions and of the procedures; a subclass for a device may override them.
    FUNCTION: type[AcceleratorFunction] = AcceleratorFunction
    PROCEDURE: type[AcceleratorProcedure] = AcceleratorProcedure

    def __init__(
        self, module: Module, name: str, device: AcceleratorDevice, executor: Executor, imports: Any,
        state: State | None = None,
    ) -> None:  # fmt: skip
        """Create the program of a loaded module.

        Args:
            module: The program in the C core, linked for the device.
            name: Name of the artifact, for messages.
            device: The device.
            executor: Runs the plans of the program's functions on the device.
            imports: Functions that its kernels import, and the library of each.
            state: Values of the global variables in a session; None for those of the module.
        """
        # Set the attributes first, because the constructor of `Program` creates the functions, which use them.
        self._device, self._executor = device, executor
        super().__init__(module, name, imports, state)

    def _with_state(self, state: State | None) -> Self:
        """Return this program with another state of its mutable globals."""
        return type(self)(self._module, self._name, self._device, self._executor, self._imports, state)

    def _make_functions(self, module: Module) -> dict[str, Any]:
        """Create the callable objects of the public functions, by name.

        Functions with control flow on the host are procedures. Only a program that has some has a `module.state`.
        """
        functions: dict[str, Any] = {
            entry: self.FUNCTION(module, index, self._executor) for index, entry in module.functions()
        }
        if module.state is not None:  # the values of the program's globals, which only procedures read and write
            from pydispatch._core.procedure import Procedure

            for index, entry in module.procedures():
                procedure = Procedure(module, index, verify=_verify, state=self._state)
                functions[entry] = self.PROCEDURE(procedure, self._device, self._executor, module.flops)
        return functions
