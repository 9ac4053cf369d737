"""The interface of devices, which their classes implement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pydispatch._core.pickling import refuse

if TYPE_CHECKING:
    import os

    from numpy.typing import DTypeLike

    from pydispatch._core.arrays import ElementType
    from pydispatch._core.plugin import Plugin
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.runtime.buffer import Buffer
    from pydispatch.runtime.program.imports import Provider
    from pydispatch.runtime.program.program import Program


class Device(Protocol):
    """A device that loads programs and holds buffers.

    Devices with equal options share their threads and memory. Plugins, imports, commands and executables belong to one
    device. Every method may be called from any thread.
    """

    name: str
    spec: str
    """The name that `device()` was given, with all options: it opens an equal device in another process."""

    @property
    def workers(self) -> int:
        """Number of threads that run one dispatch, including the calling one; 1 on a GPU."""

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Load a program.

        Args:
            source: The path of a `.pdx` file, its bytes, or an Artifact.
            parameters: Values of parameters (weights) that the artifact does not contain. The key is the scope of the
                parameters, "" for those without one. The value is the path of a `.safetensors`, `.npz` or `.npy` file,
                which is memory-mapped, a mapping from names to arrays, or a list of these.

        Raises:
            ArtifactError: The artifact is damaged.
            DeviceUnavailableError: No variant in the artifact runs on this device.
            InvalidArgumentError: A parameter is missing, or has another shape or dtype.
            MissingImportError: No plugin or import provides a function that the program calls.
            OSError: The file cannot be read.
        """

    def add_plugin(
        self, plugin: str | os.PathLike[str] | bytes | Plugin, /, *, priority: int = 0, **params: object
    ) -> Provider:
        """Register a plugin for programs that are loaded afterwards.

        Args:
            plugin: The path or bytes of a system library (`.so`), an embedded ELF, or a `.sos` file with one ELF for
                each architecture. On GPUs: PTX, SPIR-V or WGSL with functions.
            priority: Plugins of higher priority are searched first; of equal priority, the one added last is.
            params: Texts that are passed to the plugin's `load`.

        Returns:
            A handle for `remove_plugin`.

        Raises:
            Error: The plugin cannot be loaded; the message names it and says why.
        """

    def add_import(self, name: str, function: object, context: object = None, *, priority: int = 0) -> Provider:
        """Register a C function `int32_t f(void* params, void* context, void* reserved)` as a symbol of programs.

        Args:
            name: The symbol.
            function: Its address, or a ctypes, cffi or numba function, which is kept alive. It is called from any
                thread, concurrently. `program.imports` prints the structure of `params`.
            context: An address or ctypes object that is passed to each call; None for a null pointer.
            priority: Providers of higher priority are searched first; of equal priority, the one added last is.
        """

    def add_command(
        self, name: str, function: object, context: object = None, *, priority: int = 0, synchronous: bool = True
    ) -> Provider:
        """Register a host command: host code that programs call between their dispatches (docs/host-commands.md).

        Args:
            name: The name of the command in programs.
            function: `f(context, *operands)` in Python, or a C function of `pydispatch/host_command.h`. On the CPU, a
                tensor is a NumPy array over its memory, valid until the function returns and read-only unless the
                program declares it written; a scalar is a number. A function in Python returns None or an operand.
                It is called on any thread.
            context: An address or ctypes object that is passed to a C function; None for a null pointer.
            priority: Providers of higher priority are searched first; of equal priority, the one added last is.
            synchronous: Whether all earlier work is complete when the command is called. If False, the command enqueues
                or records work of a GPU. On the CPU all commands are synchronous.
        """

    def add_executable(self, name: str, code: str | os.PathLike[str] | bytes) -> None:
        """Supply the code of an executable that programs only declare, for programs that are loaded afterwards.

        Args:
            name: The name of the executable in the program.
            code: The path or bytes of the code: on the CPU an executable library (`pydispatch/library.h`) as an
                embedded ELF, a `.sos` file or a system library; on GPUs PTX, a cubin, SPIR-V or WGSL. The last one
                that was added under a name is used. Its bindings and constants are checked when a program is loaded.

        Raises:
            ArtifactError: The code cannot be opened on this device.
        """

    def remove_plugin(self, provider: Provider) -> None:
        """Remove what `add_plugin`, `add_import` or `add_command` registered. Loaded programs are not affected."""

    def upload(self, array: Any) -> Buffer:
        """Copy an array of NumPy, or one that `numpy.asarray` takes, into a new buffer of the device."""

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | ElementType = ...) -> Buffer:
        """Allocate a buffer without initializing it."""

    def memory(self) -> dict[str, int]:
        """Return the bytes in use (`live_bytes`), free for reuse (`free_bytes`) and at peak (`peak_bytes`), and the
        number of blocks in use (`live_blocks`). The option `memory=1GiB` of a device limits the first two together.
        """

    def trim(self) -> None:
        """Release free memory to the system."""

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the device: workers, instruction set, features, limits."""

    def close(self) -> None:
        """End the threads of the device. Loaded CPU programs stay usable: a later call starts the threads again."""

    def __reduce__(self) -> NoReturn:
        refuse("device")

    def __enter__(self) -> Device:
        """Return the device, which is closed at the end of the block."""

    def __exit__(self, *unused: object) -> None: ...
