"""The C function table for other extension modules, see pydispatch/api.h. `table` is the capsule with its address.

The functions that do not need Python are in csrc/api. The others are here and take the GIL briefly.
"""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore, PyErr_SetInterrupt
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from pydispatch._core.c_allocator cimport pyd_allocator_t
from pydispatch._core.c_sched cimport pyd_sched_options_t
from pydispatch._core.c_status cimport PYD_CODE_INVALID_ARGUMENT, PYD_CODE_UNAVAILABLE, pyd_status_make, pyd_status_t
from pydispatch._core.c_table cimport pyd_api_check_load, pyd_api_fill, pyd_api_read_device_options
from pydispatch._core.handles cimport (
    HeldMemory,
    array_over,
    live_handles,
    python_device,
    wrap_device,
    wrap_program,
)
from pydispatch._core.interpreter cimport pyd_has_python
from pydispatch._core.signals cimport is_signalled
from pydispatch._core.status cimport status_of

import os
from importlib import import_module

from pydispatch._core.sched import Scheduler
from pydispatch._core.status import ArtifactError, InvalidArgumentError

cdef pyd_api_t TABLE  # written once, below


cdef const pyd_api_t* api() noexcept nogil:
    """Return the table for extension modules that cimport this function; it is valid as long as the process."""
    return &TABLE


def handles():
    """Return the numbers of (devices, programs) that C code has handles of; a program counts once per handle."""
    return live_handles()


cdef pyd_status_t null(const char* function, const char* what) noexcept nogil:
    """Return an INVALID_ARGUMENT status: argument `what` of the table's `function` is NULL, but must not be."""
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s is NULL", function, what)


# ---- operations of slots that need the GIL

# The arguments and the outcome of one such operation. A slot is a function pointer of the table; each operation reads
# and writes only some members.
cdef struct Request:
    const char* slot        # name of the slot, for messages
    const char* text        # name of a device, import, command or plugin
    const void* data        # options, or a borrowed PyObject
    pyd_api_device_t* device
    pyd_plugin_fn_t function
    pyd_plugin_query_fn_t query
    void* context
    int32_t priority
    void (*release)(void*) noexcept nogil
    void* owner
    uint64_t id
    pyd_api_device_t** out_device
    pyd_api_program_t** out_program

ctypedef pyd_status_t (*operation_t)(Request* request) except? NULL


cdef pyd_status_t perform(operation_t operation, Request* request) noexcept nogil:
    """Run an operation with the GIL and return its status. Return UNAVAILABLE if the interpreter is not running."""
    if not pyd_has_python():
        return pyd_status_make(
            PYD_CODE_UNAVAILABLE, "%s: the Python interpreter has ended or was never started", request.slot)
    return perform_with_gil(operation, request)


cdef pyd_status_t perform_with_gil(operation_t operation, Request* request) noexcept with gil:
    """Run an operation and return its status, or that of its exception.

    An exception that is already set in the calling thread is set again afterwards.
    """
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
            PyErr_SetInterrupt()  # C callers may drop the status: raise Ctrl-C again where Python code runs next
    PyErr_Restore(kind, value, trace)
    return status


cdef class HostFunction:
    """Registered C function. Deallocation, once nothing uses the function, calls release(owner) unless it is NULL."""

    cdef readonly object address
    cdef void (*release)(void*) noexcept nogil
    cdef void* owner

    def __dealloc__(self):
        if self.release != NULL:
            self.release(self.owner)


cdef pyd_status_t open_device(Request* request) except? NULL:
    """Open a device by name."""
    # Imported on use, since the core must not depend on the package on top of it.
    return wrap_device(import_module("pydispatch").device(request.text.decode("utf-8")), request.out_device)


cdef pyd_status_t create_device(Request* request) except? NULL:
    """Create a CPU device with the options of an embedder. data: pyd_sched_options_t; context: pyd_allocator_t."""
    cdef const pyd_sched_options_t* options = <const pyd_sched_options_t*>request.data
    sched = Scheduler(options.workers, options.spin_us, <uintptr_t>&options.threads)
    cpu = import_module("pydispatch.runtime.devices.cpu")
    return wrap_device(cpu.around(sched, <uintptr_t>request.context), request.out_device)


cdef pyd_status_t adopt_device(Request* request) except? NULL:
    """Create a handle for an existing Python device, the PyObject in `data`."""
    return wrap_device(<object>request.data, request.out_device)


cdef pyd_status_t load_program(Request* request) except? NULL:
    """Load a program from a file, or from memory if no path is given, with the pyd_api_load_t in `data`."""
    cdef const pyd_api_load_t* options = <const pyd_api_load_t*>request.data
    if options.size > <size_t>(1 << 62):  # the slice below would treat a size above PY_SSIZE_T_MAX as negative
        raise ArtifactError(f"an artifact cannot have {options.size} bytes")
    source = os.fsdecode(options.path) if options.path != NULL else (<const char*>options.data)[:options.size]
    held = []  # owners of the memory of parameters, which the handle keeps alive
    program = python_device(request.device)[2].load(source, parameters_of(options, held))
    return wrap_program(program, request.device, request.out_program, held)


