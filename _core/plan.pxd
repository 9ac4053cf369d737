from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_program cimport pyd_call_t, pyd_command_time_t, pyd_plan_t, pyd_program_function_t
from pydispatch._core.lock cimport pyd_lock_t
from pydispatch._core.program cimport Module


# Flushes the output streams of Python, so that a kernel prints through C after earlier output.
cdef int flush_python() except -1


# A reusable call of a plan, with the memory that misaligned arguments are copied to.
cdef struct Slot:
    pyd_call_t* call
    char* scratch              # NULL until arguments are copied
    pyd_command_time_t* times  # receives the times of each command in a run; NULL: commands are not timed


cdef enum:
    MAX_FREE_SLOTS = 16  # cached slots of a plan; a run that finds none creates a slot


# A function specialized for the sizes of its arguments, with a free list of slots.
cdef class Plan:
    cdef Module module
    cdef pyd_plan_t* plan
    cdef const pyd_program_function_t* function
    cdef uint64_t key           # hash of the sizes and scalars, by which caches find the plan
    cdef Slot free_slots[MAX_FREE_SLOTS]
    cdef uint32_t free_count
    cdef pyd_lock_t lock        # guards free_slots and free_count
    cdef size_t* arg_bytes      # per argument; 0 for scalars
    cdef size_t* stage_offset   # per argument, in the scratch memory of a slot
    cdef size_t* arg_mask       # per argument: alignment - 1
    cdef size_t* result_bytes   # per result; 0 for scalars
    cdef size_t* result_mask    # per result: alignment - 1; 0 for scalars
    cdef size_t stage_bytes     # size of the scratch memory of a slot
    cdef bint has_scalars       # whether the function has scalar arguments
    cdef public object device   # data that a device which runs the plan by itself caches with it

    cdef void drop(self, Slot* slot) noexcept
    cdef void stage(self, Slot* slot, void** args) noexcept nogil
    cdef bint matches(self, const int64_t* dims, const uint64_t* scalars) noexcept
    cdef const int64_t* result_dims(self, uint32_t result) noexcept
    cdef uint64_t result_tensor_bytes(self, uint32_t result) noexcept  # its buffer may be larger
    cdef int take(self, Slot* out_slot) except -1
    cdef void give(self, Slot* slot) noexcept
    # Binds arguments, scalars and results. Returns whether stage() must copy and bind arguments that are misaligned.
    cdef bint bind(self, Slot* slot, void** args, const uint64_t* scalars, void** results) noexcept
    cdef void read_scalars(self, Slot* slot, uint64_t* out_scalars) noexcept
    # Binds and runs. |results|: memory per result, NULL for scalars; |out_scalars|: one word per result.
    cdef int execute(
        self, Slot* slot, void** args, const uint64_t* scalars, void** results, uint64_t* out_scalars) except -1


# Returns a description of each command of a plan, one line each.
cdef list lines_of(const pyd_plan_t* plan)


# Creates the plan of function number |function| for the sizes and scalars of a call. |key|: their pyd_plan_hash.
cdef Plan make_plan(
    Module module, uint32_t function, const int64_t* dims, const uint64_t* scalars, uint64_t key)
