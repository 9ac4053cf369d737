"""Handles of the C function table for Python objects: devices, programs and functions.

Releasing a handle takes the GIL briefly.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t

from pydispatch._core.arrays cimport element_type
from pydispatch._core.c_procedure cimport pyd_state_t
from pydispatch._core.c_status cimport PYD_CODE_INVALID_ARGUMENT, PYD_CODE_UNSUPPORTED, pyd_status_make, pyd_status_t
from pydispatch._core.c_table cimport pyd_api_device_make, pyd_api_device_owner, pyd_api_owner_t, pyd_api_program_make
from pydispatch._core.interpreter cimport pyd_has_python
from pydispatch._core.lock cimport pyd_count
from pydispatch._core.memory cimport Pool
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Scheduler
from pydispatch._core.state cimport State

import numpy as np

from pydispatch._core.status import InvalidArgumentError

cdef extern from "api/memory.h" nogil:
    # Those members of the handle that an array needs.
    ctypedef struct references_t "atomic_uint":
        pass
    ctypedef struct memory_t "struct pyd_api_memory_s":
        references_t references
        uint8_t* first
        uint8_t* lowest
        uint64_t extent
        uint32_t dtype
        uint32_t rank
        const int64_t* dims
        const int64_t* strides
    void pyd_api_retain(references_t* references)
    void pyd_api_memory_release(pyd_api_memory_t* memory)
    void pyd_api_device_release(pyd_api_device_t* device)

cdef Py_ssize_t live_devices = 0   # number of handles whose owner, see below, is alive
cdef Py_ssize_t live_programs = 0


cdef tuple live_handles():
    """Return the numbers of device handles and of program handles that are not freed yet, in this order."""
    return live_devices, live_programs


# ---- owners: tuples of the objects that a handle keeps alive

cdef void drop_device(void* owner) noexcept nogil:
    """Release the owner of a device handle; the `drop` of its pyd_api_owner_t, called when the handle is freed."""
    if pyd_has_python():  # otherwise the owner leaks, as no Python object can be freed any more
        drop_with_gil(owner, True)


cdef void drop_program(void* owner) noexcept nogil:
    """Release the owner of a program handle; the `drop` of its pyd_api_owner_t, called when the handle is freed."""
    if pyd_has_python():  # otherwise the owner leaks
        drop_with_gil(owner, False)


cdef void drop_with_gil(void* owner, bint is_device) noexcept with gil:
    """Release the owner of a handle that was freed. is_device: of a device; otherwise of a program."""
    pyd_count(&live_devices if is_device else &live_programs, -1)
    Py_DECREF(<object>owner)


cdef pyd_status_t make_device(tuple owner, pyd_api_device_t** out_device) except? NULL:
    """Create the handle of a device, which keeps `owner` alive.

    owner: (Scheduler, Pool), or these two with the device object and a dict of the providers that were registered
    through the handle, by identifier.
    """
    cdef pyd_api_owner_t kept
    kept.self, kept.drop = <void*>owner, drop_device
    status = pyd_api_device_make((<Scheduler>owner[0]).sched, (<Pool>owner[1]).pool, kept, out_device)
    if status == NULL:
        Py_INCREF(owner)
        pyd_count(&live_devices, 1)
    return status


cdef pyd_status_t make_program(
        pyd_api_device_t* device, Module module, object program, object held,
        pyd_api_program_t** out_program) except? NULL:
    """Create the handle of a program, which keeps `module`, `program` and `held` alive.

    module: the loaded program. program: the pydispatch.Program around it. held: owners of its parameters' memory.
    """
    cdef pyd_api_owner_t kept
    cdef pyd_state_t* state
    owner = (module, program, held)
    kept.self, kept.drop = <void*>owner, drop_program
    state = (<State>module.state).state if module.state is not None else NULL
    status = pyd_api_program_make(device, module.program, state, kept, out_program)
    if status == NULL:
        Py_INCREF(owner)
        pyd_count(&live_programs, 1)
    return status


# ---- wrapping

cdef pyd_status_t wrap_device(object device, pyd_api_device_t** out_device) except? NULL:
    """Create a handle for a CPU device. Return UNSUPPORTED for another device, INVALID_ARGUMENT for another object."""
    sched, pool = getattr(device, "_sched", None), getattr(device, "_pool", None)
    if not isinstance(sched, Scheduler) or not isinstance(pool, Pool):
        text = f"expected a CPU device of pydispatch, got {type(device).__name__}".encode("utf-8", "backslashreplace")
        return pyd_status_make(
            PYD_CODE_UNSUPPORTED if hasattr(device, "load") else PYD_CODE_INVALID_ARGUMENT, "%s", <const char*>text)
    return make_device((sched, pool, device, {}), out_device)


cdef pyd_status_t wrap_program(
        object program, pyd_api_device_t* device, pyd_api_program_t** out_program, object held=None) except? NULL:
    """Create a handle for a pydispatch.Program on a CPU device.

    device: handle of its device; NULL creates a handle that cannot load programs or register functions. held: object to
    keep alive with the program. Raise InvalidArgumentError for another object or a closed program.
    """
    cdef Module module
    cdef pyd_status_t status
    cdef pyd_api_device_t* own = NULL
    found = getattr(program, "_module", None)
    if not isinstance(found, Module):
        raise InvalidArgumentError(f"expected a pydispatch.Program on a CPU device, got {type(program).__name__}")
    module = <Module>found
    if module.closed:
        raise InvalidArgumentError("the program was closed")
    if device != NULL:
        return make_program(device, module, program, held, out_program)
    status = make_device((module.sched, module.pool), &own)
    if status == NULL:
        status = make_program(own, module, program, held, out_program)
        pyd_api_device_release(own)  # the handle of the program has a reference
    return status


cdef tuple python_device(const pyd_api_device_t* device):
    """Return the owner of a device handle: scheduler, pool, device, and providers that were registered through it.

    Raise InvalidArgumentError for a handle without a device object.
    """
    owner = <object>pyd_api_device_owner(device)
    if len(owner) < 4:  # wrap_program() has created it
        raise InvalidArgumentError("this device came with a program; open one to load and to register on it")
    return owner


# ---- memory of the embedder

cdef class HeldMemory:
    """Owner of a reference to an embedder's memory handle, `memory`; array_over() sets it."""

    def __dealloc__(self):
        pyd_api_memory_release(self.memory)


