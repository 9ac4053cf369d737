"""Devices by name: the scheme of a name selects the module that opens it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from pydispatch import extensions, logs
from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError
from pydispatch.suggestions import did_you_mean

if TYPE_CHECKING:
    from pydispatch.runtime.interface import Device


class Scheme(Protocol):
    """The module of a device. It may have a `TARGET`: the default target of programs that are compiled for it."""

    def open(self, name: str, options: Mapping[str, str]) -> Device:
        """Open a device.

        Args:
            name: Name without options, such as "vulkan" or "vulkan:1".
            options: Values of the options in the name, as text.

        Raises:
            DeviceUnavailableError: The device does not exist on this machine.
            InvalidArgumentError: An option is unknown or has a wrong value.
        """

    def available(self) -> list[str]:
        """Return the names of the devices of this scheme that exist on this machine."""


def devices() -> list[str]:
    """Return the names of the devices of this machine, for `device()`."""
    with _reading("devices cannot be listed"):
        # Several names may refer to one implementation ("cpu", "local-task"), whose devices are listed once.
        modules = {part.place: part for part in extensions.parts("device")}
    return [name for part in modules.values() for name in _scheme(part).available()]


def _scheme(part: extensions.Part) -> Scheme:
    """Import the module of a device. Raise DeviceUnavailableError when it cannot be read."""
    with _reading(f"device '{part.name}' cannot be opened: its module cannot be read"):
        return cast("Scheme", part.load())


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Raise DeviceUnavailableError instead of OSError while the context is open. what: subject of the message."""
    try:
        yield
    except OSError as error:
        raise DeviceUnavailableError(f"{what}: {error}") from error


def device(name: str = "cpu") -> Device:
    """Open a device.

    Args:
        name: "cpu", "cuda", "vulkan", "webgpu", "ptx-interpreter", or IREE's "local-sync" (one worker) and
            "local-task", with an index where there are several ("vulkan:1") and options ("cpu?workers=8&memory=1GiB").

    Returns:
        The device. Devices with equal options share their threads and memory.

    Raises:
        DeviceUnavailableError: The device does not exist on this machine.
        InvalidArgumentError: The device does not have an option, or not with this value.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"device: expected a name such as 'cpu' or 'cpu?workers=8', got {name!r}")
    name_and_index, _, query = name.partition("?")
    scheme = name_and_index.partition(":")[0]
    provider = extensions.part("device", scheme)
    if provider is None:
        # A stricter similarity than elsewhere, for which "gpu" is not like "cpu".
        hint = did_you_mean(scheme, (known.name for known in extensions.parts("device")), cutoff=0.7)
        raise DeviceUnavailableError(f"there is no device '{name}'; {hint}this machine has: {', '.join(devices())}")
    options = _options_of(name, query)
    start = time.perf_counter()
    opened = _scheme(provider).open(name_and_index, options)
    opened.spec = name  # opens an equal device in another process
    logs.runtime.info("device '%s' is open, after %.1f ms", opened.name, 1e3 * (time.perf_counter() - start))
    return opened


def _options_of(name: str, query: str) -> dict[str, str]:
    """Return the options in a query such as "workers=8&memory=1GiB" by key. name: of the device, for an error."""
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not equals or key in options:
            raise InvalidArgumentError(f"device '{name}': expected distinct options as key=value, got '{part}'")
        options[key] = value
    return options
