// The CPU scheduler: a pool of threads that runs ranges of independent indices.
//
// A job is a count of workgroups and a body. The caller of pyd_sched_run works on the job itself; pool threads join
// when it is worth waking them. Each participant owns a range of the indices and splits it lazily; one that is out of
// work steals the upper half of another's. There is no lock and no allocation per workgroup or per job.
//
// Every function may be called from any thread, several jobs run at once, and a body may start a job of its own.
#ifndef PYDISPATCH_SCHED_H_
#define PYDISPATCH_SCHED_H_

#include "pydispatch/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_sched_s pyd_sched_t;

// Whether the thread of a scope holds a compute permit. INHERITED: as in the outer scope.
typedef enum pyd_scope_permit_e {
  PYD_SCOPE_PERMIT_INHERITED,
  PYD_SCOPE_PERMIT_HELD,
  PYD_SCOPE_PERMIT_NONE
} pyd_scope_permit_t;

// A chain, innermost first, of the operations that a thread works for. The scope of a job on a pool thread links to the
// scopes of the job's caller, so that a non-reentrant operation detects recursion on every thread. Scopes are allocated
// on stacks; |owner| is an address that only its owner compares.
typedef struct pyd_scope_s {
  const struct pyd_scope_s* outer;
  const void* owner;
  uint32_t workers;  // jobs that are run within it have at most so many participants; 0: no limit of its own
  uint32_t permit;   // pyd_scope_permit_t
} pyd_scope_t;

// Functions that read and set the innermost scope of the current thread: one variable per thread, shared by all
// schedulers of a process. Both may be NULL: scopes are then not tracked, so that a scheduler cannot recognize a thread
// outside its pool that works for one of its jobs.
typedef struct pyd_scope_access_s {
  const pyd_scope_t* (*get)(void);
  void (*set)(const pyd_scope_t* innermost);
} pyd_scope_access_t;

// Compute permits: how many threads compute at once. Schedulers that share one have together as many permits as the
// largest of them alone: its workers, or the CPUs where these are more.
typedef struct pyd_permits_s pyd_permits_t;

// Returns NULL when there is no memory.
pyd_permits_t* pyd_permits_create(void);
// After the last scheduler that uses the permits is destroyed. NULL is allowed.
void pyd_permits_destroy(pyd_permits_t* permits);
// Handlers of a fork; in the child they run before those of the schedulers.
void pyd_permits_fork_prepare(pyd_permits_t* permits);
void pyd_permits_fork_parent(pyd_permits_t* permits);
void pyd_permits_fork_child(pyd_permits_t* permits);

// Threads of a pool, as the embedder provides them. All zero: the scheduler starts its own threads, without callbacks.
typedef struct pyd_sched_threads_s {
  bool are_lent;  // no thread is started; pyd_sched_lend donates up to |workers| threads
  // Called on each thread before and after it works, with no lock held. They may be NULL. Numbers from |workers| on are
  // threads that run tasks which may block (task.h).
  void (*on_start)(void* context, uint32_t worker);
  void (*on_stop)(void* context, uint32_t worker);
  void* context;
} pyd_sched_threads_t;

// Options of a scheduler: its number of threads, and how they are pinned, wait and are observed.
typedef struct pyd_sched_options_s {
  // Participants in one job, including the calling thread: 1 starts no thread. 0: pyd_sched_default_workers().
  uint32_t workers;
  // Pins each pool thread to its own CPU while there are enough, fast cores first and CPUs with a common cache one
  // after another. A thread steals from threads with a common cache first. Callers and donated threads are not pinned.
  bool has_affinity;
  // How long an idle pool thread spins before it parks, in microseconds. -1: adaptive (tuning.h).
  int32_t spin_us;
  pyd_scope_access_t scopes;
  pyd_permits_t* permits;  // shared with other schedulers, outlives this one; NULL: permits of its own
  pyd_sched_threads_t threads;
  pyd_trace_t* trace;  // of its threads and calls; may be NULL
} pyd_sched_options_t;

// Starts workers - 1 threads. UNAVAILABLE or SYSTEM when that fails, UNSUPPORTED for affinity where the system has
// none.
pyd_status_t pyd_sched_create(const pyd_sched_options_t* options, pyd_sched_t** out_sched);
// Joins the threads and frees everything. No other thread may be in pyd_sched_run or enter it. On a thread of the pool,
// also a donated one, it returns at once, and that thread frees the scheduler when it leaves the pool; on_stop may be
// called until then. NULL is allowed.
void pyd_sched_destroy(pyd_sched_t* sched);
// Joins the threads and keeps the rest: the next job that needs them restarts them. Jobs may be running meanwhile;
// their callers finish them. INVALID_ARGUMENT without effect on a thread that works for one of its jobs or tasks, which
// would deadlock. No lock is held while it waits.
pyd_status_t pyd_sched_stop(pyd_sched_t* sched);
// Donates this thread to a pool whose threads are donated (are_lent), until |until| (NULL: never) requests an end or
// the scheduler is stopped. |until| is polled between two jobs, and every 50 milliseconds while there is none.
// INVALID_ARGUMENT when the scheduler starts its own threads, when as many threads are donated as it has workers, while
// it is being stopped, and on a thread that works for a job.
pyd_status_t pyd_sched_lend(pyd_sched_t* sched, const pyd_interrupt_t* until);
// Whether this thread works for a job of |sched| that is shared with the pool, or for a task, also in its on_done.
bool pyd_sched_is_inside(pyd_sched_t* sched);
pyd_scope_access_t pyd_sched_scopes(const pyd_sched_t* sched);

