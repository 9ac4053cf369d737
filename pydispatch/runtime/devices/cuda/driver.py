"""Import of `cuda.bindings.driver`, and its statuses as exceptions.

Functions of the binding return a tuple: a status (CUresult), then their values. `check` raises the error of a status;
code whose microseconds count, such as launches, tests the status itself.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from functools import lru_cache
from typing import Any

from pydispatch.errors import DeviceUnavailableError, Error, InternalError, InvalidArgumentError, OutOfMemoryError
from pydispatch.packages import importing

MODULE = "cuda.bindings.driver"  # of the package cuda-bindings
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"  # a part of the GPU's driver
MIN_VERSION = 12000
"""Minimum of cuDriverGetVersion (1000 * major + 10 * minor): CUDA 12.0 has the graphs and memory pools used here."""
MIN_PACKAGE = "525"
"""First release of the NVIDIA driver that has CUDA 12.0 (MIN_VERSION), for messages."""

# Results of the driver, cuda.h.
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED = 0, 1, 2, 3, 4
NO_DEVICE, INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT, NO_BINARY = 100, 101, 200, 201, 209
INVALID_PTX, NO_COMPILER, UNSUPPORTED_PTX = 218, 221, 222
INVALID_HANDLE, NOT_FOUND, NOT_READY = 400, 500, 600
ILLEGAL_ADDRESS, LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED = 700, 701, 702, 709

STICKY = {
    214: "its memory has an error that cannot be corrected (ECC)",
    700: "a kernel read or wrote an address that is not its own (illegal address)",
    702: "a kernel ran longer than the system lets it (launch timeout)",
    709: "its context was destroyed by somebody else in this process",
    710: "an assertion of a kernel failed",
    714: "a kernel ran out of stack (hardware stack error)",
    715: "a kernel came to an illegal instruction",
    716: "a kernel read or wrote an address that is not a multiple of the access's size (misaligned address)",
    717: "a kernel used an address of another memory space (invalid address space)",
    718: "a kernel left its code (invalid program counter)",
    719: "a kernel failed (launch failure)",
}
"""Errors that a context does not recover from: every later call of the driver returns them again."""

_UNUSABLE = {
    3: "the driver cannot be used here; a process that was forked after CUDA was used has to be spawned instead",
    4: "the driver is shutting down with the process",
    46: "the device is in use by others only (exclusive mode) or was removed",
    100: "the driver has no device",
    101: "the driver has no such device",
    201: "there is no context of this device",
    221: "the driver has no compiler for PTX (libnvidia-ptxjitcompiler); install the whole driver package",
    802: "the system is still starting its devices; try again",
    803: "the driver and its library are of different versions; restart the machine",
    804: "the compatibility library does not support this device",
}
"""Statuses of a driver or device that this process cannot use, with the reason."""
_OTHER_CONTEXT = (INVALID_CONTEXT, INVALID_HANDLE, NOT_INITIALIZED)
"""Statuses of calls in a thread without a current context, or with the context of another device."""


class DeviceLostError(DeviceUnavailableError):
    """Loss of a device for this process, with all its memory."""


def is_installed() -> bool:
    """Return whether the library of the driver can be loaded. The package cuda-bindings is not imported."""
    if MODULE in sys.modules:
        return True
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def binding() -> Any:
    """Return the module `cuda.bindings.driver`, initialized.

    Raise DeviceUnavailableError if the package, the driver or a device is missing, or the driver is too old.
    """
    return _start(os.getpid())  # cached for each process, since a forked one must initialize the driver again


@lru_cache(maxsize=2)  # in a forked child there is an entry for its parent and one for itself
def _start(process: int) -> Any:
    """Import and initialize the driver's module in this process, and return it.

    Raise DeviceUnavailableError if the package or the driver is missing, or the driver is too old.

    process: id of this process, the key of the cache. A forked child has another id, and initializes the driver again.
    """
    with importing("CUDA", "cuda", DeviceUnavailableError):
        driver = importlib.import_module(MODULE)
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # of cuda.pathfinder: there is no library of the driver
        raise DeviceUnavailableError(_without_library()) from None
    if status:
        raise failure(driver, status, "cuInit")
    version = check(driver, driver.cuDriverGetVersion(), "cuDriverGetVersion")
    if version < MIN_VERSION:
        raise DeviceUnavailableError(
            f"the CUDA driver is of version {version_text(version)}, pydispatch needs "
            f"{version_text(MIN_VERSION)}: update the NVIDIA driver to {MIN_PACKAGE} or newer"
        )
    return driver


def _without_library() -> str:
    """Return the message for a machine without the CUDA driver."""
    return (
        f"the CUDA driver ({LIBRARY}) is not there: install the NVIDIA driver {MIN_PACKAGE} or newer; a container "
        "needs --gpus all\nwithout a GPU, the device 'ptx-interpreter' runs the same programs, slowly"
    )


def device_count() -> int:
    """Return the number of CUDA devices. Raise the errors of `binding`."""
    driver = binding()
    result = driver.cuDeviceGetCount()
    return 0 if result[0] == NO_DEVICE else int(check(driver, result, "cuDeviceGetCount"))


def version_text(version: int) -> str:
    """Return the text of a version: 12040 -> "12.4"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def check(driver: Any, result: tuple[Any, ...], function: str) -> Any:
    """Return the value that a function of the driver returned, or a tuple of several; raise the error of its status.

    Args:
        driver: Module of the driver.
        result: Tuple that the function returned: its status, then its values.
        function: Name of the function, which begins the message.
    """
    if result[0]:
        raise failure(driver, result[0], function)
    return result[1] if len(result) == 2 else result[1:]


def failure(driver: Any, status: Any, action: str, log: str = "") -> Error:
    """Return the exception for a status other than SUCCESS; InternalError if no more specific one exists.

    A status in STICKY is a hardware error, after which the device is lost; its value there is the explanation.

    Args:
        driver: Module of the driver.
        status: CUresult.
        action: What failed; begins the message.
        log: Messages of the driver's PTX compiler; "" for none.
    """
    code = int(status)
    text = f"{action}: {describe(driver, status)}"
    if code == OUT_OF_MEMORY:
        return OutOfMemoryError(text)
    if code in STICKY:
        return DeviceLostError(f"{text}; {STICKY[code]}")
    if code in _UNUSABLE:
        return DeviceUnavailableError(f"{text}; {_UNUSABLE[code]}")
    if code in (UNSUPPORTED_PTX, NO_BINARY):
        return DeviceUnavailableError(f"{text}{_indented(log)}")
    if code in (INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES):
        return InvalidArgumentError(text)
    return InternalError(f"{text}{_indented(log)}")


def describe(driver: Any, status: Any) -> str:
    """Return a status for messages, such as "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"."""
    name = getattr(status, "name", None) or f"CUresult {int(status)}"
    result = driver.cuGetErrorString(status)  # (status of this call, text)
    text = result[1] if len(result) > 1 and not result[0] else None
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return f"{name} ({text})" if text else str(name)


def is_of_other_context(status: Any) -> bool:
    """Return whether a call with this status may succeed once the context of its device is made current."""
    return int(status) in _OTHER_CONTEXT


def _indented(log: str) -> str:
    """Return the lines of a log, each on a line of its own and indented."""
    return "".join(f"\n  {line}" for line in log.splitlines() if line.strip())
