"""The C function table for other extension modules, see pydispatch/api.h. `table` is the capsule that holds it.

What the table does without Python is in csrc/api. Here is the rest: making handles around the Python objects that
devices and programs are, and letting those go again, which takes the GIL for a moment.
"""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore, PyErr_SetInterrupt
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF

from pydispatch._core.c_pool cimport pyd_pool_t
from pydispatch._core.c_program cimport pyd_program_t
from pydispatch._core.c_sched cimport pyd_sched_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Scheduler

import os
from importlib import import_module

from pydispatch._core.status import CODES, ArtifactError, InvalidArgumentError

cdef extern from "pydispatch/status.h" nogil:
    pyd_status_t pyd_status_make(int code, const char* format, ...)
    int PYD_CODE_INVALID_ARGUMENT, PYD_CODE_UNSUPPORTED, PYD_CODE_UNAVAILABLE, PYD_CODE_OUT_OF_MEMORY, PYD_CODE_SYSTEM
    int PYD_CODE_INTERNAL

cdef extern from "api/table.h" nogil:
    ctypedef struct pyd_api_owner_t:
        void* self
        void (*drop)(void* self) noexcept nogil
    pyd_status_t pyd_api_device_make(
        pyd_sched_t* sched, pyd_pool_t* pool, pyd_api_owner_t owner, pyd_api_device_t** out_device)
    pyd_status_t pyd_api_program_make(
        pyd_api_device_t* device, const pyd_program_t* program, pyd_api_owner_t owner,
        pyd_api_program_t** out_program)
    void* pyd_api_device_owner(const pyd_api_device_t* device)
    void pyd_api_fill(pyd_api_t* out_table)
    const char* PYD_API_CAPSULE

