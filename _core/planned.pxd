from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_program cimport pyd_program_function_t
from pydispatch._core.lock cimport pyd_lock_t
from pydispatch._core.plan cimport Plan
from pydispatch._core.public cimport PublicFunction

# Type and rank of an argument or result, in the form that the fast path of calls compares.
cdef struct Value:
    PyObject* descr       # the NumPy descriptor; borrowed from arg_types or result_types. NULL for a scalar
    uint32_t rank
    uint32_t dims_offset  # of an argument, in the list of all sizes
    uint32_t tied         # of a result: the argument that it may update in place


cdef enum:
    PLAN_SETS = 16  # of the set-associative cache of plans
    PLAN_WAYS = 4   # plans in each set
    PLAN_SLOTS = PLAN_SETS * PLAN_WAYS


# The arrays of one call, which lay_out() sets to consecutive parts of one block of words.
cdef struct Frame:
    int64_t* dims          # sizes of all tensor arguments, concatenated
    uint64_t* scalars      # per scalar argument its value
    void** args            # per argument its address, unused for a scalar
    void** results         # per result its address, NULL for a scalar
    uint64_t* out_scalars  # per result its value if it is a scalar


# Base class of Function: types of arguments and results, and a cache of plans.
cdef class PlannedFunction(PublicFunction):
    cdef Plan last               # plan of the last call, or None
    cdef list plans              # PLAN_SLOTS entries, Plan or None: PLAN_SETS sets of PLAN_WAYS
    cdef uint32_t evict          # number of evictions
    cdef pyd_lock_t lock         # guards last, plans and evict
    cdef uint32_t dims_count, scalar_count, tensor_results
    cdef size_t frame_words      # 64-bit words of the arrays of a Frame
    cdef bint simple             # the only result is a tensor
    cdef bint has_packed_elements  # of an argument or result: every call needs a Binding, which packs or unpacks them
    cdef Value* args             # per argument
    cdef Value* outs             # per result, in the memory of `args`

    cdef void describe_values(self, const pyd_program_function_t* function) noexcept
    cdef void lay_out(self, uint64_t* words, Frame* out_frame) noexcept
    cdef Plan last_plan(self)
    cdef Plan cached_plan(self, uint32_t first, uint64_t key, const int64_t* dims, const uint64_t* scalars)
    cdef int insert_plan(self, uint32_t first, Plan plan) except -1
    cdef Plan find_plan(self, const int64_t* dims, const uint64_t* scalars)
    cdef object new_result(self, Plan plan, uint32_t result, void** out_data)
    cdef object scalar_result(self, uint32_t result, uint64_t word)


# Allocates all tensor results. Returns the array if it is the only result, else a list.
cdef object fresh_results(PlannedFunction function, Plan plan, Frame* frame)

# Returns the value of a call from its arrays of fresh_results() and the scalar results in the frame.
cdef object value_of(PlannedFunction function, object arrays, Frame* frame)
