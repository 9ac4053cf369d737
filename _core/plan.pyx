"""Plans: functions specialized for the sizes of a call, and how they run on the CPU."""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fflush
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pydispatch._core.c_pool cimport pyd_pool_acquire, pyd_pool_release
from pydispatch._core.c_program cimport PYD_KIND_SCALAR, PYD_KIND_TENSOR
from pydispatch._core.c_program cimport *
from pydispatch._core.c_status cimport pyd_interrupt_t, pyd_status_t
from pydispatch._core.lock cimport pyd_lock, pyd_unlock
from pydispatch._core.program cimport Module
from pydispatch._core.sched cimport Caller, enter, leave
from pydispatch._core.signals cimport interrupt_of
from pydispatch._core.status cimport check

import sys

cdef enum:
    STAGE_ALIGNMENT = 64  # bytes, of each argument in the scratch memory
    KEPT_SCRATCH_BYTES = 1 << 20  # larger scratch memory is released after each call


cdef int flush_python() except -1:
    """Flush Python's output streams before a kernel may print through C stdio, to keep the order of the output."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    return 0


cdef Plan make_plan(
        Module module, uint32_t function, const int64_t* dims, const uint64_t* scalars, uint64_t key):
    """Create the plan of function number `function` for the sizes and scalars of a call.

    dims: sizes of all tensor arguments, concatenated. scalars: a word per scalar argument. key: their pyd_plan_hash,
    by which caches find the plan.
    """
    cdef Plan plan = Plan.__new__(Plan)
    cdef pyd_status_t status
    with nogil:
        status = pyd_plan_create(module.program, function, dims, scalars, &plan.plan)
    check(status)
    plan.module = module
    plan.function = pyd_program_function(module.program, function)
    plan.key = key
    fill_plan(plan)
    return plan


cdef int fill_plan(Plan plan) except -1:
    """Compute the sizes and alignments of arguments and results, in bytes, for later calls of the plan.

    An argument that a caller aligns less than kernels require is copied to scratch memory, where it begins at its
    stage_offset.
    """
    cdef const pyd_program_function_t* function = plan.function
    cdef const pyd_program_value_t* value
    cdef uint32_t i, count = function.arg_count, results = function.result_count
    cdef size_t* words = <size_t*>calloc(3 * count + 2 * results + 1, sizeof(size_t))
    cdef size_t size
    if words == NULL:
        raise MemoryError()
    plan.arg_bytes, plan.stage_offset, plan.arg_mask = words, words + count, words + 2 * count
    plan.result_bytes, plan.result_mask = words + 3 * count, words + 3 * count + results
    for i in range(count):
        value = &function.args[i]
        if value.kind == PYD_KIND_SCALAR:
            plan.has_scalars = True
            continue
        size = pyd_plan_arg_bytes(plan.plan, i)
        plan.arg_bytes[i] = size
        plan.arg_mask[i] = max(1, pyd_plan_arg_alignment(plan.plan, i)) - 1
        plan.stage_offset[i] = plan.stage_bytes
        plan.stage_bytes += (size + STAGE_ALIGNMENT - 1) & ~<size_t>(STAGE_ALIGNMENT - 1)
    for i in range(results):
        if function.results[i].kind == PYD_KIND_TENSOR:
            plan.result_bytes[i] = pyd_plan_result_bytes(plan.plan, i)
            plan.result_mask[i] = max(1, pyd_plan_result_alignment(plan.plan, i)) - 1
    return 0


@cython.final
@cython.no_gc_clear  # __dealloc__ gives memory back to the pool of its module
cdef class Plan:
    """A function specialized for the sizes of its arguments, with a free list of slots.

    A slot is a call object of the C core with its scratch memory; each run needs one for itself. A call finds the plan
    in the cache of its PlannedFunction, then calls `take`, `execute` and `give`.
    """

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.free_count):
            self.drop(&self.free_slots[i])
        if self.plan != NULL:
            pyd_plan_free(self.plan)
        free(self.arg_bytes)  # one allocation of fill_plan(), which holds all five arrays

    cdef void drop(self, Slot* slot) noexcept:
        """Free the call and the scratch memory of a slot."""
        pyd_call_free(slot.call)
        if slot.scratch != NULL:
            pyd_pool_release(self.module.pool.pool, slot.scratch)

    cdef bint matches(self, const int64_t* dims, const uint64_t* scalars) noexcept:
        """Return whether this plan is for these sizes, and for these values of scalars that sizes depend on.

        dims: sizes of all tensor arguments, concatenated. scalars: a word per scalar argument.
        """
        return pyd_plan_matches(self.plan, dims, scalars)

    cdef const int64_t* result_dims(self, uint32_t result) noexcept:
        """Return the sizes of a tensor result, one per dimension, in memory of the plan."""
        return pyd_plan_result_dims(self.plan, result)

    cdef uint64_t result_tensor_bytes(self, uint32_t result) noexcept:
        """Return the bytes that the shape of a result requires."""
        cdef const pyd_program_value_t* value = &self.function.results[result]
        cdef uint64_t size = 0
        pyd_tensor_bytes(value.dtype, value.rank, self.result_dims(result), &size)  # cannot fail, as the plan exists
        return size

    cdef int take(self, Slot* out_slot) except -1:
        """Take a slot from the free list, or create one. The caller returns it with give()."""
        cdef pyd_status_t status
        cdef bint found
        pyd_lock(&self.lock)
        found = self.free_count > 0
        if found:
            self.free_count -= 1
            out_slot[0] = self.free_slots[self.free_count]
        pyd_unlock(&self.lock)
        if found:
            return 0
        out_slot.scratch, out_slot.times = NULL, NULL
        with nogil:  # it may take long: constants that the program derives are computed before first use
            status = pyd_call_create(self.plan, self.module.sched.sched, self.module.pool.pool, &out_slot.call)
        return check(status)

    cdef void give(self, Slot* slot) noexcept:
        """Return a slot to the free list, or free it if the list is full."""
        cdef bint kept
        pyd_lock(&self.lock)
        kept = self.free_count < MAX_FREE_SLOTS
        if kept:
            self.free_slots[self.free_count] = slot[0]
            self.free_count += 1
        pyd_unlock(&self.lock)
        if not kept:
            self.drop(slot)

    cdef bint bind(self, Slot* slot, void** args, const uint64_t* scalars, void** results) noexcept:
        """Bind arguments, scalars and results to a slot.

        args: an address per argument, ignored for scalars. results: an address per result, NULL for scalars. scalars: a
        word per scalar argument. Arguments that are less aligned than kernels require are not bound. Return whether
        there are such: stage() must then copy them to aligned memory and bind the copies.
        """
        cdef const pyd_program_function_t* function = self.function
        cdef uint32_t i
        cdef bint staged = False
        for i in range(function.arg_count):
            if function.args[i].kind == PYD_KIND_SCALAR:
                continue
            if <uintptr_t>args[i] & self.arg_mask[i] and self.arg_bytes[i]:  # not empty, and not aligned
                staged = True
            else:
                pyd_call_bind_arg(slot.call, i, args[i])
        if self.has_scalars:
            pyd_call_set_scalars(slot.call, scalars)
        for i in range(function.result_count):
            if results[i] != NULL:
                pyd_call_bind_result(slot.call, i, results[i])
        return staged

    cdef void read_scalars(self, Slot* slot, uint64_t* out_scalars) noexcept:
        """Read the scalar results of a call that has run. out_scalars: a word per result; not set for tensors."""
        cdef uint32_t i
        for i in range(self.function.result_count):
            if self.function.results[i].kind == PYD_KIND_SCALAR:
                out_scalars[i] = pyd_call_scalar_result(slot.call, i)

    cdef int execute(
            self, Slot* slot, void** args, const uint64_t* scalars, void** results, uint64_t* out_scalars) except -1:
        """Bind and run a call without the GIL. Raise the error of a call that fails.

        args: an address per argument, ignored for scalars. results: an address per result, NULL for scalars. scalars,
        out_scalars: a word per scalar argument, and per result.
        """
        cdef bint staged = self.bind(slot, args, scalars, results)
        cdef pyd_status_t status
        cdef Caller caller
        cdef const pyd_interrupt_t* interrupt
        if staged and slot.scratch == NULL:
            check(pyd_pool_acquire(self.module.pool.pool, self.stage_bytes, <void**>&slot.scratch))
        if self.module.flushes:  # kernels may print through C: keep the order of outputs
            flush_python()
        enter(self.module.sched.callers, &caller)
        interrupt = interrupt_of(caller.thread)
        with nogil:
            if staged:
                self.stage(slot, args)
            if slot.times != NULL:
                status = pyd_call_run_timed(slot.call, interrupt, slot.times)
            else:
                status = pyd_call_run_until(slot.call, interrupt)
            if self.module.flushes:
                fflush(NULL)
        leave(self.module.sched.callers, &caller)
        if staged and self.stage_bytes > KEPT_SCRATCH_BYTES:  # too large to keep for the next run
            pyd_pool_release(self.module.pool.pool, slot.scratch)
            slot.scratch = NULL
        check(status)
        self.read_scalars(slot, out_scalars)
        return 0

    cdef void stage(self, Slot* slot, void** args) noexcept nogil:
        """Copy the arguments that are less aligned than a kernel requires to scratch memory, and bind the copies."""
        cdef uint32_t i
        for i in range(self.function.arg_count):
            if <uintptr_t>args[i] & self.arg_mask[i] and self.arg_bytes[i]:
                memcpy(slot.scratch + self.stage_offset[i], args[i], self.arg_bytes[i])
                pyd_call_bind_arg(slot.call, i, slot.scratch + self.stage_offset[i])

    def describe(self):
        """Return a list with a description of each command, one line each."""
        return lines_of(self.plan)


cdef list lines_of(const pyd_plan_t* plan):
    """Return a description of each command of a plan, one line each."""
    cdef char line[512]  # longer ones are truncated
    lines = []
    for i in range(pyd_plan_command_count(plan)):
        check(pyd_plan_describe(plan, i, line, sizeof(line)))
        lines.append((<bytes>line).decode("utf-8", "replace"))
    return lines
