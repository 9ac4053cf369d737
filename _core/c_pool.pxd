from libc.stdint cimport uint64_t

from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "stdbool.h" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "pydispatch/allocator.h" nogil:
    ctypedef struct pyd_allocator_t:
        size_t struct_size
        void* (*allocate)(void* context, size_t size, size_t alignment) noexcept nogil
        void (*release)(void* context, void* memory, size_t size) noexcept nogil
        void* context

cdef extern from "pydispatch/pool.h" nogil:
    ctypedef struct pyd_pool_t:
        pass
    ctypedef struct pyd_pool_stats_t:
        uint64_t live_bytes
        uint64_t free_bytes
        uint64_t peak_bytes
        uint64_t live_blocks

    pyd_status_t pyd_poison_requested(c_bool* out_requested)
    void pyd_pool_set_limit(pyd_pool_t* pool, uint64_t limit_bytes)
    pyd_status_t pyd_pool_create_with(uint64_t retain_bytes, const pyd_allocator_t* allocator, pyd_pool_t** out_pool)
    const pyd_allocator_t* pyd_pool_allocator(const pyd_pool_t* pool)
    void pyd_pool_destroy(pyd_pool_t* pool)
    pyd_status_t pyd_pool_acquire(pyd_pool_t* pool, size_t size, void** out_block)
    void pyd_pool_release(pyd_pool_t* pool, void* block)
    void pyd_pool_trim(pyd_pool_t* pool)
    void pyd_pool_stats(pyd_pool_t* pool, pyd_pool_stats_t* out_stats)
    void pyd_pool_fork_prepare(pyd_pool_t* pool)
    void pyd_pool_fork_done(pyd_pool_t* pool)
