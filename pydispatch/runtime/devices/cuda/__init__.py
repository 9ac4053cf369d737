"""CUDA devices: "cuda:0" is the first that the driver names. Nothing of CUDA is loaded before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.device import CudaDevice

ALIASES: tuple[str, ...] = ()
OPTIONS = ("check",)


def available() -> list[str]:
    """Names of the devices that the driver has; none without a driver or the package cuda-bindings."""
    from pydispatch.runtime.devices.cuda import driver

    if not driver.is_installed():
        return []
    try:
        return [f"cuda:{i}" for i in range(driver.device_count())]
    except DeviceUnavailableError:
        return []


def open(name: str, options: Mapping[str, str]) -> CudaDevice:
    """See `Scheme.open`. Options: check=1 runs one dispatch after the other and waits for each, so that an error of the
    hardware names the dispatch that it comes from."""
    base, _, number = name.partition(":")
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise InvalidArgumentError(f"device '{base}' has no option '{min(unknown)}'; it has: {', '.join(OPTIONS)}")
    if options.get("check", "0") not in ("0", "1"):
        raise InvalidArgumentError(f"device '{base}': check: expected 0 or 1, got '{options['check']}'")
    number = number.removeprefix("//") or "0"
    if not number.isdecimal() or len(number) > 4:
        raise InvalidArgumentError(f"device '{name}': expected a number behind 'cuda:', got '{number}'")
    from pydispatch.runtime.devices.cuda.device import open_device

    return open_device(int(number), options.get("check", "0") == "1")
