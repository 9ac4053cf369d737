"""The CPU scheduler: a pool of threads that runs dispatches, and the properties of the host's CPU."""

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pydispatch._core.c_cpu cimport PYD_CPU_FEATURE_WORDS, PYD_CPU_WORDS, pyd_cpu_cache_sizes, pyd_cpu_feature_bit
from pydispatch._core.c_cpu cimport pyd_cpu_feature_name, pyd_cpu_features, pyd_cpu_query
from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove, pyd_process_permits
from pydispatch._core.c_process cimport pyd_process_scope_get, pyd_process_scope_set
from pydispatch._core.c_sched cimport pyd_sched_available_cpus, pyd_sched_create, pyd_sched_default_workers
from pydispatch._core.c_sched cimport pyd_sched_destroy, pyd_sched_fork_child, pyd_sched_fork_parent
from pydispatch._core.c_sched cimport pyd_sched_fork_prepare, pyd_sched_is_inside, pyd_sched_options_t, pyd_sched_stop
from pydispatch._core.c_sched cimport pyd_sched_t, pyd_sched_threads_t, pyd_sched_trace_threads, pyd_sched_workers
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_lock, pyd_unlock
from pydispatch._core.status cimport check
from pydispatch._core.trace cimport recorder

import atexit
import weakref

from pydispatch._core.status import Error, InvalidArgumentError

cdef object schedulers = weakref.WeakSet()


def end_all():
    """Stop the threads of all schedulers at exit, while they can still run Python code such as host commands.

    Submitted calls are cancelled.
    """
    for scheduler in list(schedulers):
        try:
            scheduler.close()
        except Error:  # the interpreter exits inside a call
            pass


atexit.register(end_all)


def trace_threads():
    """Record for each pool thread its worker number and how long it has been idle, at the end of a trace."""
    for scheduler in list(schedulers):
        pyd_sched_trace_threads((<Scheduler>scheduler).sched)


cdef uint32_t worker_limit(str function, object workers) except? 0xFFFFFFFF:
    """Return the maximum number of threads of a call; 0, no limit, for None.

    function: its name, for errors. Raise InvalidArgumentError if `workers` is neither None nor an int from 1 to 1024.
    """
    if workers is None:
        return 0
    if type(workers) is not int or not 1 <= workers <= 1024:
        raise InvalidArgumentError(f"@{function}: workers: expected a number from 1 to 1024, got {workers!r}")
    return workers


cdef void fork_prepare(void* self) noexcept nogil:
    """Lock the lists of callers and the C scheduler before a fork, so that the child gets both in a consistent state.

    self: the Scheduler.
    """
    for i in range(PYD_CALLER_LISTS):
        pyd_lock(&(<Scheduler>self).callers[i].lock)
    pyd_sched_fork_prepare((<Scheduler>self).sched)


cdef void fork_done(Scheduler self) noexcept nogil:
    """Unlock the lists of callers after a fork, in the parent and in the child."""
    for i in range(PYD_CALLER_LISTS):
        pyd_unlock(&self.callers[i].lock)


cdef void fork_parent(void* self) noexcept nogil:
    """Unlock a scheduler in the parent of a fork. self: the Scheduler."""
    pyd_sched_fork_parent((<Scheduler>self).sched)
    fork_done(<Scheduler>self)


cdef void fork_child(void* self) noexcept nogil:
    """Reset and unlock a scheduler in the child of a fork, which has no pool threads and no calls of other threads.

    self: the Scheduler.
    """
    pyd_sched_fork_child((<Scheduler>self).sched)
    for i in range(PYD_CALLER_LISTS):
        remove_other_threads(&(<Scheduler>self).callers[i])
    fork_done(<Scheduler>self)


cdef void remove_other_threads(Callers* callers) noexcept nogil:
    """Remove the calls of other threads from a list of running calls, in the child of a fork.

    They are stored on the stacks of threads that do not exist in the child, whose memory is reused. Calls of the thread
    that forked stay, in their order.
    """
    cdef Caller* caller = callers.first
    cdef Caller* own = NULL  # last call of this thread so far
    while caller != NULL:
        following = caller.next
        if caller.thread == PyThread_get_thread_ident():  # append it to the new list, which ends with `own`
            caller.previous, caller.next = own, NULL
            if own != NULL:
                own.next = caller
            else:
                callers.first = caller
            own = caller
        caller = following
    if own == NULL:
        callers.first = NULL


