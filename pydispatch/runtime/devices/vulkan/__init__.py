"""Vulkan devices: "vulkan:0" is the first that the loader lists. Vulkan is loaded when a device is opened or listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.options import check_options, device_number, flag

if TYPE_CHECKING:
    from pydispatch.runtime.devices.vulkan.device import VulkanDevice

TARGET = "vulkan"
"""Compilation target whose artifacts the device runs."""
OPTIONS = ("staging",)
"""Options after a "?" in the name of the device, as in "vulkan:0?staging=1"."""


def available() -> list[str]:
    """Return names of the devices that compute with Vulkan 1.2 or newer; none without a loader or a driver."""
    from pydispatch.runtime.devices.vulkan.instance import instance

    try:
        return [f"vulkan:{i}" for i in range(len(instance().physical_devices()))]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> VulkanDevice:
    """Open a device such as "vulkan" or "vulkan:1".

    options: "staging": "1" if buffers are never mapped, as on a discrete GPU, even where the CPU could access them.
    """
    scheme = name.partition(":")[0]  # for messages
    check_options(scheme, options, OPTIONS)
    staging, index = flag(scheme, options, "staging"), device_number(name)
    from pydispatch.runtime.devices.vulkan.device import open_device

    return open_device(index, staging=staging)
