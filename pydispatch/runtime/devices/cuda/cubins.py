"""Compilation of PTX to cubins by the driver, with a cache of files."""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, DeviceUnavailableError, Error
from pydispatch.formats.storage import cache
from pydispatch.runtime.devices.cuda import driver as cuda

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context

_LOG_BYTES = 16 << 10
"""Bytes of each log of the driver's compiler: longer messages are cut off."""
_FORMAT = b"pydispatch cubin 1\0"
"""First bytes of the data whose hash is the name of a cached file. A changed version number makes all earlier cached
cubins unused."""


class Log:
    """Options of the driver's compiler, with buffers for its messages.

    Attributes:
        error, info: Buffers that the compiler writes errors and other messages to, terminated by 0.
        options: Each CUjit_option.
        values: Value of each option.
    """

    def __init__(self, driver: Any) -> None:
        """Create empty buffers of `_LOG_BYTES` bytes, and the options that pass them to the compiler."""
        kind = driver.CUjit_option
        self.error, self.info = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
        self.options = [
            kind.CU_JIT_ERROR_LOG_BUFFER, kind.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, kind.CU_JIT_INFO_LOG_BUFFER,
            kind.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ]  # fmt: skip
        self.values = [self.error, _LOG_BYTES, self.info, _LOG_BYTES]

    def text(self) -> str:
        """Return the messages of the compiler, errors first."""
        parts = (bytes(part).split(b"\0")[0].decode(errors="replace").strip() for part in (self.error, self.info))
        return "\n".join(part for part in parts if part)


def compile_ptx(context: Context, text: bytes, where: str, fresh: bool = False) -> tuple[bytes, bool]:
    """Compile PTX for the device; return the cubin, and whether it is from the cache.

    Args:
        context: The device.
        text: The PTX.
        where: Begin of error messages.
        fresh: Whether to ignore, and replace, a cached cubin.

    Raises:
        ArtifactError: The compiler rejects the PTX; the message has its log.
        DeviceUnavailableError: The driver is too old for the PTX.
    """
    major, minor = context.capability
    # A cubin is of one driver version and architecture.
    key = f"{context.version} sm_{major}{minor} ".encode()
    entry = "cuda", f"{hashlib.sha256(_FORMAT + key + text).hexdigest()}.cubin"
    cached = None if fresh else cache.load(*entry)
    if cached:
        return cached, True
    cubin = _compile(context, text, where)
    cache.store(cubin, *entry)
    return cubin, False


def _compile(context: Context, text: bytes, where: str) -> bytes:
    """Compile PTX to a cubin with the linker of the driver.

    Raise ArtifactError, with the compiler's log, if it rejects the PTX, and DeviceUnavailableError if the PTX is of a
    newer version than the driver. where: begin of error messages.
    """
    driver, log = context.driver, Log(context.driver)
    source = text.rstrip(b"\0") + b"\0"  # the driver expects a C string
    with context.current:
        state = context.check(driver.cuLinkCreate(len(log.options), log.options, log.values), "cuLinkCreate")
        try:
            kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
            name = where.encode(errors="replace") + b"\0"
            (status,) = driver.cuLinkAddData(state, kind, source, len(source), name, 0, [], [])
            if status:
                raise rejection_error(context, status, where, text, log.text())
            result = driver.cuLinkComplete(state)
            if result[0]:
                raise rejection_error(context, result[0], where, text, log.text())
            return ctypes.string_at(int(result[1]), int(result[2]))
        finally:
            driver.cuLinkDestroy(state)


def rejection_error(context: Context, status: Any, where: str, text: bytes, log: str) -> Error:
    """Return the error for PTX that the driver's compiler rejects.

    It is DeviceUnavailableError if the PTX is of a newer version than the driver, ArtifactError if the code is broken,
    and otherwise the usual error of the status, such as OutOfMemoryError.

    Args:
        context: The device.
        status: CUresult of the driver's function.
        where: Begin of the message.
        text: The PTX; b"" for a cubin.
        log: Messages of the compiler.
    """
    code, driver = int(status), context.driver
    log_lines = "".join(f"\n  {line}" for line in log.splitlines() if line.strip())
    subject = (
        f"{where}: {context.name} ({context.model}) cannot compile its PTX: {cuda.describe(driver, status)}{log_lines}"
    )
    if code == cuda.UNSUPPORTED_PTX:
        lines = text.decode(errors="replace").splitlines()
        version = next((line.split()[1] for line in lines if line.startswith(".version ")), "?")
        newest = cuda.version_text(context.version)
        hint = (
            f"\nthe text is PTX {version}, and the driver is of CUDA {newest}: update the driver, or compile it with a "
            f"toolkit (or nvidia-cuda-nvrtc) of CUDA {newest} or older"
        )
        return DeviceUnavailableError(subject + hint)
    if code in (cuda.INVALID_PTX, cuda.INVALID_IMAGE, cuda.NO_BINARY, cuda.NOT_FOUND, cuda.INVALID_VALUE):
        return ArtifactError(subject)
    return cuda.failure(driver, status, subject, log)
