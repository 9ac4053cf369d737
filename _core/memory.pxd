from libc.stdint cimport uint32_t

from pydispatch._core.c_pool cimport pyd_pool_t


# A pool of memory for results and arenas; see pool.h. Every block keeps its pool alive.
cdef class Pool:
    cdef pyd_pool_t* pool

    cdef Block acquire(self, size_t size)
    cdef Block acquire_result(self, size_t size, str function, uint32_t result)


# One block of a pool, released to the pool when this object is freed: the base object of result arrays.
cdef class Block:
    cdef Pool owner
    cdef void* data
