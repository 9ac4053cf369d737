"""Peak performance of this machine, with which profiles compare the times of commands."""

from pydispatch._core.c_peak cimport pyd_peak_bandwidth, pyd_peak_flops
from pydispatch._core.c_sched cimport pyd_sched_workers
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.memory cimport Pool
from pydispatch._core.sched cimport Caller, Scheduler, enter, leave
from pydispatch._core.status cimport check

from libc.stdint cimport uint64_t

from bisect import bisect_left

SIZES = tuple([1 << bits for bits in range(14, 29, 2)])  # of measured blocks, 16 KiB to 256 MiB: each cache, and memory

# (workers, bytes of the block) -> bytes per second; (workers, 0) -> operations per second. For the whole process, since
# all its devices have the same CPU.
cdef dict KNOWN = {}


cdef double measured(Scheduler sched, Pool pool, uint64_t size) except -1:
    """Return the peak f32 operations per second for `size` 0, else the peak bytes per second for blocks of that size.

    size: in bytes. Each peak is measured with all workers of the scheduler, once in a process for a number of workers.
    """
    cdef Caller caller
    cdef pyd_status_t status = NULL
    cdef double found = 0
    key = (pyd_sched_workers(sched.sched), size)
    if key in KNOWN:
        return KNOWN[key]
    enter(sched.callers, &caller)
    with nogil:
        if size:
            status = pyd_peak_bandwidth(sched.sched, pool.pool, size, &found)
        else:
            found = pyd_peak_flops(sched.sched)
    leave(sched.callers, &caller)
    check(status)
    return KNOWN.setdefault(key, found)


def peak_of(Scheduler sched not None, Pool pool not None):
    """Return a profile.Peak: a function least(flops, type, nbytes) for commands that all workers run together.

    It returns the least seconds for a number of f32 operations and of bytes, which it moves at the bandwidth of memory
    or of the cache that they fit; None for an unknown number of operations or another type.
    """
    def least(flops, str type, nbytes):
        if flops is None or (flops and type != "f32"):
            return None
        seconds = flops / measured(sched, pool, 0) if flops else 0.0
        size = SIZES[min(bisect_left(SIZES, nbytes), len(SIZES) - 1)]  # the smallest that holds them, or the largest
        return max(seconds, nbytes / measured(sched, pool, size))
    return least
