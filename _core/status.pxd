from pydispatch._core.c_status cimport pyd_status_t


cdef int raise_status(pyd_status_t status) except -1 with gil


# The one check around every C call that returns a status: free on the good path, takes the GIL only to raise.
cdef inline int check(pyd_status_t status) except -1 nogil:
    if status == NULL:
        return 0
    return raise_status(status)
