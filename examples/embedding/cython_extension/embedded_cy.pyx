# cython: language_level=3, boundscheck=False, wraparound=False
"""A Cython extension that keeps a prepared call and runs it without the GIL, and borrows the threads of pydispatch."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pydispatch._core.capi cimport api, pyd_api_call_t, pyd_api_cost_t, pyd_api_device_t, pyd_api_function_t
from pydispatch._core.capi cimport pyd_api_program_t, pyd_api_t
from pydispatch._core.status cimport check  # raises for a status that is no success, and frees it

cdef const pyd_api_t* pd = api()


cdef class Kernel:
    """A prepared call of a function of two float32 vectors of n elements, whose result has n elements.

    Args:
        program: a `pydispatch.Program`, or the path of an artifact, which is loaded on the CPU.
        name: the function.
        n: elements of a vector.
    """

    cdef pyd_api_call_t* call
    cdef readonly int64_t n

    def __cinit__(self, program, str name, int64_t n):
        cdef pyd_api_device_t* device = NULL
        cdef pyd_api_program_t* loaded = NULL
        cdef const pyd_api_function_t* function = NULL
        cdef int64_t dims[2]
        dims[0] = dims[1] = self.n = n
        try:
            if isinstance(program, str):
                check(pd.device_open("cpu", &device))
                check(pd.program_load_file(device, program.encode(), &loaded))
            else:
                check(pd.program_from_python(<void*>program, &loaded))
            check(pd.program_find(loaded, name.encode(), &function))
            check(pd.call_prepare(function, dims, 2, NULL, 0, &self.call))
        finally:
            pd.program_release(loaded)  # the call holds what it needs
            pd.device_release(device)

    def __dealloc__(self):
        pd.call_release(self.call)

    def __call__(self, const float[::1] a, const float[::1] b, float[::1] out, uint32_t runs=1):
        """Write f(a, b) to `out`, `runs` times, without the GIL. Only one thread may call a kernel at a time."""
        cdef uint32_t _
        check(pd.call_bind_argument(self.call, 0, &a[0] if a.shape[0] else NULL, a.nbytes))
        check(pd.call_bind_argument(self.call, 1, &b[0] if b.shape[0] else NULL, b.nbytes))
        check(pd.call_bind_result(self.call, 0, &out[0] if out.shape[0] else NULL, out.nbytes))
        with nogil:
            for _ in range(runs):
                check(pd.call_run(self.call))


cdef struct Totals:
    const float* data
    uint64_t row  # elements of a row
    double* out  # the sum of worker i at index 8 * i: a cache line for each, so that workers do not slow each other


# Adds the rows [begin, end) to the sum of `worker`. context: Totals. Returns 0: it cannot fail.
cdef int32_t add_rows(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* failed) noexcept nogil:
    cdef Totals* totals = <Totals*>context
    cdef uint64_t i
    for i in range(begin * totals.row, end * totals.row):
        totals.out[worker * 8] += totals.data[i]
    return 0


cdef pyd_api_cost_t cost  # what the task system learns about the loop below


def total(const float[:, ::1] rows):
    """Return the sum of all elements, computed by rows on the threads of the CPU device."""
    cdef pyd_api_device_t* device = NULL
    cdef Totals totals
    cdef void* memory = NULL
    cdef uint32_t worker, workers
    cdef double sum = 0
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        return 0.0
    try:
        check(pd.device_open("cpu", &device))
        workers = pd.device_workers(device)
        check(pd.pool_acquire(device, workers * 64, &memory))  # bytes: a cache line for each worker
        totals.data, totals.row, totals.out = &rows[0, 0], rows.shape[1], <double*>memory
        for worker in range(workers):
            totals.out[worker * 8] = 0
        with nogil:
            check(pd.parallel_range(device, rows.shape[0], add_rows, &totals, &cost))
        for worker in range(workers):
            sum += totals.out[worker * 8]
        return sum
    finally:
        pd.pool_release(device, memory)
        pd.device_release(device)