cdef object array_over(pyd_api_memory_t* memory, HeldMemory held):
    """Return the elements of an embedder's memory handle, a parameter of a program, as a contiguous array.

    The array is a view of the memory if the elements are in row-major order without gaps, else a copy. held: receives a
    reference to the handle and releases it when it is freed. The array does not refer to `held`: the caller keeps
    `held` alive as long as the array. Raise InvalidArgumentError for elements of less than 8 bits.
    """
    cdef const memory_t* seen = <const memory_t*>memory
    kind = element_type(seen.dtype)
    shape = tuple([seen.dims[i] for i in range(seen.rank)])
    strides = tuple([seen.strides[i] for i in range(seen.rank)])
    pyd_api_retain(&(<memory_t*>memory).references)
    held.memory = memory
    if kind.packed:
        raise InvalidArgumentError(f"parameters of {kind.name} have to be given in a file")
    if seen.extent == 0:
        return np.empty(shape, kind.dtype)
    # With negative strides the first element is not at the lowest address.
    view = PyMemoryView_FromMemory(<char*>seen.lowest, <Py_ssize_t>seen.extent, PyBUF_READ)
    elements = np.ndarray(shape, kind.dtype, view, seen.first - seen.lowest, strides)  # offset in bytes, strides
    return np.ascontiguousarray(elements).reshape(shape)  # ascontiguousarray() gives an array of rank 0 the rank 1