cdef class Scheduler:
    """A pool of threads that runs the workgroups of dispatches. Any number of Python threads may use it at once.

    workers: threads in one dispatch, the calling thread included; 1 starts no thread, 0 means `default_workers()`.
    spin_us: microseconds for which an idle thread spins before it sleeps; -1 adapts to how often jobs arrive.
    affinity: pin each thread of the pool to a CPU of its own. threads: the address of a `pyd_sched_threads_t`
    (pydispatch/sched.h) with the options of an embedder; 0 for none.

    Raises `InvalidArgumentError` for numbers out of range, and `pydispatch.SystemError` if the operating system refuses
    a thread. After a fork the child restarts its threads when it first needs them.
    """

    def __cinit__(self, workers=0, spin_us=-1, threads=0, bint affinity=False):
        cdef pyd_sched_options_t options
        cdef pyd_sched_t* sched = NULL
        cdef pyd_status_t status
        # Refuse only numbers that the fields of the options cannot hold: pyd_sched_create() checks the stated ranges.
        if not 0 <= workers <= 0xFFFFFFFF:
            raise InvalidArgumentError(f"workers: expected 1 to 1024, or 0 for one per CPU; got {workers}")
        if not -1 <= spin_us <= 0x7FFFFFFF:
            raise InvalidArgumentError(f"spin_us: expected 0 to 1000000, or -1 to adapt; got {spin_us}")
        options.workers = workers
        options.has_affinity = affinity
        options.spin_us = spin_us
        memset(&options.threads, 0, sizeof(options.threads))
        if threads:  # the address of a pyd_sched_threads_t
            options.threads = (<pyd_sched_threads_t*><uintptr_t>threads)[0]
        # All schedulers of the process share the recorder of traces, the scopes (operations that a thread works for),
        # and the compute permits.
        options.trace = recorder
        options.scopes.get, options.scopes.set = pyd_process_scope_get, pyd_process_scope_set
        options.permits = pyd_process_permits()
        with nogil:
            status = pyd_sched_create(&options, &sched)
        check(status)
        self.sched = sched
        status = pyd_process_atfork_add(<void*>self, fork_prepare, fork_parent, fork_child)
        if status != NULL:
            self.sched = NULL
            with nogil:  # joins the threads, at whose end the functions of an embedder may need the GIL
                pyd_sched_destroy(sched)
        check(status)
        schedulers.add(self)

    def __dealloc__(self):
        if self.sched != NULL:
            with nogil:  # joins the threads, which may need the GIL, such as for host commands
                pyd_process_atfork_remove(<void*>self)
                pyd_sched_destroy(self.sched)

    @property
    def workers(self):
        """Return the maximum number of threads in one dispatch, the calling thread included."""
        return pyd_sched_workers(self.sched)

    def close(self):
        """Cancel submitted calls, stop the threads and wait for them. Running dispatches are finished by their callers.

        A later dispatch starts the threads again. Raises Error inside a call that uses them, such as in a function that
        a kernel imports, because the threads would wait for one another.
        """
        cdef pyd_status_t status
        cdef Caller* caller
        cdef unsigned long here = PyThread_get_thread_ident()
        cdef bint calls
        cdef Callers* callers = callers_of(self.callers, here)
        # Is a call of this thread running? Calls are stored in several lists, by thread.
        pyd_lock(&callers.lock)
        caller = callers.first
        while caller != NULL and caller.thread != here:
            caller = caller.next
        calls = caller != NULL
        pyd_unlock(&callers.lock)
        if calls or pyd_sched_is_inside(self.sched):  # the latter also on the scheduler's threads, which have no Caller
            raise Error(
                "the threads of a device cannot be ended by a call that runs on it (here by a function that one of its "
                "kernels imports, or by what Python ran meanwhile): close the device when the call has returned")
        with nogil:
            status = pyd_sched_stop(self.sched)
        check(status)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __repr__(self):
        return f"<pydispatch Scheduler, {self.workers} workers>"


def available_cpus():
    """Return the number of CPUs that this process may use, at least 1.

    It is the number of CPUs in its affinity mask, within its cgroup quota.
    """
    return pyd_sched_available_cpus()


def default_workers():
    """Return the number of available cores, 1 to 1024, without SMT siblings and, on hybrid CPUs, without slow cores."""
    return pyd_sched_default_workers()


def cpu_features():
    """Return the usable features of the host's CPU by LLVM's names, such as `("sse3", "avx2")`."""
    cdef uint64_t bits[PYD_CPU_FEATURE_WORDS]
    cdef const char* name
    pyd_cpu_features(bits, PYD_CPU_FEATURE_WORDS)
    present = []
    for i in range(64 * PYD_CPU_FEATURE_WORDS):
        name = pyd_cpu_feature_name(i)
        if name == NULL:
            break
        if bits[i // 64] >> (i % 64) & 1:
            present.append(name.decode())
    return tuple(present)


def known_cpu_features():
    """Return {feature: bit} of all features of this architecture, present or not, by LLVM's names.

    The bit is an index in word 0 of `processor_data()`, -1 for a feature that kernels cannot query.
    """
    cdef const char* name
    known = {}
    for i in range(64 * PYD_CPU_FEATURE_WORDS):
        name = pyd_cpu_feature_name(i)
        if name == NULL:
            break
        known[name.decode()] = pyd_cpu_feature_bit(name)
    return known


def processor_data():
    """Return the eight 64-bit words that kernels receive as processor data: bits of CPU features in word 0."""
    cdef uint64_t words[PYD_CPU_WORDS]
    pyd_cpu_query(words)
    return tuple([words[i] for i in range(PYD_CPU_WORDS)])


def cache_sizes():
    """Return (level 1 data cache, level 2 cache) of one of the host's CPUs, sizes in bytes; 0 if unknown."""
    cdef uint64_t l1 = 0
    cdef uint64_t l2 = 0
    pyd_cpu_cache_sizes(&l1, &l2)
    return l1, l2
