from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.capi cimport pyd_api_device_t, pyd_api_memory_t, pyd_api_program_t


# Holds the memory of an embedder.
cdef class HeldMemory:
    cdef pyd_api_memory_t* memory

# See capi.handles.
cdef tuple live_handles()
# A handle around a device object of Python, and around a program; `device`: the one it was loaded on, or NULL.
cdef pyd_status_t wrap_device(object device, pyd_api_device_t** out_device) except? NULL
cdef pyd_status_t wrap_program(
    object program, pyd_api_device_t* device, pyd_api_program_t** out_program, object held=*) except? NULL
# (Scheduler, Pool, device object, what was registered through the handle). InvalidArgumentError for one that came with
# a program.
cdef tuple python_device(const pyd_api_device_t* device)
cdef object array_over(pyd_api_memory_t* memory, HeldMemory held)
