from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_program cimport pyd_call_t, pyd_command_time_t, pyd_plan_t, pyd_program_function_t
from pydispatch._core.lock cimport pyd_lock_t
from pydispatch._core.program cimport Module


# What Python has written so far goes out before a kernel prints through C.
cdef int flush_python() except -1


# A call with the memory that misaligned arguments are copied to.
cdef struct Slot:
    pyd_call_t* call
    char* scratch
    pyd_command_time_t* times  # NULL, or where a run leaves the time of each command


cdef enum:
    MAX_FREE_SLOTS = 16


# One function specialized for one set of shapes, with the calls that wait for reuse.
cdef class Plan:
    cdef Module module
    cdef pyd_plan_t* plan
    cdef const pyd_program_function_t* function
    cdef uint64_t key
    cdef Slot free_slots[MAX_FREE_SLOTS]
    cdef uint32_t free_count
    cdef pyd_lock_t lock        # of the two before
    cdef size_t* arg_bytes      # per argument; 0 for scalars
    cdef size_t* stage_offset   # per argument, in the scratch memory of a slot
    cdef size_t* arg_mask       # per argument: alignment - 1
    cdef size_t* result_bytes   # per result; 0 for scalars
    cdef size_t* result_mask    # per result: alignment - 1; 0 for scalars
    cdef size_t stage_bytes
    cdef bint has_scalars
    cdef public object device   # what a device that runs the plan by itself keeps with it

    cdef void drop(self, Slot* slot) noexcept
    cdef void stage(self, Slot* slot, void** args) noexcept nogil
    cdef bint matches(self, const int64_t* dims, const uint64_t* scalars) noexcept
    cdef const int64_t* result_dims(self, uint32_t result) noexcept
    cdef uint64_t result_tensor_bytes(self, uint32_t result) noexcept  # its buffer may be larger
    cdef int take(self, Slot* out_slot) except -1
    cdef void give(self, Slot* slot) noexcept
    # Gives the call its memory. True: some arguments are less aligned than a kernel needs, and have none yet.
    cdef bint bind(self, Slot* slot, void** args, const uint64_t* scalars, void** results) noexcept
    cdef void read_scalars(self, Slot* slot, uint64_t* out_scalars) noexcept
    # Binds and runs. |results|: memory per result, NULL for scalars; |out_scalars|: one word per result.
    cdef int execute(
        self, Slot* slot, void** args, const uint64_t* scalars, void** results, uint64_t* out_scalars) except -1


# The commands of a plan, one line each, for people.
cdef list lines_of(const pyd_plan_t* plan)


# Of function number |function| for the sizes and scalars of a call; |key| is their pyd_plan_hash.
cdef Plan make_plan(
    Module module, uint32_t function, const int64_t* dims, const uint64_t* scalars, uint64_t key)
