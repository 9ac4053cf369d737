"""The exception classes of pydispatch and the table from C status codes to them."""

from cpython.exc cimport PyErr_Occurred, PyErr_SetInterrupt
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from pydispatch._core.c_status cimport PYD_CODE_COMMAND, PYD_CODE_CORRUPT, PYD_CODE_INTERNAL, PYD_CODE_INTERRUPTED
from pydispatch._core.c_status cimport PYD_CODE_INVALID_ARGUMENT, PYD_CODE_KERNEL, PYD_CODE_MISSING_IMPORT
from pydispatch._core.c_status cimport PYD_CODE_OUT_OF_MEMORY, PYD_CODE_SYSTEM, PYD_CODE_UNAVAILABLE
from pydispatch._core.c_status cimport PYD_CODE_UNSUPPORTED, PYD_STATUS_CAUSE, PYD_STATUS_EXECUTABLE, PYD_STATUS_EXPORT
from pydispatch._core.c_status cimport PYD_STATUS_LOCATION, PYD_STATUS_SYMBOL, pyd_status_add_name, pyd_status_code
from pydispatch._core.c_status cimport pyd_code_t, pyd_status_attach, pyd_status_free, pyd_status_make_values
from pydispatch._core.c_status cimport pyd_status_name, pyd_status_name_t, pyd_status_object, pyd_status_t
from pydispatch._core.c_status cimport pyd_status_text, pyd_status_values


class Error(Exception):
    """Base class of all errors that pydispatch raises on purpose.

    location: "file:line" or "file:line:column" in the source of the program, None if unknown. causes: a tuple with the
    texts of the failures that led to this one, the root cause last.
    """

    location = None
    causes = ()


class ArtifactError(Error):
    """An artifact, ELF file or program is broken, or requires a feature that this build or machine lacks."""


