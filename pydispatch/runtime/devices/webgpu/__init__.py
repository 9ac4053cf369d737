"""WebGPU devices: "webgpu:0" is the first adapter that wgpu finds. The `wgpu` package is loaded on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.options import check_options, device_number, flag

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.device import WebGPUDevice

TARGET = "webgpu"
"""Compilation target whose artifacts the device runs."""
OPTIONS = ("adapter", "backend", "staging", "standard")
"""Options after a "?" in the name of the device, as in "webgpu?backend=metal"."""


def available() -> list[str]:
    """Return names of the devices that wgpu reaches through Vulkan, Metal or Direct3D 12; none without the package."""
    from pydispatch.runtime.devices.webgpu.adapters import adapters

    try:
        return [f"webgpu:{i}" for i in range(len(adapters(backend="")))]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> WebGPUDevice:
    """Open a device.

    Args:
        name: Name of the device, such as "webgpu" or "webgpu:1"; the number is an index among the adapters that match
            the options "adapter" and "backend".
        options: "adapter": text in the name of the adapter. "backend": vulkan, metal, d3d12 or gl. "staging": "1" if
            buffers are never mapped, as on a discrete GPU. "standard": "1" for no more than the limits and features
            that every WebGPU device has.
    """
    scheme = name.partition(":")[0]  # for messages
    check_options(scheme, options, OPTIONS)
    staging, standard = flag(scheme, options, "staging"), flag(scheme, options, "standard")
    from pydispatch.runtime.devices.webgpu.device import open_device

    return open_device(device_number(name), options.get("adapter", ""), options.get("backend", ""), staging, standard)
