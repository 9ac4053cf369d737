"""Memory for buffers: pools of 64-byte aligned blocks, and the objects that own a block."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from pydispatch._core.c_allocator cimport pyd_allocator_t
from pydispatch._core.c_pool cimport pyd_pool_acquire, pyd_pool_create_with, pyd_pool_destroy, pyd_pool_fork_done
from pydispatch._core.c_pool cimport pyd_pool_fork_prepare, pyd_pool_release, pyd_pool_set_limit, pyd_pool_stats
from pydispatch._core.c_pool cimport pyd_pool_stats_t, pyd_pool_t, pyd_pool_trim
from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.status cimport check

from pydispatch._core.status import OutOfMemoryError


cdef void fork_prepare(void* self) noexcept nogil:
    """Lock a pool before a fork, so that its state is consistent in the child. self: the pyd_pool_t."""
    pyd_pool_fork_prepare(<pyd_pool_t*>self)


cdef void fork_done(void* self) noexcept nogil:
    """Unlock a pool after a fork, in the parent and in the child. self: the pyd_pool_t."""
    pyd_pool_fork_done(<pyd_pool_t*>self)


@cython.final
cdef class Pool:
    """Pool of 64-byte aligned memory blocks, which caches released blocks for reuse.

    retain: maximum bytes of cached free blocks. allocator: the address of a `pyd_allocator_t` (pydispatch/allocator.h)
    that supplies the memory; 0 for the system's. limit: maximum bytes of blocks in use and free; 0 for no limit.
    """

    def __cinit__(self, uint64_t retain, uintptr_t allocator=0, uint64_t limit=0):
        cdef pyd_pool_t* pool = NULL
        cdef pyd_status_t status
        check(pyd_pool_create_with(retain, <const pyd_allocator_t*>allocator, &pool))
        # Functions to call before a fork, and after it in the parent and in the child.
        status = pyd_process_atfork_add(pool, fork_prepare, fork_done, fork_done)
        if status != NULL:
            pyd_pool_destroy(pool)
        check(status)
        if limit:
            pyd_pool_set_limit(pool, limit)
        self.pool = pool

    def __dealloc__(self):
        # Every Block has a reference to its pool, so no block is in use here.
        if self.pool != NULL:
            pyd_process_atfork_remove(self.pool)
            pyd_pool_destroy(self.pool)

    cdef Block acquire(self, size_t size):
        """Return a block of at least `size` bytes."""
        cdef Block block = Block.__new__(Block)
        check(pyd_pool_acquire(self.pool, size, &block.data))
        block.owner = self
        return block

    cdef Block acquire_result(self, size_t size, str function, uint32_t result):
        """Return a block for the result with index `result` of a function.

        An OutOfMemoryError names the function and the result.
        """
        cdef Block block = Block.__new__(Block)
        cdef pyd_status_t status = pyd_pool_acquire(self.pool, size, &block.data)
        if status != NULL:
            try:
                check(status)
            except OutOfMemoryError as error:
                raise OutOfMemoryError(
                    f"@{function}: result {result} takes {size} bytes: {error}; call it with smaller sizes") from None
        block.owner = self
        return block

    def stats(self):
        """Return a dict of counts.

        live_bytes, live_blocks: bytes and number of blocks in use. free_bytes: bytes of cached free blocks. peak_bytes:
        largest sum of live_bytes and free_bytes so far.
        """
        cdef pyd_pool_stats_t stats
        pyd_pool_stats(self.pool, &stats)
        return {
            "live_bytes": stats.live_bytes,
            "free_bytes": stats.free_bytes,
            "peak_bytes": stats.peak_bytes,
            "live_blocks": stats.live_blocks,
        }

    def trim(self):
        """Return the memory of all cached free blocks to the system."""
        with nogil:
            pyd_pool_trim(self.pool)


@cython.final
@cython.freelist(32)
@cython.no_gc
cdef class Block:
    """A block of memory of a pool, `owner`, to which it returns when this object is freed. data: its address."""

    def __dealloc__(self):
        if self.owner is not None:
            pyd_pool_release(self.owner.pool, self.data)
