from libc.stdint cimport int32_t, int64_t, uint32_t

cdef extern from "pydispatch/status.h" nogil:
    ctypedef struct pyd_status_payload_s:
        pass
    ctypedef const pyd_status_payload_s* pyd_status_t
    ctypedef int pyd_code_t
    ctypedef struct pyd_interrupt_t:
        int32_t (*is_wanted)(void* self) noexcept nogil
        void* self
    int PYD_CODE_INVALID_ARGUMENT, PYD_CODE_CORRUPT, PYD_CODE_UNSUPPORTED, PYD_CODE_MISSING_IMPORT, PYD_CODE_UNAVAILABLE
    int PYD_CODE_KERNEL, PYD_CODE_OUT_OF_MEMORY, PYD_CODE_SYSTEM, PYD_CODE_INTERNAL, PYD_CODE_INTERRUPTED
    int PYD_CODE_COMMAND
    ctypedef enum pyd_status_name_t:
        PYD_STATUS_EXECUTABLE, PYD_STATUS_EXPORT, PYD_STATUS_SYMBOL, PYD_STATUS_LOCATION, PYD_STATUS_CAUSE
    pyd_status_t pyd_status_make(int code, const char* format, ...)
    pyd_status_t pyd_status_make_values(int code, const int64_t* values, const char* format, ...)
    pyd_status_t pyd_status_add_name(pyd_status_t status, pyd_status_name_t kind, const char* name, size_t length)
    pyd_status_t pyd_status_annotate(pyd_status_t status, const char* format, ...)
    void* pyd_status_object(pyd_status_t status)
    int pyd_status_code(pyd_status_t status)
    const char* pyd_status_text(pyd_status_t status)
    const int64_t* pyd_status_values(pyd_status_t status)
    const char* pyd_status_name(pyd_status_t status, pyd_status_name_t kind, uint32_t index)
    void pyd_status_free(pyd_status_t status)
