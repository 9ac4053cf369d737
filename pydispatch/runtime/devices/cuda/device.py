"""CUDA device, as `pydispatch.device` returns it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch._core.process_lock import process_lock
from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.interface import capabilities
from pydispatch.runtime.accelerators.device import AcceleratorDevice
from pydispatch.runtime.accelerators.ptx import FORMAT, Ptx, properties_of
from pydispatch.runtime.accelerators.ptx_parts import CUBIN, declared_kernels, kind_of
from pydispatch.runtime.buffer import Buffer
from pydispatch.runtime.devices.cuda import driver as cuda
from pydispatch.runtime.devices.cuda.context import Context
from pydispatch.runtime.devices.cuda.execute import CudaExecutor
from pydispatch.runtime.devices.cuda.function import CudaProgram
from pydispatch.runtime.devices.cuda.interop import CudaBuffer, convert
from pydispatch.runtime.program.variants import DeviceProperties

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pydispatch._core.arrays import ElementType
    from pydispatch._core.program import Module
    from pydispatch.runtime.accelerators.execute import Executor
    from pydispatch.runtime.program.program import Program

_opening = process_lock()  # guards `_contexts`
_contexts: dict[tuple[int, int, bool], Context] = {}
"""(process id, index of the device, is_checked) → context. After a fork, a child cannot use its parent's context."""


def open_device(index: int, is_checked: bool) -> CudaDevice:
    """Open device `index`, from 0. Devices of one process with the same index and checks share memory and stream.

    is_checked: whether each step is waited for, so that an error names the step that caused it.
    """
    with _opening:  # a lock: one thread opens a device at a time
        key = (os.getpid(), index, is_checked)
        # A forked child has another process id, and contexts of its own.
        context = _contexts.get(key)
        # If the device was lost, its contexts with and without checks are both lost.
        for (process, device_index, _is_checked), other in _contexts.items():
            if process == os.getpid() and device_index == index and other.loss_reason:
                other.require_usable()  # raises DeviceLostError
        if context is None or context.is_shut:
            context = _contexts[key] = Context(index, is_checked)
            # Set here: `convert` is in a module that imports the module of Context.
            context.convert = functools.partial(convert, context)
        return CudaDevice(context)


class CudaDevice(AcceleratorDevice):
    """An NVIDIA GPU. Functions of its programs take and return `pydispatch.Buffer`, and take tensors of PyTorch, CuPy
    and others on the same device. Calls return before the device has completed them.
    """

    def __init__(self, context: Context) -> None:
        """Open the device of `context`, whose compute capability decides which PTX it loads."""
        super().__init__(context.name, context, Ptx(capabilities(*context.capability)))

    def _executor(self) -> Executor:
        """Return a new executor for one program on this device."""
        return CudaExecutor(self._context)

    def _program(self, module: Module, name: str, executor: Executor, imports: Any) -> Program:
        """Return the program of a loaded module, whose functions also take a stream."""
        return CudaProgram(module, name, self, executor, imports)

    def _properties(self) -> DeviceProperties:
        """Return the properties of a GPU with this compute capability."""
        return properties_of(self.name, self._context.capability)

    def _check_code(self, data: bytes, where: str) -> None:
        """Raise ArtifactError if PTX or a cubin declares no kernel. where: name of the file."""
        kind = kind_of(data)
        if not declared_kernels(data, kind, where):
            raise ArtifactError(f"{where}: it has no kernels" if kind == CUBIN else f"{where}: it has no .entry")

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | ElementType = np.float32) -> Buffer:
        """Return a buffer with any content."""
        buffer = super().empty(shape, dtype)
        return CudaBuffer(buffer.memory, buffer.shape, buffer.element, buffer.nbytes)

    def synchronize(self) -> None:
        """Wait until all work on the stream of the device is complete. Raise KernelError if a kernel failed."""
        self._context.synchronize()

    @property
    def stream(self) -> int:
        """Handle (CUstream) of the stream that all work is enqueued on, for callers that use the stream too."""
        return int(self._context.stream_number)

    def memory(self) -> dict[str, int]:
        """Return the numbers of `Device.memory`, and `reserved_bytes`, which the pool of the driver holds."""
        return dict(self._context.stats())

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the device: its name, driver, compute capability and limits."""
        context, attributes = self._context, self._context.attributes
        major, minor = context.capability
        return {
            "name": self.name,
            "model": context.model,
            "capability": f"{major}.{minor} (sm_{major}{minor})",
            "driver": f"CUDA {cuda.version_text(context.version)}",
            "format": FORMAT,
            "processors": str(attributes["processors"]),
            "workgroup": f"at most {attributes['threads']} invocations, "
            f"{attributes['block_x']}x{attributes['block_y']}x{attributes['block_z']}",
            "grid": f"at most {attributes['grid_x']}x{attributes['grid_y']}x{attributes['grid_z']}",
            "subgroup": str(attributes["warp"]),
            "shared memory": f"{attributes['shared']} bytes, {attributes['shared_optin']} dynamic",
            "memory": f"{context.total_bytes >> 20} MiB",
        }

    def __repr__(self) -> str:
        return f"<pydispatch device {self.name!r}, {self._context.model}>"
