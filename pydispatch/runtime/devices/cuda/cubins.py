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
        option = driver.CUjit_option
        self.error, self.info = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
        self.options = [
            option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, option.CU_JIT_INFO_LOG_BUFFER,
            option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ]  # fmt: skip
        self.values = [self.error, _LOG_BYTES, self.info, _LOG_BYTES]

    def text(self) -> str:
        """Return the messages of the compiler, errors first."""
        buffers = (self.error, self.info)
        texts = (bytes(buffer).split(b"\0")[0].decode(errors="replace").strip() for buffer in buffers)
        return "\n".join(text for text in texts if text)


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
    compiler = f"{context.version} sm_{major}{minor} ".encode()  # driver version and architecture determine the cubin
    file_name = f"{hashlib.sha256(_FORMAT + compiler + text).hexdigest()}.cubin"
    cached = None if fresh else cache.load("cuda", file_name)
    if cached:
        return cached, True
    cubin = _compile(context, text, where)
    cache.store(cubin, "cuda", file_name)
    return cubin, False


def _compile(context: Context, text: bytes, where: str) -> bytes:
    """Compile PTX to a cubin with the linker of the driver.

    Raise ArtifactError, with the compiler's log, if it rejects the PTX, and DeviceUnavailableError if the PTX is of a
    newer version than the driver. where: begin of error messages.
    """
    driver, log = context.driver, Log(context.driver)
    source = text.rstrip(b"\0") + b"\0"  # the driver expects a C string
    with context.current:
        linker = context.check(driver.cuLinkCreate(len(log.options), log.options, log.values), "cuLinkCreate")
        try:
            kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
            name = where.encode(errors="replace") + b"\0"
            no_options: list[Any] = []
            (status,) = driver.cuLinkAddData(linker, kind, source, len(source), name, 0, no_options, no_options)
            if status:
                raise rejection_error(context, status, where, text, log.text())
            status, *cubin = driver.cuLinkComplete(linker)
            if status:
                raise rejection_error(context, status, where, text, log.text())
            address, size = cubin  # memory of the linker
            return ctypes.string_at(int(address), int(size))
        finally:
            driver.cuLinkDestroy(linker)


def rejection_error(context: Context, status: Any, where: str, text: bytes, log: str) -> Error:
    """Return the error for PTX or a cubin that the driver rejects.

    This is DeviceUnavailableError if the PTX is of a newer version than the driver, ArtifactError if the code is
    broken, and otherwise the usual error of the status, such as OutOfMemoryError.

    Args:
        context: The device.
        status: CUresult of the driver's function.
        where: Begin of the message.
        text: The PTX; b"" for a cubin.
        log: Messages of the compiler.
    """
    code, driver = int(status), context.driver
    log_lines = "".join(f"\n  {line}" for line in log.splitlines() if line.strip())
    message = (
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
        return DeviceUnavailableError(message + hint)
    # With cuLinkAddData and cuModuleLoadData, each of these statuses is about the code.
    if code in (cuda.INVALID_PTX, cuda.INVALID_IMAGE, cuda.NO_BINARY, cuda.NOT_FOUND, cuda.INVALID_VALUE):
        return ArtifactError(message)
    return cuda.failure(driver, status, message, log)
