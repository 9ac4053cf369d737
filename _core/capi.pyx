"""The C function table for other extension modules, see pydispatch/api.h. `table` is the capsule that holds it.

What the table does without Python is in csrc/api. Here is the rest: making handles around the Python objects that
devices and programs are, and letting those go again, which takes the GIL for a moment.
"""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore, PyErr_SetInterrupt
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from pydispatch._core.c_pool cimport pyd_pool_t
from pydispatch._core.c_procedure cimport pyd_state_t
from pydispatch._core.c_program cimport pyd_program_t
from pydispatch._core.c_sched cimport pyd_sched_is_inside, pyd_sched_options_t, pyd_sched_t
from pydispatch._core.c_status cimport (
    PYD_CODE_INVALID_ARGUMENT,
    PYD_CODE_UNAVAILABLE,
    PYD_CODE_UNSUPPORTED,
    pyd_status_make,
    pyd_status_t,
)
from pydispatch._core.memory cimport Pool
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Scheduler
from pydispatch._core.signals cimport is_signalled
from pydispatch._core.state cimport State
from pydispatch._core.status cimport status_of
from pydispatch._core.task cimport drop_soon

import os
from importlib import import_module

from pydispatch._core.status import ArtifactError, InvalidArgumentError

cdef extern from "api/table.h" nogil:
    ctypedef struct pyd_api_owner_t:
        void* self
        void (*drop)(void* self) noexcept nogil
    pyd_status_t pyd_api_device_make(
        pyd_sched_t* sched, pyd_pool_t* pool, pyd_api_owner_t owner, pyd_api_device_t** out_device)
    pyd_status_t pyd_api_program_make(
        pyd_api_device_t* device, const pyd_program_t* program, pyd_state_t* state, pyd_api_owner_t owner,
        pyd_api_program_t** out_program)
    pyd_status_t pyd_api_read_device_options(
        const pyd_api_device_options_t* given, pyd_sched_options_t* out_options)
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
    cdef Scheduler sched
    if is_device:
        live_devices -= 1
        sched = (<tuple>owner)[0]
    else:
        live_programs -= 1
        sched = (<Module>(<tuple>owner)[0]).sched
    if pyd_sched_is_inside(sched.sched):  # a call in flight was the last to hold it, and this thread goes with it
        drop_soon(owner)
    else:
        Py_DECREF(<object>owner)


cdef pyd_status_t make_device(tuple owner, pyd_api_device_t** out_device) except? NULL:
    """owner: (Scheduler, Pool), or those with the device object and what was registered through the handle."""
    global live_devices
    cdef pyd_api_owner_t kept
    kept.self, kept.drop = <void*>owner, drop_device
    status = pyd_api_device_make((<Scheduler>owner[0]).sched, (<Pool>owner[1]).pool, kept, out_device)
    if status == NULL:
        Py_INCREF(owner)
        live_devices += 1
    return status


cdef pyd_status_t make_program(
        pyd_api_device_t* device, Module module, object program, pyd_api_program_t** out_program) except? NULL:
    global live_programs
    cdef pyd_api_owner_t kept
    cdef pyd_state_t* state
    owner = (module, program)
    kept.self, kept.drop = <void*>owner, drop_program
    state = (<State>module.state).state if module.state is not None else NULL
    status = pyd_api_program_make(device, module.program, state, kept, out_program)
    if status == NULL:
        Py_INCREF(owner)
        live_programs += 1
    return status


cdef pyd_status_t null(const char* function, const char* what) noexcept nogil:
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s is NULL", function, what)


# ---- what a slot asks of Python

cdef struct Request:
    const char* slot        # for messages
    const char* text        # a name or a path
    const void* data        # bytes, or a borrowed PyObject
    size_t size
    pyd_api_device_t* device
    pyd_plugin_fn_t function
    pyd_plugin_query_fn_t query
    void* context
    int32_t priority
    void (*release)(void*) noexcept
    void* owner
    uint64_t id
    pyd_api_device_t** out_device
    pyd_api_program_t** out_program

ctypedef pyd_status_t (*operation_t)(Request* request) except? NULL


cdef pyd_status_t perform(operation_t operation, Request* request) noexcept nogil:
    if not pyd_has_python():
        return pyd_status_make(
            PYD_CODE_UNAVAILABLE, "%s: the Python interpreter has ended or was never started", request.slot)
    return perform_with_gil(operation, request)


cdef pyd_status_t perform_with_gil(operation_t operation, Request* request) noexcept with gil:
    """An exception that the caller has set already is kept through it."""
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *trace = NULL
    cdef pyd_status_t status = NULL
    PyErr_Fetch(&kind, &value, &trace)
    try:
        status = operation(request)
    except BaseException as error:
        status = status_of(error, request.slot)
        if isinstance(error, KeyboardInterrupt):
            PyErr_SetInterrupt()  # raised where Python code runs next
    PyErr_Restore(kind, value, trace)
    return status


