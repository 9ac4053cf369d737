from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.c_trace cimport pyd_trace_t

cdef extern from "pydispatch/sched.h" nogil:
    ctypedef struct pyd_sched_t:
        pass
    ctypedef struct pyd_scope_t:
        const pyd_scope_t* outer
        const void* owner
        uint32_t workers
        uint32_t permit
    ctypedef struct pyd_scope_access_t:
        const pyd_scope_t* (*get)() noexcept nogil
        void (*set)(const pyd_scope_t* innermost) noexcept nogil
    ctypedef struct pyd_permits_t:
        pass
    ctypedef struct pyd_sched_threads_t:
        bint are_lent
    ctypedef struct pyd_sched_options_t:
        uint32_t workers
        bint has_affinity
        int32_t spin_us
        pyd_scope_access_t scopes
        pyd_permits_t* permits
        pyd_sched_threads_t threads
        pyd_trace_t* trace
    ctypedef int32_t (*pyd_sched_body_fn_t)(
        void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed
    ) noexcept nogil
    ctypedef struct pyd_sched_cost_t:
        uint32_t picoseconds
        uint32_t runs
    ctypedef struct pyd_sched_job_t:
        pyd_sched_body_fn_t body
        void* self
        uint64_t count
        pyd_sched_cost_t* cost
    ctypedef struct pyd_sched_failure_t:
        int32_t code
        uint64_t index

    pyd_status_t pyd_sched_create(const pyd_sched_options_t* options, pyd_sched_t** out_sched)
    void pyd_sched_destroy(pyd_sched_t* sched)
    pyd_status_t pyd_sched_stop(pyd_sched_t* sched)
    bint pyd_sched_is_inside(pyd_sched_t* sched)
    uint32_t pyd_sched_workers(const pyd_sched_t* sched)
    void pyd_sched_run(pyd_sched_t* sched, const pyd_sched_job_t* job, pyd_sched_failure_t* out_failure)
    uint32_t pyd_sched_available_cpus()
    uint32_t pyd_sched_default_workers()
    void pyd_sched_trace_threads(pyd_sched_t* sched)
    void pyd_sched_fork_prepare(pyd_sched_t* sched)
    void pyd_sched_fork_parent(pyd_sched_t* sched)
    void pyd_sched_fork_child(pyd_sched_t* sched)

cdef extern from "pydispatch/cpu.h" nogil:
    enum:
        PYD_CPU_WORDS
        PYD_CPU_FEATURE_WORDS
    void pyd_cpu_query(uint64_t* out_words)
    const char* pyd_cpu_feature_name(size_t index)
    void pyd_cpu_features(uint64_t* out_bits, size_t words)
    int pyd_cpu_feature_bit(const char* name)
    void pyd_cpu_cache_sizes(uint64_t* out_l1_data, uint64_t* out_l2)
