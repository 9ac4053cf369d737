"""The exception classes of pydispatch and the table from C status codes to them."""

from pydispatch._core.c_status cimport (
    pyd_status_code,
    pyd_status_free,
    pyd_status_t,
    pyd_status_text,
    pyd_status_values,
)


class Error(Exception):
    """Base of everything that pydispatch raises on purpose."""


class ArtifactError(Error):
    """An artifact, ELF file or program is broken, or needs what this build or machine lacks."""


class MissingImportError(Error):
    """A required import has no provider. `symbols` lists the missing names."""

    def __init__(self, message="", symbols=()):
        super().__init__(message)
        self.symbols = tuple(symbols)


class InvalidArgumentError(Error, ValueError):
    """An argument does not fit. The text names the parameter, what was expected and what came."""


class DeviceUnavailableError(Error):
    """A device does not exist here, or no variant of an executable runs on it."""


class KernelError(Error):
    """A workgroup function returned non-zero.

    executable, export: names. workgroup: (x, y, z). code: what the function returned.
    """

    def __init__(self, message="", executable=None, export=None, workgroup=None, code=None):
        super().__init__(message)
        self.executable = executable
        self.export = export
        self.workgroup = workgroup
        self.code = code


class OutOfMemoryError(Error, MemoryError):
    """Memory for buffers or code could not be had; the text has the number of bytes."""


class SystemError_(Error, OSError):
    """The operating system refused; the text has its reason."""

    __qualname__ = __name__ = "SystemError"


class InternalError(Error):
    """A fault in pydispatch itself. Please report it."""


# code of status.h -> class. tests/core/test_status.py compares the two tables.
CODES = {
    1: InvalidArgumentError,
    2: ArtifactError,
    3: ArtifactError,
    4: MissingImportError,
    5: DeviceUnavailableError,
    6: KernelError,
    7: OutOfMemoryError,
    8: SystemError_,
    9: InternalError,
}


cdef int raise_status(pyd_status_t status) except -1 with gil:
    code = pyd_status_code(status)
    text = pyd_status_text(status).decode("utf-8", "replace")
    values = [pyd_status_values(status)[i] for i in range(5)]
    pyd_status_free(status)
    cls = CODES.get(code, InternalError)
    if cls is KernelError:
        raise KernelError(text, workgroup=tuple(values[1:4]), code=values[4])
    raise cls(text)
