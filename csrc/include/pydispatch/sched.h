// The CPU task system: a pool of threads that runs ranges of independent indices.
//
// A job is a count of workgroups and a body. Whoever calls pyd_sched_run works on the job itself; pool threads join when
// it is worth waking them. Each participant owns a range of the indices and splits it lazily; one that runs dry takes
// the upper half of somebody else's. There is no lock and no allocation per workgroup or per job.
//
// Every function may be called from any thread, several jobs run at once, and a body may start a job of its own.
#ifndef PYDISPATCH_SCHED_H_
#define PYDISPATCH_SCHED_H_

#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_sched_s pyd_sched_t;

// What a thread works for. A chain, innermost first, of what is under way: the scope of a job that a thread of a pool takes
// part in leads on to the scopes of the job's caller, so that something that must not be entered twice sees on every
// thread that it is called from inside itself. Scopes lie on stacks; |owner| is an address that only its owner compares.
typedef struct pyd_scope_s {
  const struct pyd_scope_s* outer;
  const void* owner;
} pyd_scope_t;

// Where threads keep their innermost scope: one variable per thread, which all task systems of a process share. Both may be
// NULL; then only the threads of the pool itself are known to work for it.
typedef struct pyd_scope_access_s {
  const pyd_scope_t* (*get)(void);
  void (*set)(const pyd_scope_t* innermost);
} pyd_scope_access_t;

typedef struct pyd_sched_options_s {
  // Participants in one job, the calling thread included: 1 starts no thread at all. 0: as many as the CPUs that the
  // process may use (affinity mask and cgroup quota).
  uint32_t workers;
  // How long an idle pool thread spins before it parks, in microseconds. -1: adaptive (tuning.h).
  int32_t spin_us;
  pyd_scope_access_t scopes;
} pyd_sched_options_t;

// Starts workers - 1 threads. UNAVAILABLE or SYSTEM when they cannot be had.
pyd_status_t pyd_sched_create(const pyd_sched_options_t* options, pyd_sched_t** out_sched);
// Joins the threads and frees everything. No other thread may be in pyd_sched_run or enter it. NULL is allowed.
void pyd_sched_destroy(pyd_sched_t* sched);
// Joins the threads and keeps the rest: the next job that wants them starts them again. Jobs may be running meanwhile;
// their callers finish them. INVALID_ARGUMENT, and nothing is done, on a thread that works for one of its jobs: the
// threads would wait for one another. No lock is held while it waits.
pyd_status_t pyd_sched_stop(pyd_sched_t* sched);
// Whether this thread works for a job of |sched| that is shared with the pool.
bool pyd_sched_is_inside(const pyd_sched_t* sched);
pyd_scope_access_t pyd_sched_scopes(const pyd_sched_t* sched);
uint32_t pyd_sched_workers(const pyd_sched_t* sched);

// Runs indices [begin, end) of a job, in order. |worker| < pyd_sched_workers(): no two calls that run at the same time
// within one job have the same worker number, so it may index scratch memory. Returns 0, or the non-zero code of the
// first index that failed after writing that index to |out_failed|; the indices behind it are not run.
typedef int32_t (*pyd_sched_body_fn_t)(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);

// What the task system has learned about the cost of one index of a job, kept by the caller from run to run (one per
// dispatch of a plan). Zero-initialised: nothing known yet. Written with relaxed atomics.
typedef struct pyd_sched_cost_s {
  uint32_t picoseconds;  // per index, an average; accessed atomically
  uint32_t runs;         // counts, so that a job of almost nothing is measured now and then only; accessed atomically
} pyd_sched_cost_t;

typedef struct pyd_sched_job_s {
  pyd_sched_body_fn_t body;
  void* self;
  uint64_t count;          // indices; 0 is allowed and runs nothing
  pyd_sched_cost_t* cost;  // may be NULL
  const pyd_interrupt_t* interrupt;  // may be NULL; asked by the thread that runs the job
} pyd_sched_job_t;

typedef struct pyd_sched_failure_s {
  int32_t code;  // 0: no failure
  uint64_t index;
  bool is_interrupted;  // the job's interrupt ended it; |code| is not 0 then and means nothing
} pyd_sched_failure_t;

// Runs the whole job and returns when every index is done. A job too small to be worth waking a thread runs on the
// caller. When a body fails the rest is not started; the failure of the lowest failed index that was run is reported.
// Memory written by the bodies is visible to the caller afterwards. Bodies run with the rounding and denormal mode of the
// caller on every thread. Never fails by itself. An interrupt is heard between two indices: after 1024 of them, or after a
// millisecond, whichever is first.
void pyd_sched_run(pyd_sched_t* sched, const pyd_sched_job_t* job, pyd_sched_failure_t* out_failure);

// CPUs this process may use: affinity mask and cgroup (v1, v2) quota, at least 1.
uint32_t pyd_sched_available_cpus(void);

// Around fork (pthread_atfork): |before| in the parent, then |parent| and |child| on either side. In the child the pool
// has no threads; they are started again by the next job that wants them. A child that was forked from inside a body may
// exec or exit and nothing else, for the rest of its job ran on threads that it does not have.
void pyd_sched_fork_prepare(pyd_sched_t* sched);
void pyd_sched_fork_parent(pyd_sched_t* sched);
void pyd_sched_fork_child(pyd_sched_t* sched);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_SCHED_H_