cdef dict parameters_of(const pyd_api_load_t* options, list held):
    """Return the parameters for `load`, or None if there are none.

    The dict has for each scope a list: first a dict from keys to arrays, then the paths of its parameter files. held:
    receives the owners of the arrays' memory.
    """
    cdef uint32_t i
    cdef HeldMemory memory
    sources = {}
    for i in range(options.parameter_count):
        given = &options.parameters[i]
        if given.scope == NULL or given.key == NULL or given.memory == NULL:
            raise InvalidArgumentError("program_load: the scope, key or memory of a parameter is NULL")
        memory = HeldMemory()
        arrays = sources.setdefault(given.scope.decode("utf-8"), [{}])[0]
        arrays.setdefault(given.key.decode("utf-8"), array_over(given.memory, memory))
        held.append(memory)
    for i in range(options.file_count):
        if options.files[i].scope == NULL or options.files[i].path == NULL:
            raise InvalidArgumentError("program_load: the scope or path of a file is NULL")
        sources.setdefault(options.files[i].scope.decode("utf-8"), []).append(os.fsdecode(options.files[i].path))
    return sources or None


cdef pyd_status_t adopt_program(Request* request) except? NULL:
    """Create a handle for an existing Python program, the PyObject in `data`."""
    return wrap_program(<object>request.data, NULL, request.out_program)


cdef pyd_status_t add_function(Request* request, str method) except? NULL:
    """Register a C function as a provider of an import or command, and store its identifier in the request.

    method: name of the device's method that registers it, "add_import" or "add_command".
    """
    cdef HostFunction held = HostFunction()
    held.address = <uintptr_t>request.function
    device, registered = python_device(request.device)[2:]  # registered: provider of each id
    provider = getattr(device, method)(
        request.text.decode("utf-8"), held, <uintptr_t>request.context or None, priority=request.priority)
    registered[provider.id] = provider
    request.id = provider.id
    held.release, held.owner = request.release, request.owner  # last: not called if the registration fails
    return NULL


cdef pyd_status_t add_import(Request* request) except? NULL:
    """Register the C function of the request for an imported symbol, and store its provider's id in the request."""
    return add_function(request, "add_import")


cdef pyd_status_t add_command(Request* request) except? NULL:
    """Register the C function of the request as a host command, and store its provider's id in the request."""
    return add_function(request, "add_command")


cdef pyd_status_t add_plugin(Request* request) except? NULL:
    """Register a plugin by its query function."""
    from pydispatch._core.plugin import Plugin
    device, registered = python_device(request.device)[2:]  # registered: provider of each id
    plugin = Plugin.from_query(<uintptr_t><void*>request.query, request.text.decode("utf-8"))
    provider = device.add_plugin(plugin, priority=request.priority)
    registered[provider.id] = provider
    request.id = provider.id
    return NULL


cdef pyd_status_t remove_provider(Request* request) except? NULL:
    """Remove a plugin, import or command, the provider `request.id`, which was added through this handle."""
    device, registered = python_device(request.device)[2:]  # registered: provider of each id
    if request.id not in registered:
        raise InvalidArgumentError(f"{request.slot.decode()}: {request.id} was not registered through this handle")
    device.remove_plugin(registered[request.id])
    del registered[request.id]
    return NULL


# ---- the slots, as pydispatch/api.h describes them

cdef Request request_of(const char* slot) noexcept nogil:
    """Return a request for the function of the table that is named `slot`; all other members are zero."""
    cdef Request request
    memset(&request, 0, sizeof(request))
    request.slot = slot
    return request


cdef pyd_status_t device_open(const char* name, pyd_api_device_t** out_device) noexcept nogil:
    """Open the device with this name, as pydispatch.device() does, and store a handle of it."""
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
    """Create a CPU device with the threads and the allocator of an embedder, and store a handle of it."""
    cdef Request request = request_of("device_create")
    cdef pyd_sched_options_t read
    cdef pyd_allocator_t allocator
    cdef pyd_status_t status
    if out_device == NULL:
        return null(request.slot, "out_device")
    out_device[0] = NULL
    status = pyd_api_read_device_options(options, &read, &allocator)
    if status != NULL:
        return status
    request.data, request.context, request.out_device = &read, &allocator, out_device  # the device copies both
    return perform(create_device, &request)


cdef pyd_status_t device_from_python(void* device, pyd_api_device_t** out_device) noexcept nogil:
    """Store a handle of a Python device object. device: a borrowed PyObject."""
    cdef Request request = request_of("device_from_python")
    if out_device == NULL:
        return null(request.slot, "out_device")
    out_device[0] = NULL
    if device == NULL:
        return null(request.slot, "object")
    request.data, request.out_device = device, out_device
    return perform(adopt_device, &request)


