"""WebGPU device, as `pydispatch.device` returns it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydispatch._core.process_lock import process_lock
from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.interface import GUARANTEED_LIMITS
from pydispatch.formats.wgsl.read import is_wgsl, read
from pydispatch.runtime.accelerators.device import AcceleratorDevice
from pydispatch.runtime.devices.webgpu.adapters import select_adapter
from pydispatch.runtime.devices.webgpu.context import Context
from pydispatch.runtime.devices.webgpu.execute import Executor
from pydispatch.runtime.devices.webgpu.wgsl import Wgsl
from pydispatch.runtime.program.variants import DeviceProperties

FORMAT = "webgpu-wgsl-fb"  # format of its executables, as IREE names it
_opening = process_lock()  # guards `_contexts`
_contexts: dict[tuple[Any, ...], Context] = {}
"""(process id, arguments of `open_device`) → the device: a forked child cannot use that of its parent."""


def open_device(index: int, adapter: str, backend: str, staging: bool, standard: bool) -> WebGPUDevice:
    """Open a device. Devices with equal arguments share memory and queue within a process.

    Args:
        index: Index among the adapters that match `adapter` and `backend`.
        adapter: Text in the name of the adapter; "" for any.
        backend: Back end of wgpu, such as "vulkan"; "" for all but OpenGL.
        staging: Whether the host never maps buffers of kernels, but copies through staging buffers.
        standard: Whether the device has only what every WebGPU device has: the guaranteed limits, and no features.
    """
    with _opening:
        key = (os.getpid(), index, adapter, backend, staging, standard)
        context = _contexts.get(key)
        if context is None or context.errors.lost is not None or context.closed:
            selected = select_adapter(index, backend, adapter)
            context = _contexts[key] = Context(f"webgpu:{index}", selected, backend, staging, standard)
        return WebGPUDevice(context)


class WebGPUDevice(AcceleratorDevice):
    """Device that wgpu reaches. Its kernels and libraries are WGSL, see docs/webgpu.md."""

    def __init__(self, context: Context) -> None:
        """Open the device of `context`, whose kernels and libraries are WGSL."""
        super().__init__(context.name, context, Wgsl())

    def _executor(self) -> Executor:
        """Return a new executor for one program on this device."""
        return Executor(self._context)

    def _properties(self) -> DeviceProperties:
        """Return the properties by which variants are chosen, and which programs can query."""
        features = self._context.features
        return DeviceProperties(
            ids=("webgpu", self.name),
            format=FORMAT,
            features=features,
            queryable=features,  # a query for any other feature has no answer
            processor_data=(0,) * 8,  # features of a CPU, which kernels here do not read
            workers=1,
        )

    def _check_code(self, data: bytes, where: str) -> None:
        """Raise ArtifactError unless `data` is a WGSL module with an entry point."""
        if not is_wgsl(data):
            raise ArtifactError(f"{where} is no WGSL: a WebGPU device takes the text of a module")
        if not read(data, where).entry_points:
            raise ArtifactError(f"{where} has no entry point: a kernel is a function with @compute")

    def synchronize(self) -> None:
        """Wait until all submitted work is complete."""
        self._context.wait()

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the device: its adapter and back end, limits, and features of shaders."""
        context = self._context
        adapter, limits = context.adapter, context.limits
        _smallest_subgroup, largest_subgroup = adapter.subgroup  # in invocations; 0 if unknown
        sizes = "x".join(str(limits[f"maxComputeWorkgroupSize{axis}"]) for axis in "XYZ")
        return {
            "name": self.name,
            "model": adapter.model,
            "kind": adapter.kind,
            "backend": f"{adapter.backend}, {adapter.driver}",
            "format": FORMAT,
            "workgroup": f"at most {limits['maxComputeInvocationsPerWorkgroup']} invocations, {sizes}",
            "subgroup": "-".join(map(str, adapter.subgroup)) if largest_subgroup else "",
            "workgroup memory": f"{limits['maxComputeWorkgroupStorageSize']} bytes",
            "limits": [f"{name}={limits[name]}" for name in GUARANTEED_LIMITS],
            "memory": "mapped for the processor" if context.is_mapped else "copied for the processor",
            "features": sorted(context.features),
        }

    def __repr__(self) -> str:
        return f"<pydispatch device {self.name!r}, {self._context.adapter.model}>"
