from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.capi cimport pyd_api_device_t, pyd_api_memory_t, pyd_api_program_t


# Owner of a reference to an embedder's memory, which its deallocation releases.
cdef class HeldMemory:
    cdef pyd_api_memory_t* memory

# Returns the numbers of device handles and of program handles that are not freed yet.
cdef tuple live_handles()
# Create a handle for a Python device object, and for a Program. |device|: handle of the device of the program, or NULL.
cdef pyd_status_t wrap_device(object device, pyd_api_device_t** out_device) except? NULL
cdef pyd_status_t wrap_program(
    object program, pyd_api_device_t* device, pyd_api_program_t** out_program, object held=*) except? NULL
# Returns (Scheduler, Pool, device object, providers registered through the handle by identifier). Raises
# InvalidArgumentError for a handle that was created for a program, which has no device object.
cdef tuple python_device(const pyd_api_device_t* device)
cdef object array_over(pyd_api_memory_t* memory, HeldMemory held)