class MissingImportError(Error):
    """A function that a kernel imports has no provider. symbols: a tuple with the names of all missing functions."""

    def __init__(self, message="", symbols=()):
        super().__init__(message)
        self.symbols = tuple(symbols)


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong. The text names the parameter, the expected value and the actual one."""


class DeviceUnavailableError(Error):
    """A device does not exist on this machine, or no variant of an executable runs on it."""


class KernelError(Error):
    """A workgroup function returned a non-zero code.

    executable, export: name of the library of the function, and name of the function in the library. workgroup:
    (x, y, z), the index in the grid. code: the returned code. None: unknown.
    """

    def __init__(self, message="", executable=None, export=None, workgroup=None, code=None):
        super().__init__(message)
        self.executable = executable
        self.export = export
        self.workgroup = workgroup
        self.code = code


class CommandError(Error):
    """A host command failed. An exception that it raised is the cause (`__cause__`).

    command: its name. code: the returned code. None: unknown.
    """

    def __init__(self, message="", command=None, code=None):
        super().__init__(message)
        self.command = command
        self.code = code


class OutOfMemoryError(Error, MemoryError):
    """Memory for buffers or code could not be allocated; the text has the number of bytes."""


class SystemError_(Error, OSError):
    """A call of the operating system failed, such as that which opens a file; the text has its reason.

    It is an OSError, too, so that `except OSError` catches it.
    """

    __qualname__ = __name__ = "SystemError"


class InternalError(Error):
    """A bug in pydispatch itself. Please report it.

    source: MLIR of a small program that reproduces a bug of the compiler, or None.
    """

    source = None


# code of status.h -> class. tests/core/test_status.py compares the two tables.
CODES = {
    PYD_CODE_INVALID_ARGUMENT: InvalidArgumentError,
    PYD_CODE_CORRUPT: ArtifactError,
    PYD_CODE_UNSUPPORTED: ArtifactError,
    PYD_CODE_MISSING_IMPORT: MissingImportError,
    PYD_CODE_UNAVAILABLE: DeviceUnavailableError,
    PYD_CODE_KERNEL: KernelError,
    PYD_CODE_OUT_OF_MEMORY: OutOfMemoryError,
    PYD_CODE_SYSTEM: SystemError_,
    PYD_CODE_INTERNAL: InternalError,
    PYD_CODE_INTERRUPTED: KeyboardInterrupt,
    PYD_CODE_COMMAND: CommandError,
}

cdef extern from *:
    """
    static const char* pyd_type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }
    """
    const char* pyd_type_name(object)


cdef int raise_status(pyd_status_t status) except -1 with gil:
    """Raise the exception of a status, which is no success, and free the status."""
    # An exception that is set already was raised by a signal handler, or by the Python code of a device: it ended the
    # call, and is raised unchanged.
    if pyd_status_code(status) == PYD_CODE_INTERRUPTED and PyErr_Occurred() != NULL:
        pyd_status_free(status)
        return -1
    try:
        raise exception_of(status)
    finally:
        pyd_status_free(status)


cdef extern from *:
    """
    #include <stdatomic.h>
    typedef struct raised_s {
      PyObject* error;
      struct raised_s* next;
    } raised_t;
    static _Atomic(raised_t*) pyd_released;  // a stack: pushed without the GIL, taken as a whole
    static void pyd_push_released(void* object) {
      raised_t *raised = object, *top = pyd_released;
      do raised->next = top; while (!atomic_compare_exchange_weak(&pyd_released, &top, raised));
    }
    static void* pyd_take_released(void) { return atomic_exchange(&pyd_released, NULL); }
    """
    void pyd_push_released(void* raised) nogil
    void* pyd_take_released() nogil


cdef int drop_released() except -1:
    """Drop the exceptions that statuses have released. The caller has the GIL, which dropping them needs."""
    cdef Raised* raised = <Raised*>pyd_take_released()
    cdef Raised* next
    while raised != NULL:
        next = raised.next
        Py_DECREF(<object>raised.error)
        free(raised)
        raised = next
    return 0


cdef Raised* keep_raised(object error) except NULL:
    """Return a new reference to an exception, which the status of a host command holds."""
    cdef Raised* raised = <Raised*>malloc(sizeof(Raised))
    drop_released()
    if raised == NULL:
        raise MemoryError()
    Py_INCREF(error)
    raised.error = <PyObject*>error
    return raised


cdef void release_raised(void* raised) noexcept nogil:
    """Queue an exception to be dropped later, as the thread that frees a status may not have the GIL."""
    pyd_push_released(raised)


cdef object take_raised(pyd_status_t status):
    """Remove the exception of a host command from a status and return it; None if the status has none.

    A status that kept it, such as that of a task, would keep alive the frames of its traceback and of their callers,
    in a reference cycle that the garbage collector does not see if these frames refer to the task.
    """
    if pyd_status_object(status) == NULL:
        return None
    error = <object>(<Raised*>pyd_status_object(status)).error
    pyd_status_attach(status, NULL, NULL)
    drop_released()
    return error


cdef object exception_of(pyd_status_t status):
    """Return the exception of a status, with its location and causes."""
    error = plain_exception_of(status)
    if isinstance(error, Error):
        if locations := names_of(status, PYD_STATUS_LOCATION):
            error.location = locations[0]
        if causes := names_of(status, PYD_STATUS_CAUSE):
            error.causes = tuple(causes)
    return error


cdef object plain_exception_of(pyd_status_t status):
    """Return the exception of a status, without location and causes."""
    cdef const int64_t* values = pyd_status_values(status)  # of a kernel: command, workgroup x, y, z, returned code
    text = pyd_status_text(status).decode("utf-8", "replace")
    cls = CODES.get(pyd_status_code(status), InternalError)
    if cls is KernelError:
        executables, exports = names_of(status, PYD_STATUS_EXECUTABLE), names_of(status, PYD_STATUS_EXPORT)
        return KernelError(
            text, executables[0] if executables else None, exports[0] if exports else None,
            (values[1], values[2], values[3]), values[4])  # workgroup, code
    if cls is MissingImportError:
        return MissingImportError(text, names_of(status, PYD_STATUS_SYMBOL))
    if cls is CommandError:
        cause = take_raised(status)
        if cause is not None and not isinstance(cause, Exception):
            return cause  # KeyboardInterrupt and SystemExit are no failures of the command
        commands = names_of(status, PYD_STATUS_SYMBOL)
        error = CommandError(text, commands[0] if commands else None, values[4])
        error.__cause__ = cause
        return error
    return cls(text)


cdef list names_of(pyd_status_t status, pyd_status_name_t kind):
    """Return all names of a kind that a status has."""
    cdef const char* name
    names = []
    while (name := pyd_status_name(status, kind, len(names))) != NULL:
        names.append(name.decode("utf-8", "replace"))
    return names


# ---- statuses of Python exceptions

cdef int code_of(object error) except -1:
    """Return the status code of an exception: by its class in CODES, or else by its built-in base class."""
    if not isinstance(error, Exception):
        return PYD_CODE_INTERRUPTED  # KeyboardInterrupt and SystemExit request an end
    for code, cls in CODES.items():
        if isinstance(error, cls):
            return code
    if isinstance(error, MemoryError):
        return PYD_CODE_OUT_OF_MEMORY
    if isinstance(error, OSError):
        return PYD_CODE_SYSTEM
    if isinstance(error, ValueError):
        return PYD_CODE_INVALID_ARGUMENT
    return PYD_CODE_INTERNAL


cdef bytes text_of(object error, int code):
    """Return the text of a status for an exception, with its class if the code does not tell it."""
    text = str(error)
    if code in (PYD_CODE_INTERNAL, PYD_CODE_INTERRUPTED) and not isinstance(error, Error):
        text = f"{type(error).__name__}: {text}"
    return text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")


cdef int kernel_values(object error, int64_t* values) except -1:
    """Store a KernelError in the five `values` of a status: command (unknown: 0), workgroup x, y, z, returned code."""
    x, y, z = error.workgroup or (0, 0, 0)
    values[0], values[1], values[2], values[3], values[4] = 0, x, y, z, error.code or 0
    return 0


cdef list names_in(object error, int code):
    """Return (pyd_status_name_t, UTF-8 bytes) of each function, location and cause that an exception has.

    code: the status code of the exception.
    """
    if code == PYD_CODE_KERNEL:
        names = [(PYD_STATUS_EXECUTABLE, error.executable), (PYD_STATUS_EXPORT, error.export)]
    elif code == PYD_CODE_MISSING_IMPORT:
        names = [(PYD_STATUS_SYMBOL, symbol) for symbol in error.symbols]
    elif code == PYD_CODE_COMMAND:
        names = [(PYD_STATUS_SYMBOL, error.command)]
    else:
        names = []
    if isinstance(error, Error):
        names += [(PYD_STATUS_LOCATION, error.location), *((PYD_STATUS_CAUSE, cause) for cause in error.causes)]
    return [(kind, str(name).encode("utf-8", "backslashreplace")) for kind, name in names if name is not None]


cdef pyd_status_t status_of(object error, const char* where) noexcept:
    """Return the status of an exception; never NULL.

    where: what raised it, such as a function's name; begins the text if the exception has no text of its own.
    """
    cdef int64_t values[5]
    cdef int code = PYD_CODE_INTERNAL
    cdef const char* kind = pyd_type_name(error)
    cdef bytes text = None, name
    cdef list names = []
    cdef pyd_status_t status
    cdef int name_kind
    values[0] = values[1] = values[2] = values[3] = values[4] = 0
    try:
        code = code_of(error)
        if code == PYD_CODE_KERNEL:
            kernel_values(error, values)
        names = names_in(error, code)
        text = text_of(error, code)
    except KeyboardInterrupt:
        PyErr_SetInterrupt()  # raised again where Python code runs next
    except BaseException:  # its __str__ fails, or memory is short
        pass
    if text is None:
        status = pyd_status_make_values(
            <pyd_code_t>code, values, "%s: an error of class %s without a text", where, kind)
    else:
        status = pyd_status_make_values(<pyd_code_t>code, values, "%s", <const char*>text)
    for name_kind, name in names:
        status = pyd_status_add_name(status, <pyd_status_name_t>name_kind, name, len(name))
    return status