# Whether Python code can be run by this thread: not before the interpreter is there, and not while it ends, unless the
# thread is the one that ends it. (Waiting for the GIL then would end or hang the thread.)
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define PYD_IS_FINALIZING() Py_IsFinalizing()
    #else
    #define PYD_IS_FINALIZING() _Py_IsFinalizing()
    #endif
    static int pyd_has_python(void) {
      return Py_IsInitialized() && (!PYD_IS_FINALIZING() || PyGILState_Check());
    }
    """
    bint pyd_has_python() nogil

cdef pyd_api_t TABLE  # written once, below
cdef Py_ssize_t live_devices = 0   # owners that handles hold; the GIL guards both
cdef Py_ssize_t live_programs = 0


cdef const pyd_api_t* api() noexcept nogil:
    return &TABLE


def handles():
    """(devices, programs) that C code holds, a program for each handle that was made and counting its calls as one."""
    return live_devices, live_programs


# ---- owners: a tuple of what a handle keeps alive

cdef void drop_device(void* owner) noexcept nogil:
    if pyd_has_python():
        drop_with_gil(owner, True)


cdef void drop_program(void* owner) noexcept nogil:
    if pyd_has_python():
        drop_with_gil(owner, False)


cdef void drop_with_gil(void* owner, bint is_device) noexcept with gil:
    global live_devices, live_programs
    if is_device:
        live_devices -= 1
    else:
        live_programs -= 1
    Py_DECREF(<object>owner)


cdef pyd_status_t make_device(tuple owner, pyd_api_device_t** out_device):
    """owner: (Scheduler, Pool, object...)."""
    global live_devices
    cdef pyd_api_owner_t kept
    kept.self, kept.drop = <void*>owner, drop_device
    status = pyd_api_device_make((<Scheduler>owner[0]).sched, (<Pool>owner[1]).pool, kept, out_device)
    if status == NULL:
        Py_INCREF(owner)
        live_devices += 1
    return status


cdef pyd_status_t make_program(
        pyd_api_device_t* device, Module module, object program, pyd_api_program_t** out_program):
    global live_programs
    cdef pyd_api_owner_t kept
    owner = (module, program)
    kept.self, kept.drop = <void*>owner, drop_program
    status = pyd_api_program_make(device, module.program, kept, out_program)
    if status == NULL:
        Py_INCREF(owner)
        live_programs += 1
    return status


# ---- what Python raised, as a status

cdef int code_of(error) except -1:
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


cdef pyd_status_t status_of(error):
    code = code_of(error)
    text = str(error) if code != PYD_CODE_INTERNAL else f"{type(error).__name__}: {error}"
    encoded = text.encode("utf-8", "replace").replace(b"\0", b"?")
    if isinstance(error, KeyboardInterrupt):
        PyErr_SetInterrupt()  # raised where Python code runs next
    return pyd_status_make(code, "%s", <const char*>encoded)


cdef pyd_status_t no_python(const char* function) noexcept nogil:
    return pyd_status_make(PYD_CODE_UNAVAILABLE, "%s: the Python interpreter has ended or was never started", function)


cdef pyd_status_t null(const char* function, const char* what) noexcept nogil:
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s is NULL", function, what)


# ---- the Python side of a slot: (what was asked for, ...) -> handle. An exception of the caller's is kept through it.

cdef pyd_status_t wrap_device(object device, pyd_api_device_t** out_device):
    sched, pool = getattr(device, "_sched", None), getattr(device, "_pool", None)
    if not isinstance(sched, Scheduler) or not isinstance(pool, Pool):
        text = f"expected a CPU device of pydispatch, got {type(device).__name__}".encode()
        return pyd_status_make(
            PYD_CODE_UNSUPPORTED if hasattr(device, "load") else PYD_CODE_INVALID_ARGUMENT, "%s", <const char*>text)
    return make_device((sched, pool, device), out_device)


cdef pyd_status_t wrap_program(object program, pyd_api_device_t* device, pyd_api_program_t** out_program):
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
        return make_program(device, module, program, out_program)
    status = make_device((module.sched, module.pool), &own)
    if status == NULL:
        status = make_program(own, module, program, out_program)
        TABLE.device_release(own)  # the program holds it
    return status


cdef pyd_status_t device_open_with_gil(const char* name, pyd_api_device_t** out_device) noexcept with gil:
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *trace = NULL
    cdef pyd_status_t status = NULL
    PyErr_Fetch(&kind, &value, &trace)
    try:
        # The table is entered from outside, so the package on top of the core is asked for by name, when it is needed.
        status = wrap_device(import_module("pydispatch").device(name.decode("utf-8")), out_device)
    except BaseException as error:
        status = status_of(error)
    PyErr_Restore(kind, value, trace)
    return status


cdef pyd_status_t device_from_python_with_gil(void* device, pyd_api_device_t** out_device) noexcept with gil:
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *trace = NULL
    cdef pyd_status_t status = NULL
    PyErr_Fetch(&kind, &value, &trace)
    try:
        status = wrap_device(<object>device, out_device)
    except BaseException as error:
        status = status_of(error)
    PyErr_Restore(kind, value, trace)
    return status


cdef pyd_status_t load_with_gil(
        pyd_api_device_t* device, const char* path, const char* data, size_t size,
        pyd_api_program_t** out_program) noexcept with gil:
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *trace = NULL
    cdef pyd_status_t status = NULL
    PyErr_Fetch(&kind, &value, &trace)
    try:
        owner = <object>pyd_api_device_owner(device)
        if len(owner) < 3:
            raise InvalidArgumentError("this device came with a program; open one to load others on it")
        if size > <size_t>(1 << 62):
            raise ArtifactError(f"an artifact cannot have {size} bytes")
        source = os.fsdecode(path) if path != NULL else data[:size]
        status = wrap_program(owner[2].load(source), device, out_program)
    except BaseException as error:
        status = status_of(error)
    PyErr_Restore(kind, value, trace)
    return status


cdef pyd_status_t program_from_python_with_gil(void* program, pyd_api_program_t** out_program) noexcept with gil:
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *trace = NULL
    cdef pyd_status_t status = NULL
    PyErr_Fetch(&kind, &value, &trace)
    try:
        status = wrap_program(<object>program, NULL, out_program)
    except BaseException as error:
        status = status_of(error)
    PyErr_Restore(kind, value, trace)
    return status


# ---- the slots

cdef pyd_status_t device_open(const char* name, pyd_api_device_t** out_device) noexcept nogil:
    if out_device == NULL:
        return null("device_open", "out_device")
    out_device[0] = NULL
    if name == NULL:
        return null("device_open", "name")
    if not pyd_has_python():
        return no_python("device_open")
    return device_open_with_gil(name, out_device)


cdef pyd_status_t device_from_python(void* device, pyd_api_device_t** out_device) noexcept nogil:
    if out_device == NULL:
        return null("device_from_python", "out_device")
    out_device[0] = NULL
    if device == NULL:
        return null("device_from_python", "object")
    if not pyd_has_python():
        return no_python("device_from_python")
    return device_from_python_with_gil(device, out_device)


cdef pyd_status_t load(
        const char* function, pyd_api_device_t* device, const char* path, const char* data, size_t size,
        pyd_api_program_t** out_program) noexcept nogil:
    if out_program == NULL:
        return null(function, "out_program")
    out_program[0] = NULL
    if device == NULL:
        return null(function, "device")
    if path == NULL and data == NULL:
        return null(function, "path or data")
    if not pyd_has_python():
        return no_python(function)
    return load_with_gil(device, path, data, size, out_program)


cdef pyd_status_t program_load_file(
        pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program) noexcept nogil:
    return load("program_load_file", device, path, NULL, 0, out_program)


cdef pyd_status_t program_load_bytes(
        pyd_api_device_t* device, const void* data, size_t size, pyd_api_program_t** out_program) noexcept nogil:
    return load("program_load_bytes", device, NULL, <const char*>data, size, out_program)


cdef pyd_status_t program_from_python(void* program, pyd_api_program_t** out_program) noexcept nogil:
    if out_program == NULL:
        return null("program_from_python", "out_program")
    out_program[0] = NULL
    if program == NULL:
        return null("program_from_python", "object")
    if not pyd_has_python():
        return no_python("program_from_python")
    return program_from_python_with_gil(program, out_program)


pyd_api_fill(&TABLE)
TABLE.device_open = device_open
TABLE.device_from_python = device_from_python
TABLE.program_load_file = program_load_file
TABLE.program_load_bytes = program_load_bytes
TABLE.program_from_python = program_from_python

table = PyCapsule_New(&TABLE, PYD_API_CAPSULE, NULL)
