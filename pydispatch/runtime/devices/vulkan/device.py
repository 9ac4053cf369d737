"""Vulkan device, as `pydispatch.device` returns it."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Mapping
from typing import Any

from pydispatch._core.process_lock import process_lock
from pydispatch.errors import ArtifactError, DeviceUnavailableError
from pydispatch.formats.spirv.check import check
from pydispatch.formats.spirv.module import is_spirv
from pydispatch.formats.spirv.reflect import reflect
from pydispatch.runtime.accelerators.device import AcceleratorDevice
from pydispatch.runtime.devices.vulkan.context import Context
from pydispatch.runtime.devices.vulkan.execute import Executor
from pydispatch.runtime.devices.vulkan.instance import instance
from pydispatch.runtime.devices.vulkan.spirv import Spirv
from pydispatch.runtime.program.variants import DeviceProperties

FORMAT = "vulkan-spirv-fb"  # format of its executables, as IREE names it
_opening = process_lock()  # guards `_contexts`
_contexts: dict[tuple[int, int, bool], Context] = {}
"""(process id, index of the device, whether staging is forced) → the device: a forked child cannot use its parent's."""


def open_device(index: int, staging: bool) -> VulkanDevice:
    """Open the device with an index, as in "vulkan:0".

    Devices that one process opens with equal arguments share memory and queue, until one was closed or lost.

    staging: whether to treat device memory as not accessible to the CPU, as on a discrete GPU, even if it is.
    """
    with _opening:
        key = (os.getpid(), index, staging)
        context = _contexts.get(key)
        if context is None or context.lost or context.closed:
            physical = _physical_device(index)
            if not _contexts:  # this is the first device
                atexit.register(_save_caches)  # pipelines that are compiled until the end of the process
            context = _contexts[key] = Context(instance(), physical, index, staging)
        return VulkanDevice(context)


def _physical_device(index: int) -> Any:
    """Return the VkPhysicalDevice with an index. Raise DeviceUnavailableError, which lists all, if there is none."""
    physical_devices = instance().physical_devices()
    if index >= len(physical_devices):
        names = ", ".join(f"vulkan:{i}" for i in range(len(physical_devices))) or "none that computes with Vulkan 1.2"
        raise DeviceUnavailableError(f"there is no device 'vulkan:{index}'; this machine has: {names}")
    return physical_devices[index]


def _save_caches() -> None:
    """Save the pipeline caches of the open devices of this process when the interpreter exits."""
    for (owner, _, _), context in _contexts.items():
        if owner == os.getpid() and not context.closed and not context.lost:
            with contextlib.suppress(Exception):
                context.cache.save()


class VulkanDevice(AcceleratorDevice):
    """Device with Vulkan 1.2 or newer.

    Functions of its programs take and return `pydispatch.Buffer`. Kernels and libraries are SPIR-V, see docs/vulkan.md
    and docs/vulkan-functions.md.
    """

    def __init__(self, context: Context) -> None:
        """Open the device of `context`, whose kernels and libraries are SPIR-V."""
        super().__init__(context.name, context, Spirv())

    def _executor(self) -> Executor:
        """Return a new executor for one program on this device."""
        return Executor(self._context)

    def _after_load(self) -> None:
        """Save the pipeline cache, which has the pipelines of the program that was loaded."""
        self._context.cache.save()

    def _properties(self) -> DeviceProperties:
        """Return the properties by which variants are chosen, and which programs can query."""
        names = self._context.features.names
        return DeviceProperties(
            ids=("vulkan", self.name),
            format=FORMAT,
            features=names,
            queryable=names,  # a query for any other feature has no answer
            processor_data=(0,) * 8,  # features of a CPU, which kernels here do not read
            workers=1,
        )

    def _check_code(self, data: bytes, where: str) -> None:
        """Raise ArtifactError unless `data` is a valid SPIR-V module."""
        if not is_spirv(data):
            raise ArtifactError(
                f"{where} is no SPIR-V module: glslangValidator -V kernels.comp -o kernels.spv makes one of GLSL"
            )
        reflect(data, where)
        check(data, where)

    def describe(self) -> Mapping[str, Any]:
        """Return a description of the device: its name and kind, driver, limits and capabilities of shaders."""
        context = self._context
        features, version = context.features, context.features.properties.apiVersion
        limits = features.limits
        groups = "x".join(str(limits[f"maxComputeWorkGroupSize[{i}]"]) for i in range(3))
        return {
            "name": self.name,
            "model": context.model,
            "kind": context.kind,
            # VK_API_VERSION_MAJOR, _MINOR and _PATCH
            "vulkan": f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}",
            "format": FORMAT,
            "workgroup": f"at most {limits['maxComputeWorkGroupInvocations']} invocations, {groups}",
            "subgroup": str(features.subgroup_size),
            "shared memory": f"{limits['maxComputeSharedMemorySize']} bytes",
            "push constants": f"{limits['maxPushConstantsSize']} bytes",
            "memory": f"{context.heap_bytes >> 20} MiB{', seen by the processor' if context.is_mapped else ''}",
            "features": sorted(features.names),
        }

    def __repr__(self) -> str:
        return f"<pydispatch device {self.name!r}, {self._context.model}>"
