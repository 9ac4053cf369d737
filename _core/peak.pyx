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
    """Return the peak rate of all workers: f32 operations per second if `size` is 0, else bytes per second.

    size: bytes of memory that are read and written; a size that fits a cache measures the bandwidth of the cache. The
    first call for a number of workers and a size measures for some ten milliseconds; later calls in the process return
    the cached value.
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
    """Return a profile.Peak: the function least(flops, type, nbytes), a lower bound for the seconds of a command.

    The bound is for all workers. flops: number of operations, None if it is unknown. type: element type of the
    operations. nbytes: bytes that the command reads or writes. The function returns None if `flops` is None, or if
    there are operations of another type than "f32".
    """
    def least(flops, str type, nbytes):
        # The longer one of two times that are assumed to overlap: of the operations, and of moving the bytes.
        if flops is None or (flops and type != "f32"):
            return None
        seconds = flops / measured(sched, pool, 0) if flops else 0.0
        size = SIZES[min(bisect_left(SIZES, nbytes), len(SIZES) - 1)]  # the smallest that holds them, or the largest
        return max(seconds, nbytes / measured(sched, pool, size))
    return least