cdef pyd_status_t load(
        const char* slot, pyd_api_device_t* device, const pyd_api_load_t* options,
        pyd_api_program_t** out_program) noexcept nogil:
    """Load a program for the table's function named `slot`, after checking its arguments.

    Like all slots, store NULL in `out_program` on failure.
    """
    cdef Request request = request_of(slot)
    cdef pyd_status_t status
    if out_program == NULL:
        return null(slot, "out_program")
    out_program[0] = NULL
    if device == NULL:
        return null(slot, "device")
    status = pyd_api_check_load(slot, options)
    if status != NULL:
        return status
    request.device, request.data, request.out_program = device, options, out_program
    return perform(load_program, &request)


cdef pyd_api_load_t load_options() noexcept nogil:
    """Return options for `load` that state nothing but the size of the structure."""
    cdef pyd_api_load_t options
    memset(&options, 0, sizeof(options))
    options.struct_size = sizeof(options)
    return options


cdef pyd_status_t program_load_file(
        pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program) noexcept nogil:
    """Load the artifact at a path, without parameters, and store a handle of the program."""
    cdef pyd_api_load_t options = load_options()
    options.path = path
    return load("program_load_file", device, &options, out_program)


cdef pyd_status_t program_load_bytes(
        pyd_api_device_t* device, const void* data, size_t size, pyd_api_program_t** out_program) noexcept nogil:
    """Load an artifact in memory, without parameters, and store a handle of the program."""
    cdef pyd_api_load_t options = load_options()
    options.data, options.size = data, size
    return load("program_load_bytes", device, &options, out_program)


cdef pyd_status_t program_load(
        pyd_api_device_t* device, const pyd_api_load_t* options, pyd_api_program_t** out_program) noexcept nogil:
    """Load an artifact, a file or in memory, with parameters, and store a handle of the program."""
    return load("program_load", device, options, out_program)


cdef pyd_status_t program_from_python(void* program, pyd_api_program_t** out_program) noexcept nogil:
    """Store a handle of a Python pydispatch.Program. program: a borrowed PyObject."""
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
    """Check the arguments that the API functions which register a provider share, and run `operation` on `request`.

    The caller has stored its C function with its context and owner in `request`, and the name of the API function in
    `request.slot`. name: of the import, command or plugin. has_function: whether the C function is not NULL. out_id:
    receives the provider's id, 0 after a failure; may be NULL.
    """
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
        void (*release)(void*) noexcept nogil, void* owner, uint64_t* out_id) noexcept nogil:
    """Register a C function for an imported symbol of programs that the device loads afterwards.

    context: passed to each call of `function` as its context. release(owner) is called when nothing needs the function
    any more, but not after a failure. name, priority, out_id: as in pydispatch/api.h.
    """
    cdef Request request = request_of("device_add_import")
    request.function, request.context, request.release, request.owner = function, context, release, owner
    return register(add_import, &request, device, name, <void*>function != NULL, priority, out_id)


cdef pyd_status_t device_add_command(
        pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function, void* context, int32_t priority,
        void (*release)(void*) noexcept nogil, void* owner, uint64_t* out_id) noexcept nogil:
    """Register a C function as a host command. The parameters are those of device_add_import()."""
    cdef Request request = request_of("device_add_command")
    request.function, request.context, request.release, request.owner = function, context, release, owner
    return register(add_command, &request, device, name, <void*>function != NULL, priority, out_id)


cdef pyd_status_t device_add_plugin(
        pyd_api_device_t* device, const char* name, pyd_plugin_query_fn_t query, int32_t priority,
        uint64_t* out_id) noexcept nogil:
    """Register a plugin by its query function. The other parameters are those of device_add_import()."""
    cdef Request request = request_of("device_add_plugin")
    request.query = query
    return register(add_plugin, &request, device, name, <void*>query != NULL, priority, out_id)


cdef pyd_status_t device_remove_provider(pyd_api_device_t* device, uint64_t id) noexcept nogil:
    """Remove the import, command or plugin that was registered through this handle and has this `id`."""
    cdef Request request = request_of("device_remove_provider")
    if device == NULL:
        return null(request.slot, "device")
    request.device, request.id = device, id
    return perform(remove_provider, &request)


cdef int32_t watch_signals(void* context) noexcept nogil:
    """Return nonzero if a Python signal handler raised; its exception stays set in the thread.

    The table has it as `is_signalled`, which C code stores as `is_wanted` of a pyd_api_interrupt_t: signals such as
    Ctrl-C then end a call. context: a uint64_t, 0 when the call begins, that receives the time of each check.
    """
    return is_signalled(context) if pyd_has_python() else 0


pyd_api_fill(&TABLE)
TABLE.device_open = device_open
TABLE.device_create = device_create
TABLE.device_from_python = device_from_python
TABLE.program_load_file = program_load_file
TABLE.program_load_bytes = program_load_bytes
TABLE.program_load = program_load
TABLE.program_from_python = program_from_python
TABLE.device_add_import = device_add_import
TABLE.device_add_plugin = device_add_plugin
TABLE.device_remove_provider = device_remove_provider
TABLE.is_signalled = watch_signals
TABLE.device_add_command = device_add_command

table = PyCapsule_New(&TABLE, PYD_API_CAPSULE, NULL)
