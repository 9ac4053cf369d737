from cpython.object cimport PyObject

from pydispatch._core.c_status cimport pyd_status_t


cdef int raise_status(pyd_status_t status) except -1 with gil


# Raises the exception of a status, unless it is NULL, which stands for success. Takes the GIL only to raise.
cdef inline int check(pyd_status_t status) except -1 nogil:
    if status == NULL:
        return 0
    return raise_status(status)


# Returns the exception of a status; the caller still owns the status. An exception that a host command has raised moves
# from the status to its cause: a second exception of the status would have no cause.
cdef object exception_of(pyd_status_t status)

# Returns the status of a Python exception, for callbacks of C code. It cannot fail and never returns NULL.
# KeyboardInterrupt and SystemExit become INTERRUPTED. A callback whose Python caller must get the exception itself sets
# it in the thread again (PyErr_SetObject), where raise_status() finds it.
cdef pyd_status_t status_of(object error, const char* where) noexcept

# An exception that is attached to a status, which threads without the GIL may free.
ctypedef struct Raised:
    PyObject* error
    Raised* next


# Returns a new reference to an exception, for a COMMAND status. Raises MemoryError.
cdef Raised* keep_raised(object error) except NULL
# Queues the reference; a later call of keep_raised() or exception_of() drops it.
cdef void release_raised(void* raised) noexcept nogil