// State of a section of code that may sleep (I/O, locks, a server), on a thread that may work for a job or a task.
// Between pyd_sched_block_begin, which fills it, and pyd_sched_block_end on the same thread, the thread holds no
// compute permit. If the thread runs tasks which may block (task.h), the next one of them may begin. Allocated on the
// stack of the thread.
typedef struct pyd_blocking_s {
  pyd_sched_t* sched;  // NULL: begin and end do nothing
  pyd_scope_t scope;
  bool has_released_permit;  // the thread held a permit, which the end acquires again
  bool was_active;           // the thread runs tasks which may block, and was in no other section
} pyd_blocking_t;
void pyd_sched_block_begin(pyd_sched_t* sched, pyd_blocking_t* out_blocking);
void pyd_sched_block_end(pyd_blocking_t* blocking);

// NULL for NULL, and for one without.
pyd_trace_t* pyd_sched_trace(const pyd_sched_t* sched);
// Records of each pool thread that it is one, and how long it has been without work if it is. For the end of a trace,
// when it is off.
void pyd_sched_trace_threads(pyd_sched_t* sched);
uint32_t pyd_sched_workers(const pyd_sched_t* sched);

// Runs indices [begin, end) of a job, in order. |worker| < pyd_sched_workers(): no two calls that run at the same time
// within one job have the same worker number, so it may index scratch memory. Returns 0, or the non-zero code of the
// first index that failed after writing that index to |out_failed|; the indices after it are not run.
typedef int32_t (*pyd_sched_body_fn_t)(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed);

// Cost estimate of one index of a job. The caller stores one per dispatch of a plan and passes it to every run.
// Zero-initialised: not measured yet. Written with relaxed atomics.
typedef struct pyd_sched_cost_s {
  uint32_t picoseconds;  // per index, an average; accessed atomically
  uint32_t runs;         // counts, so that a tiny job is only measured occasionally; accessed atomically
} pyd_sched_cost_t;

// A loop over |count| indices: |body| is called with |self| for ranges of them, on several threads.
typedef struct pyd_sched_job_s {
  pyd_sched_body_fn_t body;
  void* self;
  uint64_t count;                    // indices; may be 0
  pyd_sched_cost_t* cost;            // may be NULL
  const pyd_interrupt_t* interrupt;  // may be NULL; polled by the thread that runs the job
} pyd_sched_job_t;

// What ended a job before all indices were done: the first failure, and its index.
typedef struct pyd_sched_failure_s {
  int32_t code;  // 0: no failure
  uint64_t index;
  bool is_interrupted;  // the job's interrupt ended it; |code| is then nonzero and meaningless
} pyd_sched_failure_t;

// Runs the whole job and returns when every index is done. A job below the break-even size runs on the caller alone.
// When a body fails the rest is not started; the failure of the lowest failed index that was run is reported. Memory
// written by the bodies is visible to the caller afterwards. Bodies run with the rounding and denormal mode of the
// caller on every thread. Never fails by itself. The interrupt is polled between two indices: after 1024 of them, or
// after a millisecond, whichever is first.
void pyd_sched_run(pyd_sched_t* sched, const pyd_sched_job_t* job, pyd_sched_failure_t* out_failure);

// CPUs this process may use: affinity mask and cgroup (v1, v2) quota, at least 1.
uint32_t pyd_sched_available_cpus(void);
// Cores among them, without their SMT siblings and, on hybrid CPUs, the slow ones: at least 1, and within the quota.
uint32_t pyd_sched_default_workers(void);

// Handlers of a fork (pthread_atfork): |prepare| in the parent, then |parent| in the parent and |child| in the child.
// In the child the pool has no threads; the next job that needs them restarts them. A child that was forked from inside
// a body may only exec or exit, because the rest of its job ran on threads that it does not have.
void pyd_sched_fork_prepare(pyd_sched_t* sched);
void pyd_sched_fork_parent(pyd_sched_t* sched);
void pyd_sched_fork_child(pyd_sched_t* sched);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_SCHED_H_
