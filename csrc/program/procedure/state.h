// What a loaded program keeps between calls of its procedures.
#ifndef PYD_PROGRAM_STATE_H_
#define PYD_PROGRAM_STATE_H_

#include <pthread.h>

#include "program/gate.h"
#include "program/plan/plan.h"
#include "program/procedure/tensor.h"
#include "pydispatch/procedure.h"
#include "pydispatch/task.h"

enum { PYD_STATE_PLANS = 16, PYD_STATE_IDLE_CALLS = 4 };

// A plan with its unused calls.
typedef struct pyd_state_entry_s {
  uint64_t key;
  pyd_plan_t* plan;
  uint32_t users;
  bool is_kept;  // in a cache; else it goes with its last user
  uint32_t idle_count;
  pyd_call_t* idle[PYD_STATE_IDLE_CALLS];
} pyd_state_entry_t;

// The plans of one function, each for other sizes.
typedef struct pyd_state_cache_s {
  pyd_state_entry_t* entries[PYD_STATE_PLANS];
  uint32_t next;  // where the next one goes
} pyd_state_cache_t;

typedef struct pyd_change_s pyd_change_t;

struct pyd_state_s {
  const pyd_program_t* program;
  pyd_sched_t* sched;
  pyd_memory_t memory;        // of tensors
  pthread_mutex_t mutex;      // of everything below, held for moments
  pyd_state_cache_t* caches;  // by function
  pyd_cell_t* globals;
  pyd_gate_t gate;               // of calls that store to globals
  pthread_mutex_t submit_mutex;  // of |last|
  pyd_task_t* last;              // submitted of calls that store to or load mutable globals, or NULL
  // Updates in place by the call inside the gate, see change.c. |changes| is written under both mutexes, |changing|
  // first.
  bool is_changing;
  pthread_mutex_t changing;  // held while bytes are saved, or copied for a reader
  pyd_change_t* changes;     // the last one first
  uint32_t change_count;
};

// A call of a function that is in use.
typedef struct pyd_state_lease_s {
  pyd_state_entry_t* entry;
  pyd_call_t* call;
} pyd_state_lease_t;

// A call of |function| for these sizes, from the cache or made now.
pyd_status_t pyd_state_lease(pyd_state_t* state, uint32_t function, const int64_t* dims, const uint64_t* scalars,
                             pyd_state_lease_t* out_lease);
void pyd_state_return(pyd_state_t* state, pyd_state_lease_t lease);
// |entry| may be NULL. It is not in use.
void pyd_state_free_entry(pyd_state_entry_t* entry);

// The gate of calls that store. |scope|, which the caller keeps until it leaves, tells threads that work for the call
// that they are inside. INVALID_ARGUMENT when this thread is, INTERRUPTED when |interrupt| (may be NULL) ends the
// waiting.
pyd_status_t pyd_state_enter(pyd_state_t* state, const pyd_interrupt_t* interrupt, pyd_scope_t* scope);
void pyd_state_leave(pyd_state_t* state, const pyd_scope_t* scope);

// Constant |index| of the program with the sizes |shape|.
pyd_status_t pyd_state_constant(const pyd_state_t* state, uint32_t index, pyd_shape_t shape, pyd_tensor_t** out_tensor);
// |out| holds nothing.
pyd_status_t pyd_state_load(pyd_state_t* state, uint32_t global, pyd_cell_t* out);
// The globals that |p| loads, as one moment has them, into the empty cells |out|, one per global.
pyd_status_t pyd_state_snapshot(pyd_state_t* state, const pyd_procedure_t* p, pyd_cell_t* out);
// Stores the cells that are set, one per global, and empties them.
void pyd_state_commit(pyd_state_t* state, pyd_cell_t* cells);
// After a failure: globals have their old values.
void pyd_state_abandon(pyd_state_t* state);

// change.c. A tensor of |shape| in the memory of |tensor|, of which the caller is about to write |ranges|, when only a
// global and the slot of the caller have it; NULL otherwise. The caller is inside the gate.
pyd_status_t pyd_state_change(pyd_state_t* state, pyd_tensor_t* tensor, const pyd_range_t* ranges, uint32_t count,
                              pyd_shape_t shape, pyd_tensor_t** out_tensor);
// Under one of the mutexes: whether bytes of |tensor| (may be NULL) were changed.
bool pyd_state_has_changed(const pyd_state_t* state, const pyd_tensor_t* tensor);
// Under |changing|: a copy of the old value takes the place of the tensor in |cell|, which has changed.
pyd_status_t pyd_state_copy_old(const pyd_state_t* state, pyd_cell_t* cell);
// Under both mutexes, or when nothing else runs.
void pyd_state_keep_changes(pyd_state_t* state);
void pyd_state_undo_changes(pyd_state_t* state);

#endif  // PYD_PROGRAM_STATE_H_
