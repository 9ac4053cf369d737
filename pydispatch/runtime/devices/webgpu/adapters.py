"""WebGPU adapters that wgpu finds, with their names, limits and features."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pydispatch._core.process_lock import process_lock
from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError
from pydispatch.formats.wgsl.interface import FEATURES, WgslFeatures
from pydispatch.runtime.devices.webgpu import api

# Name → WGPUInstanceBackend
BACKENDS = {"vulkan": 1, "gl": 2, "metal": 4, "d3d12": 8}
_PRIMARY = 1 | 4 | 8
"""Bits of BACKENDS that are used by default: Vulkan, Metal and Direct3D 12.

OpenGL must be requested by name, because it reaches the same devices more slowly.
"""
# WGPUBackendType → name
_BACKEND_NAMES = {4: "d3d12", 5: "metal", 6: "vulkan", 7: "gl", 8: "gl"}
_KINDS = {1: "discrete GPU", 2: "integrated GPU", 3: "CPU", 4: "other"}
"""WGPUAdapterType → name."""
OPTIONAL_FEATURES = {"mappable-primary-buffers": 0x0003000E, "timestamp-query": 9,
                 "timestamp-query-inside-encoders": 0x00030024}  # fmt: skip
"""Name → WGPUFeatureName of the features that host code uses, to map buffers and to measure times.

FEATURES has those of shaders.
"""
_discovering = process_lock()
"""Guards the discovery of instances and adapters: it changes the environment, and a back end has one instance."""


class Adapter:
    """WebGPU adapter (WGPUAdapter): a GPU, or the CPU, as one back end of wgpu sees it; devices are opened on it.

    Attributes:
        handle: WGPUAdapter.
        model: Name of the GPU.
        driver: Description of its driver.
        kind: "discrete GPU", "integrated GPU", "CPU" or "other".
        backend: API that wgpu uses, such as "vulkan".
        subgroup: Smallest and largest number of invocations of a subgroup; 0 if the adapter does not state them.
        supported_limits: WGPULimits with all limits of the adapter.
        limits: Name of a limit in the WebGPU standard → its value.
        features: Names of its features, of those in FEATURES (which shaders use) and OPTIONAL_FEATURES (which host code
            uses).
    """

    def __init__(self, handle: Any) -> None:
        """Query the names, limits and features of a WGPUAdapter."""
        ffi, lib = api.binding()
        self.handle = handle
        # Names and kind.
        info = ffi.new("WGPUAdapterInfo*")
        lib.wgpuAdapterGetInfo(handle, info)
        self.model, self.driver = api.text_of(info.device), api.text_of(info.description)
        self.kind = _KINDS.get(info.adapterType, "other")
        self.backend = _BACKEND_NAMES.get(info.backendType, "other")
        self.subgroup = (info.subgroupMinSize, info.subgroupMaxSize)
        lib.wgpuAdapterInfoFreeMembers(info[0])
        # Limits: those of the standard, then wgpu's own ones, a structure that is chained to the first.
        native = ffi.new("WGPUNativeLimits*", {"chain": {"sType": api.NATIVE_LIMITS}})
        self.supported_limits = ffi.new("WGPULimits*", {"nextInChain": ffi.addressof(native, "chain")})
        self._native = native  # `supported_limits` points to it; cffi frees it without this reference
        lib.wgpuAdapterGetLimits(handle, self.supported_limits)
        self.limits = limits_of(self.supported_limits)
        feature_codes = FEATURES | OPTIONAL_FEATURES
        self.features = {name for name, feature in feature_codes.items() if lib.wgpuAdapterHasFeature(handle, feature)}

    def names(self) -> WgslFeatures:
        """Return the features of shaders and the limits, which variants of executables may require by name.

        For example, "shader-f16" and "maxComputeWorkgroupSizeX>=512" are in the result if the adapter has them.
        """
        return WgslFeatures(self.features & FEATURES.keys(), self.limits)


def limits_of(limits: Any) -> dict[str, int]:
    """Return the fields of a WGPULimits structure by name."""
    ffi, _ = api.binding()
    return {name: int(getattr(limits, name)) for name, _ in ffi.typeof("WGPULimits").fields if name != "nextInChain"}


@cache
def _instance(owner: int, backends: int) -> Any:
    """Return the wgpu instance of a process for some back ends, created on first use.

    owner: the process id, part of the cache key: a forked child cannot use its parent's instance. backends: bits of
    BACKENDS.
    """
    ffi, lib = api.binding()
    extras = ffi.new("WGPUInstanceExtras*", {"chain": {"sType": api.INSTANCE_EXTRAS}, "backends": backends})
    descriptor = ffi.new("WGPUInstanceDescriptor*", {"nextInChain": ffi.addressof(extras, "chain")})
    with _without_messages():
        return lib.wgpuCreateInstance(descriptor)


@contextmanager
def _without_messages() -> Iterator[None]:
    """Set XDG_RUNTIME_DIR during the `with` block. The caller holds `_discovering`.

    Drivers look for a Wayland display, whose library prints a warning to standard error if the variable is missing. A
    display is not needed to compute.
    """
    if "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


@cache
def _adapters(owner: int, backends: int) -> list[Adapter]:
    """Return the adapters of this process for some back ends, in wgpu's order.

    owner: the process id, part of the cache key: a forked child cannot use its parent's adapters. backends: bits of
    BACKENDS.
    """
    ffi, lib = api.binding()
    instance = _instance(owner, backends)
    with _without_messages():
        count = lib.wgpuInstanceEnumerateAdapters(instance, ffi.NULL, ffi.NULL)
        handles = ffi.new("WGPUAdapter[]", max(1, count))
        lib.wgpuInstanceEnumerateAdapters(instance, ffi.NULL, handles)
    return [Adapter(handles[i]) for i in range(count)]


def instance_of(backend: str) -> Any:
    """Return the wgpu instance that owns the adapters of a back end; "" stands for all but OpenGL."""
    with _discovering:
        return _instance(os.getpid(), BACKENDS[backend] if backend else _PRIMARY)


def adapters(backend: str, name_part: str = "") -> list[Adapter]:
    """Return the adapters of a back end whose model contains a text.

    Args:
        backend: Name of the back end, a key of BACKENDS; "" for all but OpenGL.
        name_part: The text, in any case; "" for all adapters.

    Raises:
        InvalidArgumentError: There is no such back end.
        DeviceUnavailableError: wgpu is not installed.
    """
    if backend and backend not in BACKENDS:
        raise InvalidArgumentError(f"device 'webgpu': backend: expected one of {', '.join(BACKENDS)}, got '{backend}'")
    with _discovering:
        candidates = _adapters(os.getpid(), BACKENDS[backend] if backend else _PRIMARY)
    return [adapter for adapter in candidates if name_part.lower() in adapter.model.lower()]


def select_adapter(index: int, backend: str, name_part: str) -> Adapter:
    """Return the adapter with an index among those that `adapters` returns for `backend` and `name_part`.

    Raise DeviceUnavailableError if there is none.
    """
    candidates = adapters(backend, name_part)
    if index < len(candidates):
        return candidates[index]
    requested = "".join(f", {key} '{value}'" for key, value in (("adapter", name_part), ("backend", backend)) if value)
    available = ", ".join(f"{adapter.model} ({adapter.backend})" for adapter in adapters(backend)) or (
        "none; install a driver for Vulkan, for example mesa-vulkan-drivers, which needs no GPU"
    )
    raise DeviceUnavailableError(f"there is no device 'webgpu:{index}'{requested}; this machine has: {available}")
