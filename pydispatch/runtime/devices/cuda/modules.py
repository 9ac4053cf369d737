"""Modules and kernels of one loaded program on a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, DeviceUnavailableError, InvalidArgumentError
from pydispatch.runtime.accelerators.ptx_parameters import packer_of
from pydispatch.runtime.accelerators.ptx_parts import CUBIN, KernelEntry, PtxParts
from pydispatch.runtime.devices.cuda import driver as cuda
from pydispatch.runtime.devices.cuda.cubins import Log, compile_ptx, rejection_error

if TYPE_CHECKING:
    from pydispatch._core.commands import Dispatch
    from pydispatch.runtime.accelerators.execute import Executable
    from pydispatch.runtime.devices.cuda.context import Context

_MAX_DEFAULT_SHARED_BYTES = 48 << 10
"""Bytes of dynamic workgroup memory that a kernel may use before its limit is raised (cuFuncSetAttribute)."""


class CudaKernel:
    """Loaded kernel of an export.

    Attributes:
        executable: Name of its executable, without "@".
        export: Name of the export.
        function: CUfunction.
        block: Threads of a block in x, y and z.
        shared: Bytes of dynamic shared memory of a block.
        packer: Writes the parameters of a launch (addresses and constants) as the kernel reads them.
    """

    __slots__ = ("block", "executable", "export", "function", "packer", "shared")

    def __init__(self, executable: str, function: Any, entry: KernelEntry) -> None:
        """Create a kernel. function: its CUfunction. entry: the description of the kernel in the artifact."""
        self.executable, self.export, self.function = executable, entry.name, function
        self.block, self.shared = entry.block, entry.shared
        self.packer = packer_of(entry)

    @property
    def label(self) -> str:
        """Name of the kernel in traces: `@executable::@export`."""
        return f"@{self.executable}::@{self.export}"


class Modules:
    """Loaded kernels of a program, and the modules that contain them.

    The executor calls `load` for each executable; steps get the kernel of a dispatch by `kernel_of`. `destroy` unloads
    the modules, when the device is closed or the object is garbage.

    Attributes:
        kernels: (index of an executable, ordinal of an export) → kernel.
        handles: CUmodule of each loaded module.
        context: The device.
    """

    def __init__(self, context: Context) -> None:
        """Create an empty set of kernels; `context` calls `destroy` on it when the device is closed."""
        self.kernels: dict[tuple[int, int], CudaKernel] = {}  # by index of the executable, ordinal of the export
        self.handles: list[Any] = []
        self.context = context
        context.modules.add(self)

    def __del__(self) -> None:
        """Hand the modules to the context's garbage."""
        if hasattr(self, "context"):  # a signal handler's exception can leave __init__ anywhere
            self.destroy()

    def load(self, executable: Executable, parts: PtxParts, codes: Sequence[bytes]) -> None:
        """Load the modules of an executable, set their constants, and add a kernel per export to `kernels`.

        Args:
            executable: The executable.
            parts: Description of its modules: their formats, and the symbol and block of each kernel.
            codes: PTX or cubin of each module, with imports linked, in the order of `parts.modules`.

        Raises:
            ArtifactError: The code does not fit the program, or the driver rejects it.
            DeviceUnavailableError: The device cannot launch blocks of a kernel's size, or with its workgroup memory.
        """
        # Find and check all kernels before the driver loads a module.
        context = self.context
        entries = parts.kernel_entries(codes, executable.exports)
        for entry in entries:
            self._check_entry(entry, parts.where)
        loaded = [self._load(code, module.kind, parts.where) for code, module in zip(codes, parts.modules, strict=True)]
        with context.current:
            for variable, word in parts.constant_values(executable.constants):
                if not self._set_constant(loaded, variable, word, parts.where):
                    # The driver's compiler removes a variable that no kernel uses: a missing variable is an error only
                    # if the code does not contain its name either.
                    self._require_mention(codes, variable, parts.where)
            for entry in entries:
                kernel = self._kernel(loaded, entry, executable.name, parts.where)
                self.kernels[executable.index, entry.ordinal] = kernel

    def kernel_of(self, command: Dispatch) -> CudaKernel:
        """Return the kernel that a dispatch runs."""
        return self.kernels[command.executable, command.ordinal]

    def _check_entry(self, entry: KernelEntry, where: str) -> None:
        """Raise DeviceUnavailableError if a kernel's blocks have too many threads or too much shared memory."""
        attributes, (x, y, z) = self.context.attributes, entry.block
        max_threads = attributes["threads"]
        max_x, max_y, max_z = attributes["block_x"], attributes["block_y"], attributes["block_z"]
        if x * y * z > max_threads or x > max_x or y > max_y or z > max_z:
            raise DeviceUnavailableError(
                f"{where}, export '@{entry.name}': blocks of {x}x{y}x{z} invocations, {self.context.name} starts at "
                f"most {max_threads} ({max_x}x{max_y}x{max_z})"
            )
        # "shared_optin" is the limit of kernels that opt in by cuFuncSetAttribute; 0 if the driver does not know it.
        max_shared_bytes = max(attributes["shared_optin"], attributes["shared"])
        if entry.shared > max_shared_bytes:
            raise DeviceUnavailableError(
                f"{where}, export '@{entry.name}': {entry.shared} bytes of workgroup memory, {self.context.name} has "
                f"{max_shared_bytes} for a block"
            )

    def _load(self, data: bytes, kind: str, where: str) -> Any:
        """Load a module, compiled from PTX if needed, and return its CUmodule.

        A cached cubin that the driver rejects is compiled again. Raise ArtifactError for broken code, and
        DeviceUnavailableError for PTX that is newer than the driver. The CUmodule is also added to `handles`.

        Args:
            data: Code of the module.
            kind: Format of the code, PTX or CUBIN (constants of `ptx_parts`).
            where: Beginning of error messages, which names the executable.
        """
        context = self.context
        if kind == CUBIN:
            code, is_cached = data, False
        else:
            code, is_cached = compile_ptx(context, data, where)
        log = Log(context.driver)
        status, *handles = self._load_data(code, log)
        if status and is_cached:  # the cached file may be damaged
            code, _ = compile_ptx(context, data, where, fresh=True)
            status, *handles = self._load_data(code, log)
        if status:
            is_device_failure = int(status) in cuda.STICKY  # a fault of an earlier kernel, returned by every later call
            if is_device_failure or int(status) == cuda.OUT_OF_MEMORY:
                context.raise_failure(status, f"{where}: loading its code")
            # Every other failure means that the driver rejects this code.
            raise rejection_error(context, status, where, b"" if kind == CUBIN else data, log.text())
        self.handles += handles
        return handles[0]

    def _load_data(self, code: bytes, log: Log) -> tuple[Any, ...]:
        """Pass code to the driver and return (status, CUmodule). log: receives the messages of the driver's compiler.

        If loading fails, the result is (status,) alone or has None as its CUmodule.
        """
        with self.context.current:
            result: tuple[Any, ...] = self.context.driver.cuModuleLoadDataEx(
                code, len(log.options), log.options, log.values
            )
        return result

    def _kernel(self, loaded: Sequence[Any], entry: KernelEntry, name: str, where: str) -> CudaKernel:
        """Return the loaded kernel of an export, with its shared memory limit raised if needed.

        Args:
            loaded: CUmodule of each module of the executable.
            entry: Kernel and launch metadata of the export.
            name: Name of the executable.
            where: Beginning of error messages, which names the executable.

        Raises:
            ArtifactError: The module has no entry of this name.
            DeviceUnavailableError: A block of the kernel has more threads than its registers allow.
        """
        context, driver = self.context, self.context.driver
        label = f"@{name}::@{entry.name}"
        result = driver.cuModuleGetFunction(loaded[entry.module], entry.symbol.encode() + b"\0")
        if result[0]:
            if int(result[0]) == cuda.NOT_FOUND:
                raise ArtifactError(f"{where}, export '@{entry.name}': its module has no entry '{entry.symbol}'")
            context.raise_failure(result[0], f"{label}: cuModuleGetFunction")
        function, attributes = result[1], driver.CUfunction_attribute
        if entry.shared > _MAX_DEFAULT_SHARED_BYTES:
            attribute = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            result = driver.cuFuncSetAttribute(function, attribute, entry.shared)
            context.check(result, f"{label}: {entry.shared} bytes of dynamic workgroup memory")
        result = driver.cuFuncGetAttribute(attributes.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)
        max_threads = int(context.check(result, f"{label}: its limits"))
        x, y, z = entry.block
        if x * y * z > max_threads:
            raise DeviceUnavailableError(
                f"{where}, export '@{entry.name}': with the registers that it uses, {context.name} starts at most "
                f"{max_threads} invocations in a block, it wants {x * y * z}; state __launch_bounds__({x * y * z}), or "
                ".maxntid in PTX, so that its compiler keeps to it"
            )
        return CudaKernel(name, function, entry)

    def _set_constant(self, loaded: Sequence[Any], variable: str, word: int, where: str) -> bool:
        """Write an executable constant to every module that has its variable; return whether one has.

        An executable constant is a value that is set once, when an executable is loaded. For example, a module that
        declares `__constant__ int tile;` receives the low 4 bytes of the constant "tile".

        Args:
            loaded: CUmodule of each module of the executable.
            variable: Name of the constant, and of the variable that receives it.
            word: Value of up to 64 bits, of which a smaller variable receives the low bytes.
            where: Beginning of error messages, which names the executable.
        """
        context, driver, is_set = self.context, self.context.driver, False
        for module in loaded:
            result = driver.cuModuleGetGlobal(module, variable.encode() + b"\0")
            if int(result[0]) == cuda.NOT_FOUND:
                continue
            address, size = context.check(result, f"{where}: variable '{variable}'")
            value = word.to_bytes(8, "little")[: int(size)]
            context.check(
                driver.cuMemcpyHtoDAsync(int(address), value, len(value), context.stream),
                f"{where}: writing constant '{variable}'",
            )
            is_set = True
        return is_set

    def _require_mention(self, codes: Sequence[bytes], variable: str, where: str) -> None:
        """Raise ArtifactError if no module's code contains the name of `variable`, which no loaded module has.

        If the code contains the name, it is no error: the code declares the variable and does not use it, so that the
        driver's compiler has removed it.

        Args:
            codes: The code of each module, before the driver compiles it.
            variable: Name of an executable constant, and of the variable that should receive it.
            where: Beginning of the error message, which names the executable.
        """
        if not any(variable.encode() in code for code in codes):
            raise ArtifactError(
                f"{where}: no module has a variable '{variable}' for the executable constant of that name; declare it "
                f"as .const or .global .b32 {variable}"
            )

    def check_grid(self, kernel: CudaKernel, grid: Sequence[int]) -> None:
        """Raise InvalidArgumentError for a grid (workgroups in x, y and z) that the device cannot launch."""
        attributes = self.context.attributes
        limits = attributes["grid_x"], attributes["grid_y"], attributes["grid_z"]
        if any(size > limit for size, limit in zip(grid, limits, strict=True)):
            raise InvalidArgumentError(
                f"{kernel.label}: a grid of {grid[0]} x {grid[1]} x {grid[2]} workgroups, {self.context.name} starts "
                f"at most {' x '.join(map(str, limits))}"
            )

    def destroy(self) -> None:
        """Hand the modules to the context's garbage. They are unloaded after the work in flight is complete."""
        handles, self.handles, self.kernels = self.handles, [], {}
        if not self.context.loss_reason:  # calls of the driver for a lost device fail
            self.context.garbage.extend((self.context.unload_module, handle) for handle in handles)