cdef pyd_status_t wrap_device(object device, pyd_api_device_t** out_device) except? NULL:
    sched, pool = getattr(device, "_sched", None), getattr(device, "_pool", None)
    if not isinstance(sched, Scheduler) or not isinstance(pool, Pool):
        text = f"expected a CPU device of pydispatch, got {type(device).__name__}".encode("utf-8", "backslashreplace")
        return pyd_status_make(
            PYD_CODE_UNSUPPORTED if hasattr(device, "load") else PYD_CODE_INVALID_ARGUMENT, "%s", <const char*>text)
    return make_device((sched, pool, device, {}), out_device)


cdef pyd_status_t wrap_program(
        object program, pyd_api_device_t* device, pyd_api_program_t** out_program) except? NULL:
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


cdef tuple python_device(const pyd_api_device_t* device):
    owner = <object>pyd_api_device_owner(device)
    if len(owner) < 4:
        raise InvalidArgumentError("this device came with a program; open one to load and to register on it")
    return owner


# What Python holds of a C function: the address, and whom to tell when nobody needs it any more.
cdef class HostFunction:
    cdef readonly object address
    cdef void (*release)(void*) noexcept
    cdef void* owner

    def __dealloc__(self):
        if self.release != NULL:
            self.release(self.owner)


cdef pyd_status_t open_device(Request* request) except? NULL:
    # The table is entered from outside, so the package on top of the core is asked for by name, when it is needed.
    return wrap_device(import_module("pydispatch").device(request.text.decode("utf-8")), request.out_device)


cdef pyd_status_t create_device(Request* request) except? NULL:
    cdef const pyd_sched_options_t* options = <const pyd_sched_options_t*>request.data
    sched = Scheduler(options.workers, options.spin_us, <uintptr_t>&options.threads)
    return wrap_device(import_module("pydispatch.runtime.devices.cpu").around(sched), request.out_device)


cdef pyd_status_t adopt_device(Request* request) except? NULL:
    return wrap_device(<object>request.data, request.out_device)


cdef pyd_status_t load_program(Request* request) except? NULL:
    if request.size > <size_t>(1 << 62):
        raise ArtifactError(f"an artifact cannot have {request.size} bytes")
    source = os.fsdecode(request.text) if request.text != NULL else (<const char*>request.data)[:request.size]
    return wrap_program(python_device(request.device)[2].load(source), request.device, request.out_program)


cdef pyd_status_t adopt_program(Request* request) except? NULL:
    return wrap_program(<object>request.data, NULL, request.out_program)


cdef pyd_status_t add_function(Request* request, str method) except? NULL:
    cdef HostFunction held = HostFunction()
    held.address = <uintptr_t>request.function
    device, registered = python_device(request.device)[2:]
    provider = getattr(device, method)(
        request.text.decode("utf-8"), held, <uintptr_t>request.context or None, priority=request.priority)
    registered[provider.id] = provider
    request.id = provider.id
    held.release, held.owner = request.release, request.owner
    return NULL


cdef pyd_status_t add_import(Request* request) except? NULL:
    return add_function(request, "add_import")


cdef pyd_status_t add_command(Request* request) except? NULL:
    return add_function(request, "add_command")


cdef pyd_status_t add_plugin(Request* request) except? NULL:
    from pydispatch._core.plugin import Plugin
    device, registered = python_device(request.device)[2:]
    plugin = Plugin.from_query(<uintptr_t><void*>request.query, request.text.decode("utf-8"))
    provider = device.add_plugin(plugin, priority=request.priority)
    registered[provider.id] = provider
    request.id = provider.id
    return NULL


cdef pyd_status_t remove_provider(Request* request) except? NULL:
    device, registered = python_device(request.device)[2:]
    if request.id not in registered:
        raise InvalidArgumentError(f"{request.slot.decode()}: {request.id} was not registered through this handle")
    device.remove_plugin(registered[request.id])
    del registered[request.id]
    return NULL


# ---- the slots

cdef Request request_of(const char* slot) noexcept nogil:
    cdef Request request
    memset(&request, 0, sizeof(request))
    request.slot = slot
    return request


cdef pyd_status_t device_open(const char* name, pyd_api_device_t** out_device) noexcept nogil:
    cdef Request request = request_of("device_open")
    if out_device == NULL:
        return null(request.slot, "out_device")
    out_device[0] = NULL
    if name == NULL:
        return null(request.slot, "name")
    request.text, request.out_device = name, out_device
    return perform(open_device, &request)


