"""Vulkan devices: "vulkan:0" is the first that the loader names. Nothing of Vulkan is loaded before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.options import check_options, device_number, flag

if TYPE_CHECKING:
    from pydispatch.runtime.devices.vulkan.device import VulkanDevice

TARGET = "vulkan"
OPTIONS = ("staging",)


def available() -> list[str]:
    """Return names of the devices that compute with Vulkan 1.2 or newer; none without a loader or a driver."""
    from pydispatch.runtime.devices.vulkan.instance import instance

    try:
        return [f"vulkan:{i}" for i in range(len(instance().physical_devices()))]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> VulkanDevice:
    """See `Scheme.open`. Options: staging=1 keeps buffers out of the processor's sight even where it could see them."""
    base = name.partition(":")[0]
    check_options(base, options, OPTIONS)
    staging, index = flag(base, options, "staging"), device_number(name)
    from pydispatch.runtime.devices.vulkan.device import open_device

    return open_device(index, staging=staging)
