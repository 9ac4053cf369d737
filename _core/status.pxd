from cpython.object cimport PyObject

from pydispatch._core.c_status cimport pyd_status_t


cdef int raise_status(pyd_status_t status) except -1 with gil


# The one check around every C call that returns a status: free on the good path, takes the GIL only to raise.
cdef inline int check(pyd_status_t status) except -1 nogil:
    if status == NULL:
        return 0
    return raise_status(status)


# The exception that a status means; the status stays the caller's.
cdef object exception_of(pyd_status_t status)

# What Python raised, as a status: for everything that C calls. Cannot fail and never returns NULL, whatever the
# exception is. KeyboardInterrupt and its like become INTERRUPTED; whoever is between C and Python code that is to see
# the exception itself puts it back into the thread (PyErr_SetObject), where raise_status finds it.
cdef pyd_status_t status_of(object error, const char* where) noexcept

# An exception that is attached to a status, which may be freed where no thread may wait for the GIL.
ctypedef struct Raised:
    PyObject* error
    Raised* next


# Keeps an exception for a COMMAND status. MemoryError.
cdef Raised* keep_raised(object error) except NULL
# Leaves the reference to the next call of keep_raised.
cdef void release_raised(void* raised) noexcept nogil
