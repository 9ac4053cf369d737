"""Programs on devices that run plans by themselves, such as GPUs.

A device links each executable with `link_executable`. Its `Runner` runs all calls that are made through NumPy memory;
`DeviceFunction` prepares calls of functions on its own memory.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from pydispatch._core.arrays cimport ElementType, packed_of
from pydispatch._core.binding cimport input_array, wrong_scalar
from pydispatch._core.c_pool cimport c_bool, pyd_poison_requested
from pydispatch._core.c_program cimport pyd_call_t, pyd_plan_command_count, pyd_plan_t, pyd_program_function_t
from pydispatch._core.c_program_device cimport *
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.function cimport Function
from pydispatch._core.numpy_arrays cimport PyArrayObject, PyArray_DIMS
from pydispatch._core.plan cimport Plan
from pydispatch._core.plan_data cimport PlanData, plan_data
from pydispatch._core.program cimport Module, text_of
from pydispatch._core.status cimport check, status_of

cimport numpy as cnp

from pydispatch._core.commands import BufferKind, Export
from pydispatch._core.status import Error

cnp.import_array()

cdef extern from "Python.h":
    void PyErr_SetObject(object kind, object value) noexcept
    unsigned long PyThread_get_thread_ident() noexcept nogil

cdef enum:
    INLINE_WORDS = 128  # sizes and numbers of a call that need no allocation
    MAX_PLANS = 64  # plans that a Runner caches as PlanData; more take memory, fewer are converted again

# Kinds of buffers whose memory the caller supplies; the device supplies the memory of other kinds.
cdef tuple MEMORY_OF_CALLS = (BufferKind.ARGUMENT, BufferKind.RESULT)


def link_executable(Module module not None, uint32_t index, uint32_t variant, uint32_t alignment):
    """Tell the program that the device has loaded `variant` of executable `index`; both are numbers from 0.

    alignment: bytes, a power of two, to which host code aligns the buffers that it binds.
    """
    check(pyd_program_set_device_executable(module.program, index, variant, alignment))


def exports_of(Module module not None, uint32_t executable):
    """Return a list with a commands.Export for every export of an executable that host code dispatches."""
    cdef pyd_export_info_t info
    cdef uint32_t i
    exports = []
    for i in range(pyd_program_export_count(module.program)):
        pyd_program_export(module.program, i, &info)
        if info.executable == executable:
            exports.append(Export(info.ordinal, text_of(info.name), info.constant_count, info.binding_count))
    return exports


def constant_bytes(Module module not None, uint32_t index):
    """Return a read-only memoryview of the bytes of constant number `index`, valid as long as the module."""
    cdef pyd_span_t span = pyd_program_constant_bytes(module.program, index)
    return memory_at(<uintptr_t>span.data, span.size, False)


def poison_requested():
    """Return whether the environment requests that devices fill memory before it is used (PYDISPATCH_CHECK=poison).

    It makes reads of uninitialized memory visible. Raise InvalidArgumentError for another value of the variable.
    """
    cdef c_bool requested = False
    check(pyd_poison_requested(&requested))
    return requested


def memory_at(uintptr_t address, size_t size, bint writable):
    """Return a memoryview of `size` bytes at an address, which the caller keeps alive; read-only unless `writable`."""
    if not size:  # a Cython view cannot be empty, and the address may be 0
        return memoryview(bytearray() if writable else b"")
    cdef const unsigned char[::1] fixed
    cdef unsigned char[::1] changing
    if writable:
        changing = <unsigned char[:size]>(<unsigned char*>address)
        return memoryview(changing)
    fixed = <const unsigned char[:size]>(<const unsigned char*>address)
    return memoryview(fixed)


@cython.final
@cython.no_gc_clear
cdef class Runner:
    """Adapter through which a Python device runs the calls of a program and supplies the memory of its procedures.

    A procedure is a function with control flow on the host; its tensors are in memory of the device while it runs. The
    adapter calls these methods of the device; their exceptions reach the caller of the program:

    - run_addresses(data, constants, patterns, addresses) runs a call on host memory. data: a PlanData. constants: the
      32-bit constants of this call, as bytes. patterns: for each command of `data.commands` the pattern of a fill, 0
      for others. addresses: for each buffer of the plan the host address of an argument or result, 0 for other buffers
      and for unused ones.
    - run_blocks(data, constants, patterns, blocks) runs a call on memory of the device. blocks: for each buffer an
      object that represents its memory, or None; an argument and a result may share one.
    - acquire(bytes) and constant_memory(index) return such objects.
    - copy(source, at, target, to, bytes), read(source, at, address, bytes) and write(target, address, bytes) copy
      between two blocks, from a block to host memory, and from host memory to the begin of a block. at, to: offsets in
      the source and target block, in bytes.
    """

    cdef object device
    cdef dict plans  # (function, sizes, scalars) of a plan -> PlanData; at most MAX_PLANS

    def __init__(self, Module module not None, device):
        """Let the program run its calls and get memory through `device`, by the C callbacks of this module."""
        cdef pyd_runner_t runner
        cdef pyd_device_memory_t memory
        self.device, self.plans = device, {}
        runner.run, runner.self = run_call, <void*>self
        memory.self = <void*>self
        memory.run, memory.acquire, memory.constant, memory.release = run_blocks, acquire, constant, release
        memory.copy, memory.read, memory.write = copy, read, write
        module.hold(self)  # the program stores the address of this object
        pyd_program_set_runner(module.program, runner)
        pyd_program_set_device_memory(module.program, memory)


cdef pyd_status_t run_call(void* context, pyd_call_t* call) noexcept with gil:
    """Run a call on host memory; the C callback of the runner. context: the Runner.

    An exception that is not an Exception, such as KeyboardInterrupt, stays set besides the status, so that the caller
    raises it unchanged.
    """
    cdef pyd_status_t status
    ending = None
    try:
        run_on_device(<Runner>context, call, False)
        return NULL
    except BaseException as error:
        status = status_of(error, "a device's program")
        if not isinstance(error, Exception):
            ending = error
    if ending is not None:
        PyErr_SetObject(type(ending), ending)  # raised where the status is converted to an exception
    return status


cdef pyd_status_t failed(void* context, object error):
    """Return the status of an exception that the device raised for a procedure, and store the exception.

    The C core passes on only the status. The Python caller of the procedure raises the exception, which it takes from
    the device's dict `raised`, where the key is the identifier of this thread. context: the Runner.
    """
    (<Runner>context).device.raised[PyThread_get_thread_ident()] = error
    return status_of(error, "a device's program")


cdef pyd_status_t run_blocks(void* context, pyd_call_t* call) noexcept with gil:
    """Run a call on device memory; a C callback of the runner. context: the Runner."""
    try:
        run_on_device(<Runner>context, call, True)
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef pyd_status_t acquire(void* context, uint64_t size, void** out_block) noexcept with gil:
    """Acquire a block of at least `size` bytes from the Python device; a C callback. context: the Runner."""
    try:
        block = (<Runner>context).device.acquire(size)  # a Python object that represents device memory
        Py_INCREF(block)  # until release()
        out_block[0] = <void*>block
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef pyd_status_t constant(void* context, uint32_t index, void** out_block) noexcept with gil:
    """Acquire the block that holds constant number `index` of the program. context: the Runner."""
    try:
        block = (<Runner>context).device.constant_memory(index)
        Py_INCREF(block)  # until release()
        out_block[0] = <void*>block
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef void release(void* context, void* block) noexcept with gil:
    """Release the reference to a block that acquire() or constant() has returned. context: the Runner."""
    Py_DECREF(<object>block)


cdef pyd_status_t copy(
        void* context, void* source, uint64_t at, void* target, uint64_t to, uint64_t size) noexcept with gil:
    """Copy `size` bytes from offset `at` of block `source` to offset `to` of block `target`. context: the Runner."""
    try:
        (<Runner>context).device.copy(<object>source, at, <object>target, to, size)
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef pyd_status_t read(void* context, void* block, uint64_t at, void* target, uint64_t size) noexcept with gil:
    """Copy `size` bytes from offset `at` of a block to host memory at `target`. context: the Runner."""
    try:
        (<Runner>context).device.read(<object>block, at, <uintptr_t>target, size)
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef pyd_status_t write(void* context, void* block, const void* source, uint64_t size) noexcept with gil:
    """Copy `size` bytes from host memory at `source` to the begin of a block. context: the Runner."""
    try:
        (<Runner>context).device.write(<object>block, <uintptr_t>source, size)
        return NULL
    except BaseException as error:
        return failed(context, error)


cdef PlanData cached_plan_data(Runner self, const pyd_plan_t* plan):
    """Return the description of a plan; `self.plans` caches the latest MAX_PLANS of them."""
    cdef uint32_t scalar_count, dims_count
    cdef const uint64_t* scalars = pyd_plan_scalars(plan, &scalar_count)
    cdef const pyd_program_function_t* info = pyd_plan_function_info(plan)
    dims_count = info.dims_count
    # A plan is identified by its function, and by the sizes and scalars that it was created for.
    key = (
        pyd_plan_function(plan), (<const char*>pyd_plan_dims(plan))[:8 * dims_count] if dims_count else b"",
        (<const char*>scalars)[:8 * scalar_count] if scalar_count else b"")
    cdef PlanData data = self.plans.get(key)
    if data is None:
        data = plan_data(plan, info)
        oldest = None  # released after the critical section, as that may run Python code
        with cython.critical_section(self.plans):
            if len(self.plans) >= MAX_PLANS:  # remove the first entry, the oldest
                oldest = self.plans.pop(next(iter(self.plans)), None)
            self.plans[key] = data
    return data


cdef int run_on_device(Runner self, pyd_call_t* call, bint on_device) except -1:
    """Run a call on the Python device, with the cached PlanData of its plan.

    on_device: the call's buffers are blocks (addresses of Python objects), not host memory.
    """
    cdef uint32_t i
    cdef PlanData data = cached_plan_data(self, pyd_call_plan(call))
    constants = (<const char*>pyd_call_constants(call))[:4 * data.constant_count] if data.constant_count else b""
    patterns = [pyd_call_pattern(call, i) for i in data.numbers]  # indices in the plan of data.commands
    addresses = [
        <uintptr_t>pyd_call_buffer(call, i) if buffer.kind in MEMORY_OF_CALLS else 0
        for i, buffer in enumerate(data.buffers)
    ]
    if not on_device:
        self.device.run_addresses(data, constants, patterns, addresses)
        return 0
    blocks = [<object>(<PyObject*><uintptr_t>address) if address else None for address in addresses]
    self.device.run_blocks(data, constants, patterns, blocks)
    return 0


@cython.final
cdef class DeviceFunction:
    """A function on a device: checks the arguments of a call, buffers of the device or arrays, and finds its plan.

    module, index: the program, and the number of the function in it.
    buffer: the class of the device's buffers, with attributes `element` (an ElementType) and `shape`.
    """

    cdef readonly Function function
    cdef object buffer

    def __init__(self, Module module not None, uint32_t index, buffer):
        self.function, self.buffer = Function(module, index), buffer

    @property
    def closed(self):
        """Whether the program was closed."""
        return self.function.module.closed

    def bind(self, tuple args, Plan known=None, bint copies=True):
        """Return (Plan, arguments, scalars) of a call.

        Each argument is a buffer of the device, a contiguous array with elements as programs store them (packed if
        smaller than a byte), or None for a number. scalars: the numbers, in order, 8 bytes each.

        known: a plan to use if it fits these arguments; by default the plan of the call before. copies: copy strided
        arrays; otherwise they are refused. Raises InvalidArgumentError.
        """
        cdef Function function = self.function
        cdef uint64_t words[INLINE_WORDS]
        cdef uint64_t* memory = words
        cdef int64_t* dims
        cdef uint64_t* scalars
        cdef Plan plan
        if function.module.closed:
            raise Error(f"@{function.name}: its program was closed")
        if len(args) != function.arg_count:
            function.check_count(len(args))
        # One memory for the sizes, then the numbers: on the stack if they fit.
        if function.dims_count + function.scalar_count > INLINE_WORDS:
            memory = <uint64_t*>calloc(function.dims_count + function.scalar_count, sizeof(uint64_t))
            if memory == NULL:
                raise MemoryError()
        dims, scalars = <int64_t*>memory, memory + function.dims_count
        try:
            inputs = self.gather(args, dims, scalars, copies)
            plan = known if known is not None else function.last_plan()
            if plan is None or not plan.matches(dims, scalars):
                plan = function.find_plan(dims, scalars)
            return plan, inputs, (<char*>scalars)[:8 * function.scalar_count] if function.scalar_count else b""
        finally:
            if memory != words:
                free(memory)

    cdef list gather(self, tuple args, int64_t* dims, uint64_t* scalars, bint copies):
        """Check the arguments, and store all sizes in `dims` and the numbers in `scalars`.

        Return a list with a buffer of the device, a contiguous array (packed if elements are smaller than a byte), or
        None for a number, per argument. copies: copy strided arrays; otherwise they are refused.
        """
        cdef Function function = self.function
        cdef uint32_t i, axis, scalar = 0
        cdef ElementType kind
        cdef int64_t* sizes
        inputs = []
        for i in range(function.arg_count):
            value, kind, sizes = args[i], function.arg_types[i], dims + function.args[i].dims_offset
            if function.args[i].descr == NULL:  # a number
                try:
                    kind.pack(value, &scalars[scalar])
                except (TypeError, ValueError, OverflowError) as error:
                    raise wrong_scalar(function.name, i, function.arg_names[i], kind, value, error) from None
                scalar += 1
                inputs.append(None)
            elif isinstance(value, self.buffer):
                function.check_buffer(i, value)
                shape = <tuple>value.shape
                for axis in range(function.args[i].rank):
                    sizes[axis] = shape[axis]
                inputs.append(value)
            else:
                array = input_array(
                    function.name, i, function.arg_names[i], kind, function.arg_dims[i], value, copies)
                for axis in range(function.args[i].rank):
                    sizes[axis] = PyArray_DIMS(<PyArrayObject*>array)[axis]
                inputs.append(packed_of(kind, array) if kind.packed else array)
        return inputs

    def compute(self, Plan plan not None, bytes scalars):
        """Compute the values of a call that depend on its scalars. scalars: 8 bytes each, as `bind` returns them.

        Returns a tuple: all 32-bit constants of the plan as bytes; the fill pattern of each command of the plan, 0 for
        other commands; for each result its number, or None for a tensor.
        """
        cdef uint32_t constants = pyd_plan_constant_count(plan.plan), commands = pyd_plan_command_count(plan.plan)
        cdef uint32_t results = plan.function.result_count, i
        # `memory` has 64-bit patterns, then 64-bit results, then 32-bit constants.
        cdef uint64_t* memory = <uint64_t*>calloc(constants + commands + results + 1, sizeof(uint64_t))
        if memory == NULL:
            raise MemoryError()
        try:
            check(pyd_plan_compute(
                plan.plan, <const uint64_t*><const char*>scalars, <uint32_t*>(memory + commands + results), memory,
                memory + commands))
            words = (<const char*>(memory + commands + results))[:4 * constants] if constants else b""
            values = [
                self.function.scalar_result(i, memory[commands + i]) if plan.function.results[i].kind else None
                for i in range(results)
            ]
            return words, [memory[i] for i in range(commands)], values
        finally:
            free(memory)

    def close(self):
        """Drop all cached plans."""
        self.function.close()
