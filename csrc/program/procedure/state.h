// The state of a loaded program between calls of its procedures: globals, and the cache of plans and calls.
#ifndef PYD_PROGRAM_STATE_H_
#define PYD_PROGRAM_STATE_H_

#include <pthread.h>

#include "program/gate.h"
#include "program/plan/plan.h"
#include "program/procedure/tensor.h"
#include "pydispatch/procedure.h"
#include "pydispatch/task.h"

// Plans cached per function, and idle calls per plan. More of them keep more memory; with fewer, functions that are
// called with many sizes, or by many threads, build plans and calls again.
enum { PYD_STATE_PLANS = 16, PYD_STATE_IDLE_CALLS = 4 };

// A plan with its idle calls.
typedef struct pyd_state_entry_s {
  uint64_t key;  // pyd_plan_hash() of the sizes and scalars of |plan|
  pyd_plan_t* plan;
  uint32_t users;       // leases of its calls that are not returned yet
  bool is_cached;       // otherwise the last user frees it
  uint32_t idle_count;  // calls in |idle|, which no lease has
  pyd_call_t* idle[PYD_STATE_IDLE_CALLS];
} pyd_state_entry_t;

// The plans of one function, each for other sizes; a ring.
typedef struct pyd_state_cache_s {
  pyd_state_entry_t* entries[PYD_STATE_PLANS];
  uint32_t next;  // index of the entry that is replaced next
} pyd_state_cache_t;

typedef struct pyd_change_s pyd_change_t;

// The state of a loaded program between calls: its globals, and the plans of its functions.
struct pyd_state_s {
  const pyd_program_t* program;
  pyd_sched_t* sched;
  pyd_memory_t memory;        // of tensors
  pthread_mutex_t mutex;      // of everything below, held for moments
  pyd_state_cache_t* caches;  // by function
  pyd_cell_t* globals;
  pyd_gate_t gate;               // admits one call at a time that stores to globals
  pthread_mutex_t submit_mutex;  // of |last|
  pyd_task_t* last;              // the last submitted call that uses mutable globals, or NULL
  // Updates in place by the call inside the gate, see change.c. |changes| is written under both mutexes, |changing|
  // first.
  bool is_changing;
  pthread_mutex_t changing;  // held while bytes are saved, or copied for a reader
  pyd_change_t* changes;     // newest first
  uint32_t change_count;
};

// A call of a function that is in use, with its cache entry.
typedef struct pyd_state_lease_s {
  pyd_state_entry_t* entry;
  pyd_call_t* call;
} pyd_state_lease_t;

// Leases a call of |function| for these sizes, from the cache or newly created.
pyd_status_t pyd_state_lease(pyd_state_t* state, uint32_t function, const int64_t* dims, const uint64_t* scalars,
                             pyd_state_lease_t* out_lease);
// Returns a leased call to the cache, or frees it if the cache has no room.
void pyd_state_return(pyd_state_t* state, pyd_state_lease_t lease);
// Frees an entry, which may be NULL and must not be in use, with its plan and idle calls.
void pyd_state_free_entry(pyd_state_entry_t* entry);

// Enters the gate of calls that store to globals. |scope| must live until the caller leaves: through it, threads that
// work for the call see that they are inside. INVALID_ARGUMENT when this thread is inside already, INTERRUPTED when
// |interrupt| (may be NULL) ends the waiting.
pyd_status_t pyd_state_enter(pyd_state_t* state, const pyd_interrupt_t* interrupt, pyd_scope_t* scope);
void pyd_state_leave(pyd_state_t* state, const pyd_scope_t* scope);

// Creates a tensor of |shape| over constant |index| of the program.
pyd_status_t pyd_state_constant(const pyd_state_t* state, uint32_t index, pyd_shape_t shape, pyd_tensor_t** out_tensor);
// Stores the committed value of |global| in the empty cell |out|, without changes of a call that has not ended.
pyd_status_t pyd_state_load(pyd_state_t* state, uint32_t global, pyd_cell_t* out);
// Stores a consistent snapshot of the globals that |p| loads in the empty cells |out|, one per global.
pyd_status_t pyd_state_snapshot(pyd_state_t* state, const pyd_procedure_t* p, pyd_cell_t* out);
// Commits the values in |cells|, one per global, to the globals, and empties the cells.
void pyd_state_commit(pyd_state_t* state, pyd_cell_t* cells);
// Undoes what a failed call has changed in place, so that globals have their old values.
void pyd_state_abandon(pyd_state_t* state);

// change.c: creates a tensor of |shape| over the memory of |tensor|, of which the caller is about to write |ranges|,
// and saves their old bytes. Returns NULL in |out_tensor| if anything but one global and the caller's slot refers to
// the memory, or the ranges are more than a small part of it. The caller is inside the gate.
pyd_status_t pyd_state_change(pyd_state_t* state, pyd_tensor_t* tensor, const pyd_range_t* ranges, uint32_t count,
                              pyd_shape_t shape, pyd_tensor_t** out_tensor);
// Saves rows of |tensor| that updates are about to overwrite: |saved| has their old elements and |positions|, of i64,
// the number of each row of that size, or a negative one for a row that is not written. Creates a view of |tensor|,
// over which pyd_state_change_rows() may create results; NULL in |out_tensor| if anything but one global and the
// caller's slot refers to the memory, or the rows are many. The caller is inside the gate.
pyd_status_t pyd_state_save_rows(pyd_state_t* state, pyd_tensor_t* tensor, pyd_tensor_t* positions, pyd_tensor_t* saved,
                                 pyd_tensor_t** out_tensor);
// Creates a tensor of |shape| over the memory of |tensor|, of which the caller is about to write saved rows alone. NULL
// in |out_tensor| if no rows were saved, or anything but one global and the caller's slot refers to the memory.
pyd_status_t pyd_state_change_rows(pyd_state_t* state, pyd_tensor_t* tensor, pyd_shape_t shape,
                                   pyd_tensor_t** out_tensor);
// Returns whether bytes of |tensor| (may be NULL) were changed in place. The caller holds one of the mutexes.
bool pyd_state_has_changed(const pyd_state_t* state, const pyd_tensor_t* tensor);
// Replaces the tensor in |cell|, which was changed in place, by a copy of its old value. The caller holds |changing|.
pyd_status_t pyd_state_copy_old(const pyd_state_t* state, pyd_cell_t* cell);
// Writes the saved bytes back; if that fails, the changed globals become empty. The caller holds |changing|, but not
// |mutex|.
void pyd_state_restore(pyd_state_t* state);
// Ends changing in place: the globals are as the call has left them. Returns the saved bytes, to be released by
// pyd_state_free_changes(). The caller holds both mutexes.
pyd_change_t* pyd_state_end_changes(pyd_state_t* state);
// Releases saved bytes, which may be NULL. The caller holds neither mutex.
void pyd_state_free_changes(pyd_change_t* changes);

#endif  // PYD_PROGRAM_STATE_H_
