"""Devices by name: the scheme of a name selects the module that opens it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydispatch import extensions, logs
from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError

if TYPE_CHECKING:
    import os

    from numpy.typing import DTypeLike

    from pydispatch._core.arrays import ElementType
    from pydispatch._core.plugin import Plugin
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.runtime.buffer import Buffer
    from pydispatch.runtime.program.imports import Provider
    from pydispatch.runtime.program.program import Program


class Device(Protocol):
    """Something that runs programs."""

    name: str
    spec: str
    """What `device()` was given, with all options: it opens an equal device in another process."""

    @property
    def workers(self) -> int:
        """Threads that run one dispatch, including the calling one."""

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Loads a path, an Artifact, or the bytes of a .pdx file. parameters: scope → file, or key → array."""

    def add_plugin(
        self, plugin: str | os.PathLike[str] | bytes | Plugin, /, *, priority: int = 0, **params: object
    ) -> Provider:
        """Registers a plugin for programs loaded afterwards."""

    def add_import(self, name: str, function: object, context: object = None, *, priority: int = 0) -> Provider:
        """Registers a C function as the implementation of a symbol."""

    def add_command(
        self, name: str, function: object, context: object = None, *, priority: int = 0, synchronous: bool = True
    ) -> Provider:
        """Registers a function of Python or C as a host command."""

    def add_executable(self, name: str, code: str | os.PathLike[str] | bytes) -> None:
        """Supplies the code of an executable that programs only declare."""

    def remove_plugin(self, provider: Provider) -> None:
        """Removes a registration."""

    def upload(self, array: Any) -> Buffer:
        """A buffer of the device with a copy of an array."""

    def empty(self, shape: tuple[int, ...] | int, dtype: DTypeLike | ElementType = ...) -> Buffer:
        """A buffer of the device with any content."""

    def memory(self) -> dict[str, int]:
        """live_bytes, free_bytes, peak_bytes and live_blocks."""

    def trim(self) -> None:
        """Gives memory that nobody uses back."""

    def describe(self) -> Mapping[str, Any]:
        """A human-readable description of the device."""

    def close(self) -> None:
        """Ends its threads. Loaded programs stay usable."""

    def __enter__(self) -> Device:
        """The device, which is closed at the end of the block."""

    def __exit__(self, *unused: object) -> None: ...


class Scheme(Protocol):
    """The module of a device. It may have a `TARGET`: what programs for it are compiled for by default."""

    def open(self, name: str, options: Mapping[str, str]) -> Device:
        """A device. DeviceUnavailableError when it does not exist here, InvalidArgumentError for a bad option."""

    def available(self) -> list[str]:
        """Names of the devices of this scheme that exist here."""


def devices() -> list[str]:
    """Names of the devices that exist here, for `device()`."""
    with _reading("devices cannot be listed"):
        places = {part.place: part for part in extensions.parts("device")}  # several names may mean one
    return [name for part in places.values() for name in _scheme(part).available()]


def _scheme(part: extensions.Part) -> Scheme:
    """The module of a device. DeviceUnavailableError when it cannot be read."""
    with _reading(f"device '{part.name}' cannot be opened: its module cannot be read"):
        return cast("Scheme", part.load())


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeviceUnavailableError(f"{what}: {error}") from error


def device(name: str = "cpu") -> Device:
    """The device of a name such as "cpu", "cpu?workers=8", "local-sync" (one worker) or "local-task".

    Devices of equal options share their threads and memory; plugins and imports belong to one device. Raises
    DeviceUnavailableError for a device that does not exist here, and InvalidArgumentError for an option that it does
    not have.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"device: expected a name such as 'cpu' or 'cpu?workers=8', got {name!r}")
    scheme, _, query = name.partition("?")
    base = scheme.partition(":")[0]
    found = extensions.part("device", base)
    if found is None:
        raise DeviceUnavailableError(f"there is no device '{name}'; this machine has: {', '.join(devices())}")
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not equals or key in options:
            raise InvalidArgumentError(f"device '{name}': expected distinct options as key=value, got '{part}'")
        options[key] = value
    start = time.perf_counter()
    opened = _scheme(found).open(scheme, options)
    opened.spec = name
    logs.runtime.info("device '%s' is open, after %.1f ms", opened.name, 1e3 * (time.perf_counter() - start))
    return opened
