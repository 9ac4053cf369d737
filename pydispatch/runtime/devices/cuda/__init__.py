"""CUDA devices: "cuda:0" is the first that the driver names. Nothing of CUDA is loaded before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.options import check_options, device_number, flag

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.device import CudaDevice

TARGET = "cuda"
"""Compilation target whose artifacts the device runs."""
OPTIONS = ("check",)
"""Options after a "?" in the name of the device, as in "cuda:0?check=1"."""


def available() -> list[str]:
    """Return names of the devices that the driver has; none without a driver or the package cuda-bindings."""
    from pydispatch.runtime.devices.cuda import driver

    if not driver.is_installed():
        return []
    try:
        return [f"cuda:{i}" for i in range(driver.device_count())]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> CudaDevice:
    """Open a device such as "cuda" or "cuda:1".

    options: "check": "1" to wait after each dispatch, so that an error of the hardware names the dispatch that caused
    it.
    """
    scheme = name.partition(":")[0]  # for messages
    check_options(scheme, options, OPTIONS)
    checks_each_dispatch = flag(scheme, options, "check")
    from pydispatch.runtime.devices.cuda.device import open_device

    return open_device(device_number(name), checks_each_dispatch)
