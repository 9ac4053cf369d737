from libc.stdint cimport int64_t

cdef extern from "pydispatch/status.h" nogil:
    ctypedef struct pyd_status_payload_s:
        pass
    ctypedef const pyd_status_payload_s* pyd_status_t
    ctypedef int pyd_code_t
    int pyd_status_code(pyd_status_t status)
    const char* pyd_status_text(pyd_status_t status)
    const int64_t* pyd_status_values(pyd_status_t status)
    void pyd_status_free(pyd_status_t status)