cdef pyd_status_t device_create(
        const pyd_api_device_options_t* options, pyd_api_device_t** out_device) noexcept nogil:
    cdef Request request = request_of("device_create")
    cdef pyd_sched_options_t read
    cdef pyd_status_t status
    if out_device == NULL:
        return null(request.slot, "out_device")
    out_device[0] = NULL
    status = pyd_api_read_device_options(options, &read)
    if status != NULL:
        return status
    request.data, request.out_device = &read, out_device
    return perform(create_device, &request)


cdef pyd_status_t device_from_python(void* device, pyd_api_device_t** out_device) noexcept nogil:
    cdef Request request = request_of("device_from_python")
    if out_device == NULL:
        return null(request.slot, "out_device")
    out_device[0] = NULL
    if device == NULL:
        return null(request.slot, "object")
    request.data, request.out_device = device, out_device
    return perform(adopt_device, &request)


cdef pyd_status_t load(Request* request, bint has_source) noexcept nogil:
    if request.out_program == NULL:
        return null(request.slot, "out_program")
    request.out_program[0] = NULL
    if request.device == NULL:
        return null(request.slot, "device")
    if not has_source:
        return null(request.slot, "path or data")
    return perform(load_program, request)


cdef pyd_status_t program_load_file(
        pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program) noexcept nogil:
    cdef Request request = request_of("program_load_file")
    request.device, request.text, request.out_program = device, path, out_program
    return load(&request, path != NULL)


cdef pyd_status_t program_load_bytes(
        pyd_api_device_t* device, const void* data, size_t size, pyd_api_program_t** out_program) noexcept nogil:
    cdef Request request = request_of("program_load_bytes")
    request.device, request.data, request.size, request.out_program = device, data, size, out_program
    return load(&request, data != NULL)


cdef pyd_status_t program_from_python(void* program, pyd_api_program_t** out_program) noexcept nogil:
    cdef Request request = request_of("program_from_python")
    if out_program == NULL:
        return null(request.slot, "out_program")
    out_program[0] = NULL
    if program == NULL:
        return null(request.slot, "object")
    request.data, request.out_program = program, out_program
    return perform(adopt_program, &request)


cdef pyd_status_t register(
        operation_t operation, Request* request, pyd_api_device_t* device, const char* name, bint has_function,
        int32_t priority, uint64_t* out_id) noexcept nogil:
    cdef pyd_status_t status
    if out_id != NULL:
        out_id[0] = 0
    if device == NULL or name == NULL or not has_function:
        return null(request.slot, "device, name or function")
    request.device, request.text, request.priority = device, name, priority
    status = perform(operation, request)
    if status == NULL and out_id != NULL:
        out_id[0] = request.id
    return status


cdef pyd_status_t device_add_import(
        pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function, void* context, int32_t priority,
        void (*release)(void*) noexcept, void* owner, uint64_t* out_id) noexcept nogil:
    cdef Request request = request_of("device_add_import")
    request.function, request.context, request.release, request.owner = function, context, release, owner
    return register(add_import, &request, device, name, <void*>function != NULL, priority, out_id)


cdef pyd_status_t device_add_command(
        pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function, void* context, int32_t priority,
        void (*release)(void*) noexcept, void* owner, uint64_t* out_id) noexcept nogil:
    cdef Request request = request_of("device_add_command")
    request.function, request.context, request.release, request.owner = function, context, release, owner
    return register(add_command, &request, device, name, <void*>function != NULL, priority, out_id)


cdef pyd_status_t device_add_plugin(
        pyd_api_device_t* device, const char* name, pyd_plugin_query_fn_t query, int32_t priority,
        uint64_t* out_id) noexcept nogil:
    cdef Request request = request_of("device_add_plugin")
    request.query = query
    return register(add_plugin, &request, device, name, <void*>query != NULL, priority, out_id)


cdef pyd_status_t device_remove_provider(pyd_api_device_t* device, uint64_t id) noexcept nogil:
    cdef Request request = request_of("device_remove_provider")
    if device == NULL:
        return null(request.slot, "device")
    request.device, request.id = device, id
    return perform(remove_provider, &request)


cdef int32_t watch_signals(void* context) noexcept nogil:
    return is_signalled(context) if pyd_has_python() else 0


pyd_api_fill(&TABLE)
TABLE.device_open = device_open
TABLE.device_create = device_create
TABLE.device_from_python = device_from_python
TABLE.program_load_file = program_load_file
TABLE.program_load_bytes = program_load_bytes
TABLE.program_from_python = program_from_python
TABLE.device_add_import = device_add_import
TABLE.device_add_plugin = device_add_plugin
TABLE.device_remove_provider = device_remove_provider
TABLE.is_signalled = watch_signals
TABLE.device_add_command = device_add_command

table = PyCapsule_New(&TABLE, PYD_API_CAPSULE, NULL)
