"""A Vulkan device as `pydispatch.device` gives it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.device import Runner, constant_bytes, exports_of, link_executable
from pydispatch._core.memory import Pool
from pydispatch._core.sched import Scheduler
from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError, MissingImportError
from pydispatch.runtime.buffer import Buffer, element_of
from pydispatch.runtime.devices.vulkan.context import Context
from pydispatch.runtime.devices.vulkan.execute import DeviceMemory, Executor
from pydispatch.runtime.devices.vulkan.function import VulkanFunction, VulkanProcedure
from pydispatch.runtime.devices.vulkan.instance import instance
from pydispatch.runtime.devices.vulkan.libraries import Libraries, Resolution
from pydispatch.runtime.devices.vulkan.pipelines import Parts
from pydispatch.runtime.loader import Host, load
from pydispatch.runtime.program import Program, _verify

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pydispatch._core.arrays import ElementType
    from pydispatch._core.program import Module
    from pydispatch.formats.artifact import Artifact
    from pydispatch.formats.spirv_link import Library
    from pydispatch.runtime.imports import Provider

FORMAT = "vulkan-spirv-fb"
_opening = threading.Lock()
_contexts: dict[tuple[int, int, bool], Context] = {}


def open_device(index: int, staging: bool) -> VulkanDevice:
    """The device with a number. Those of one process with the same number share memory and queue."""
    with _opening:
        key = (os.getpid(), index, staging)
        context = _contexts.get(key)
        if context is None or context.lost or context.closed:
            found = instance().physical_devices()
            if index >= len(found):
                have = ", ".join(f"vulkan:{i}" for i in range(len(found))) or "none that computes with Vulkan 1.2"
                raise DeviceUnavailableError(f"there is no device 'vulkan:{index}'; this machine has: {have}")
            if not _contexts:
                atexit.register(_save_caches)
            context = _contexts[key] = Context(instance(), found[index], index, staging)
        return VulkanDevice(context)


def _save_caches() -> None:
    for (owner, _, _), context in _contexts.items():
        if owner == os.getpid() and not context.closed and not context.lost:
            with contextlib.suppress(Exception):
                context.cache.save()


class VulkanDevice:
    """A device with Vulkan 1.2 or newer. Functions of its programs take and return `pydispatch.Buffer`."""

    def __init__(self, context: Context) -> None:
        self.name = f"vulkan:{context.index}"
        self._context = context
        self._given: dict[str, tuple[bytes, str]] = {}
        self._libraries = Libraries()

    @property
    def workers(self) -> int:
        """Queues that dispatches are put on."""
        return 1

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Loads a path, an Artifact, or the bytes of a .pdx file; `parameters` are as for the CPU.

        Raises ArtifactError when it is broken or a shader does not fit the program, DeviceUnavailableError when no
        variant of an executable runs here, MissingImportError when one is declared and was not given.
        """
        self._context.require_usable()
        artifacts = sys.modules.get("pydispatch.formats.artifact")
        if artifacts is not None and isinstance(source, artifacts.Artifact):
            file = source.file()
        elif isinstance(source, (str, bytes, bytearray, memoryview, os.PathLike)):
            file = ArtifactFile(source)
        else:
            raise InvalidArgumentError(
                f"load: expected a path, a pydispatch.Artifact or bytes, got {type(source).__name__}"
            )
        linker = _Linker(Executor(self._context), dict(self._given), file.name, self._libraries.asked())
        module, _ = load(file, self._host(), Scheduler(1), Pool(64 << 20), None, parameters, linker)
        self._context.cache.save()
        return VulkanProgram(module, file.name, self, linker.executor, linker.resolution.imports)

    def _host(self) -> Host:
        names = self._context.features.names
        return Host(("vulkan", self.name), FORMAT, names, names, (0,) * 8, 1)

    def add_executable(self, name: str, code: str | os.PathLike[str] | bytes) -> None:
        """Gives the SPIR-V of an executable that programs only declare, for programs that are loaded from now on.

        name: of the executable in the program. code: the path or bytes of one module, whose entry points are named like
        the exports (or which has one entry point). It is checked against the layouts and the device at load. Raises
        ArtifactError when it is no SPIR-V.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"add_executable: expected the name of an executable, got {name!r}")
        from pydispatch.formats.spirv_reflect import reflect

        is_path = isinstance(code, (str, os.PathLike))
        data = Path(code).read_bytes() if is_path else bytes(code)  # type: ignore[arg-type]
        source = str(code) if is_path else f"{len(data)} bytes"
        reflect(data, f"add_executable '{name}': {source}")
        self._given[name] = (data, source)

    def add_plugin(
        self, plugin: str | os.PathLike[str] | bytes, /, *, priority: int = 0, **params: object
    ) -> Provider:
        """Registers a library of functions in SPIR-V (path or bytes) for programs that are loaded from now on.

        The highest priority is asked first, among equals who was added last; docs/vulkan-functions.md says how to write
        one.
        Raises ArtifactError when it is broken, InvalidArgumentError when it offers no functions.
        """
        return self._libraries.add(plugin, priority, params)

    def add_import(self, name: str, function: object, context: object = None, *, priority: int = 0) -> NoReturn:
        """Not on this device: shaders call no functions of the process."""
        raise DeviceUnavailableError(f"{self.name} calls no functions of this process ('{name}'); use a CPU device")

    def remove_plugin(self, provider: Provider) -> None:
        """Takes a registration back; programs that are loaded keep what they have."""
        self._libraries.remove(provider)

    def upload(self, array: Any) -> Buffer:
        """A buffer with a copy of an array. InvalidArgumentError for element types that programs do not have."""
        source = np.ascontiguousarray(array)
        buffer = self.empty(source.shape, element_of(source.dtype))
        buffer.upload(source)
        return buffer

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | ElementType = np.float32) -> Buffer:
        """A buffer with any content."""
        sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        if any(size < 0 for size in sizes):
            raise InvalidArgumentError(f"empty: a shape has no negative sizes, got {sizes}")
        element: Any = dtype if hasattr(dtype, "packed") else element_of(dtype)
        count = 1
        for size in sizes:
            count *= size
        nbytes = -(-count * element.bits // 8) if element.packed else count * element.itemsize
        self._context.require_usable()
        return Buffer(DeviceMemory(self._context, self._context.pool.acquire(nbytes), nbytes), sizes, element, nbytes)

    def memory(self) -> dict[str, int]:
        """live_bytes, free_bytes, peak_bytes and live_blocks of the device's memory."""
        return self._context.pool.stats()

    def trim(self) -> None:
        """Gives memory that no buffer uses back to the driver."""
        with self._context.lock:
            self._context.calls.vkDeviceWaitIdle(self._context.handle)
            for pool in {self._context.pool, self._context.staging}:
                pool.trim()

    def describe(self) -> Mapping[str, Any]:
        """What the device is: its name and kind, driver, limits and capabilities of shaders."""
        context = self._context
        features, version = context.features, context.features.properties.apiVersion
        limits = features.limits
        groups = "x".join(str(limits[f"maxComputeWorkGroupSize[{i}]"]) for i in range(3))
        return {
            "name": self.name,
            "model": context.name,
            "kind": context.kind,
            "vulkan": f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}",
            "format": FORMAT,
            "workgroup": f"at most {limits['maxComputeWorkGroupInvocations']} invocations, {groups}",
            "subgroup": str(features.subgroup_size),
            "shared memory": f"{limits['maxComputeSharedMemorySize']} bytes",
            "push constants": f"{limits['maxPushConstantsSize']} bytes",
            "memory": f"{context.heap_bytes >> 20} MiB{', seen by the processor' if context.is_mapped else ''}",
            "features": sorted(features.names),
        }

    def close(self) -> None:
        """Ends the device for all who share it. Buffers keep their content; calls of its programs raise an error."""
        self._context.close()

    def __enter__(self) -> VulkanDevice:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pydispatch device {self.name!r}, {self._context.name}>"


