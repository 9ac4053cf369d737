"""Vulkan devices: "vulkan:0" is the first that the loader names. Nothing of Vulkan is loaded before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError

if TYPE_CHECKING:
    from pydispatch.runtime.devices.vulkan.device import VulkanDevice

ALIASES: tuple[str, ...] = ()
OPTIONS = ("staging",)


def available() -> list[str]:
    """Names of the devices that compute with Vulkan 1.2 or newer; none without a loader or a driver."""
    from pydispatch.runtime.devices.vulkan.instance import instance

    try:
        return [f"vulkan:{i}" for i in range(len(instance().physical_devices()))]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> VulkanDevice:
    """See `Scheme.open`. Options: staging=1 keeps buffers out of the processor's sight even where it could see them."""
    base, _, number = name.partition(":")
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise InvalidArgumentError(f"device '{base}' has no option '{min(unknown)}'; it has: {', '.join(OPTIONS)}")
    if options.get("staging", "0") not in ("0", "1"):
        raise InvalidArgumentError(f"device '{base}': staging: expected 0 or 1, got '{options['staging']}'")
    number = number.removeprefix("//") or "0"
    if not number.isdecimal() or len(number) > 4:
        raise InvalidArgumentError(f"device '{name}': expected a number behind 'vulkan:', got '{number}'")
    from pydispatch.runtime.devices.vulkan.device import open_device

    return open_device(int(number), options.get("staging", "0") == "1")