class _Linker:
    """Loads executables for one program: runtime.loader.Foreign."""

    def __init__(
        self, executor: Executor, given: dict[str, tuple[bytes, str]], file: str, libraries: list[Library]
    ) -> None:
        self.executor, self.given, self.file = executor, given, file
        self.resolution = Resolution(libraries)

    def link(
        self,
        module: Module,
        index: int,
        executable: dict[str, Any],
        variant: dict[str, Any],
        data: memoryview,
        constants: list[int],
        chosen: int,
    ) -> None:
        name: str = executable["name"]
        code: bytes | memoryview = data
        source, notes = "", variant.get("spirv")
        if variant.get("dynamic"):
            if name not in self.given:
                self._missing(name, executable)
            (code, source), notes = self.given[name], None
        parts = Parts(len(code), notes, f"{self.file}: executable '{name}'")
        if variant.get("imports"):
            code = self.resolution.link(name, code, parts, variant)
        exports = exports_of(module, index)
        self.executor.executables.load(index, name, code, parts, exports, constants, source)
        link_executable(module, index, chosen, 1)

    def _missing(self, name: str, executable: dict[str, Any]) -> NoReturn:
        given = ", ".join(f"'{other}'" for other in self.given)
        exports = ", ".join(f"@{export}" for export in executable["exports"])
        raise MissingImportError(
            f"the program only declares executable '@{name}' ({exports}) and the device was not given its code"
            f"{f'; it was given {given}' if given else ''}\n"
            f"supply it with device.add_executable('{name}', 'kernels.spv') before loading",
            (name,),
        )

    def finish(self, module: Module) -> None:
        self.executor.constants = [constant_bytes(module, i) for i in range(len(module.constants()))]
        Runner(module, self.executor.run_addresses)


class VulkanProgram(Program):
    """The public functions of an artifact on a Vulkan device; see Program. They return buffers of the device, and take
    such buffers where they lie. `program.f.profile(a, b)` says how long each dispatch takes."""

    def __init__(self, module: Module, name: str, device: VulkanDevice, executor: Executor, imports: Any) -> None:
        self._device, self._executor = device, executor
        super().__init__(module, name, imports)

    def _make(self, module: Module) -> dict[str, Any]:
        functions: dict[str, Any] = {
            entry: VulkanFunction(module, index, self._executor) for index, entry in module.functions()
        }
        if module.state is not None:
            from pydispatch._core.procedure import Procedure

            for index, entry in module.procedures():
                functions[entry] = VulkanProcedure(Procedure(module, index, _verify), self._device)
        return functions
