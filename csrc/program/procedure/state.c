// The state of a loaded program between calls of its procedures: globals, and the cache of plans and calls.
#include "program/procedure/state.h"

#include <stdlib.h>

#include "program/plan/plan.h"

// Creates a tensor of |shape| over constant |index|. On a device, the tensor has the device's block of the constant,
// and also its bytes in this process if they are linked.
pyd_status_t pyd_state_constant(const pyd_state_t* state, uint32_t index, pyd_shape_t shape,
                                pyd_tensor_t** out_tensor) {
  const pyd_device_memory_t* device = state->memory.device;
  *out_tensor = NULL;
  if (device) {
    void* block;
    pyd_status_t status = device->constant(device->self, index, &block);
    const uint8_t* data = state->program->constant_links[index].data;
    if (!pyd_ok(status)) return status;
    return pyd_tensor_wrap_block(state->memory, shape, block, data, /* is_lent */ false, out_tensor);
  }
  const uint8_t* data;
  pyd_status_t status = pyd_program_constant_data(state->program, index, &data);
  return pyd_ok(status) ? pyd_tensor_wrap(shape, data, /* is_lent */ false, out_tensor) : status;
}

// Gives globals their initial values. A tensor without a constant stays empty until the first store.
static pyd_status_t set_globals(pyd_state_t* state) {
  const pyd_program_t* program = state->program;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->global_count && pyd_ok(status); ++i) {
    const pyd_global_t* global = &program->globals[i];
    if (global->type.kind == PYD_KIND_SCALAR) {
      pyd_cell_set_word(&state->globals[i], global->value);
    } else if (global->constant != PYD_NONE) {
      pyd_tensor_t* tensor = NULL;
      const pyd_shape_t shape = {global->type.dtype, global->type.rank, global->type.dims};
      status = pyd_state_constant(state, global->constant, shape, &tensor);
      status = pyd_status_annotate(status, "global '%.*s': %s", STRING(global->name), pyd_status_text(status));
      if (pyd_ok(status)) pyd_cell_set_tensor(&state->globals[i], tensor);
    }
  }
  return status;
}

// Creates the state of a linked program: its globals, with their initial values, and the caches of its calls.
// |program|, |sched|, which may be NULL, and |pool| must outlive the state.
pyd_status_t pyd_state_create(const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool,
                              pyd_state_t** out_state) {
  *out_state = NULL;
  pyd_state_t* state = calloc(1, sizeof(*state));
  if (!state) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the state of a program");
  state->program = program;
  state->sched = sched;
  state->memory = (pyd_memory_t){pool, program->device_memory.run ? &program->device_memory : NULL};
  pthread_mutex_init(&state->mutex, NULL);
  pthread_mutex_init(&state->submit_mutex, NULL);
  pthread_mutex_init(&state->changing, NULL);
  pyd_gate_init(&state->gate, sched);
  // One element more than needed, as calloc may return NULL for no bytes.
  state->caches = calloc((size_t)program->function_count + 1, sizeof(*state->caches));
  state->globals = calloc((size_t)program->global_count + 1, sizeof(*state->globals));
  pyd_status_t status = PYD_STATUS_OK;
  if (!state->caches || !state->globals) {
    status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the state of a program with %u functions",
                             program->function_count);
  }
  if (pyd_ok(status)) status = set_globals(state);
  if (!pyd_ok(status)) {
    pyd_state_free(state);
    return status;
  }
  *out_state = state;
  return status;
}

// Frees the state of a program, which no call uses any more.
void pyd_state_free(pyd_state_t* state) {
  if (!state) return;
  for (uint32_t i = 0; state->caches && i < state->program->function_count; ++i) {
    for (uint32_t k = 0; k < PYD_STATE_PLANS; ++k) pyd_state_free_entry(state->caches[i].entries[k]);
  }
  for (uint32_t i = 0; state->globals && i < state->program->global_count; ++i) pyd_cell_clear(&state->globals[i]);
  pyd_task_release_end(state->last);
  pyd_gate_destroy(&state->gate);
  pthread_mutex_destroy(&state->submit_mutex);
  pthread_mutex_destroy(&state->mutex);
  pthread_mutex_destroy(&state->changing);
  free(state->caches);
  free(state->globals);
  free(state);
}

// Locks the mutexes of the gate and of the state over a fork, so that the child sees consistent globals. On a device
// |changing| is not taken: its holder may wait for Python's interpreter lock, which the forking thread has.
void pyd_state_fork_prepare(pyd_state_t* state) {
  pyd_gate_fork_prepare(&state->gate);
  if (!state->memory.device) pthread_mutex_lock(&state->changing);
  pthread_mutex_lock(&state->mutex);
}
// Unlocks in the parent of a fork what pyd_state_fork_prepare() has locked.
void pyd_state_fork_done(pyd_state_t* state) {
  pthread_mutex_unlock(&state->mutex);
  if (!state->memory.device) pthread_mutex_unlock(&state->changing);
  pyd_gate_fork_done(&state->gate);
}
// Restores the state in the child of a fork, where calls of other threads have ended half-way.
void pyd_state_fork_child(pyd_state_t* state) {
  pyd_gate_fork_child(&state->gate);
  pthread_mutex_unlock(&state->mutex);
  if (state->memory.device) {
    pthread_mutex_init(&state->changing, NULL);
  } else {
    pthread_mutex_unlock(&state->changing);
    // The gate is not taken if the call inside belonged to another thread, which the child does not have. Undoes the
    // changes of that call.
    if (!state->gate.is_taken) pyd_state_abandon(state);
  }
  // Initialized anew, as pyd_state_fork_prepare() does not lock it: its holder may wait for the task system.
  pthread_mutex_init(&state->submit_mutex, NULL);
  state->last = NULL;  // a task submitted before the fork exists in the parent only
}

// Waits for the gate, which admits one call that stores to globals at a time, and enters it.
pyd_status_t pyd_state_enter(pyd_state_t* state, const pyd_interrupt_t* interrupt, pyd_scope_t* scope) {
  return pyd_gate_enter(
      &state->gate, interrupt,
      "a program with mutable globals is called by one of its own kernels. Calls of such a program come one "
      "after another, so this one would wait for the call that it is part of: call it when that has "
      "returned, or load the program once more and call that one",
      scope);
}

void pyd_state_leave(pyd_state_t* state, const pyd_scope_t* scope) { pyd_gate_leave(&state->gate, scope); }

// Locks both mutexes of a state, |changing| first.
static void lock_both(pyd_state_t* state) {
  pthread_mutex_lock(&state->changing);
  pthread_mutex_lock(&state->mutex);
}

// Unlocks what lock_both() has locked.
static void unlock_both(pyd_state_t* state) {
  pthread_mutex_unlock(&state->mutex);
  pthread_mutex_unlock(&state->changing);
}

// Stores the committed value of |global| in the empty cell |out|: the value without the changes of a call that has not
// ended. Such a call may have changed bytes of the tensor in place; |out| then gets a copy with the old bytes.
pyd_status_t pyd_state_load(pyd_state_t* state, uint32_t global, pyd_cell_t* out) {
  pthread_mutex_lock(&state->mutex);
  pyd_cell_share(&state->globals[global], out);
  bool has_changed = state->is_changing && pyd_state_has_changed(state, out->tensor);
  pthread_mutex_unlock(&state->mutex);
  if (!has_changed) return PYD_STATUS_OK;
  // The call that has changed the global is this one: all others load from a snapshot.
  pthread_mutex_lock(&state->changing);
  pyd_status_t status = pyd_state_copy_old(state, out);
  pthread_mutex_unlock(&state->changing);
  if (!pyd_ok(status)) pyd_cell_clear(out);
  return status;
}

// Stores the values of the globals that |p| loads in the cells |out|, one per global of the program; other cells stay
// empty. The caller holds the mutex.
static void share_loaded(const pyd_state_t* state, const pyd_procedure_t* p, pyd_cell_t* out) {
  for (uint32_t i = 0; i < p->step_count; ++i) {
    const pyd_step_t* step = &p->steps[i];
    if (step->op == PYD_STEP_LOAD && !out[step->b].is_set) pyd_cell_share(&state->globals[step->b], &out[step->b]);
  }
}

// Stores a consistent snapshot of the globals that |p| loads in the empty cells |out|, one per global. A global that a
// running call has changed in place is copied with its old bytes.
pyd_status_t pyd_state_snapshot(pyd_state_t* state, const pyd_procedure_t* p, pyd_cell_t* out) {
  pthread_mutex_lock(&state->mutex);
  bool is_changing = state->is_changing;
  if (!is_changing) share_loaded(state, p, out);
  pthread_mutex_unlock(&state->mutex);
  if (!is_changing) return PYD_STATUS_OK;
  // |changing| is held until old values are copied: the running call can neither change more bytes meanwhile, nor end
  // its changes and free the saved bytes.
  lock_both(state);
  share_loaded(state, p, out);
  pthread_mutex_unlock(&state->mutex);
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < state->program->global_count && pyd_ok(status); ++i) {
    if (pyd_state_has_changed(state, out[i].tensor)) status = pyd_state_copy_old(state, &out[i]);
  }
  pthread_mutex_unlock(&state->changing);
  return status;
}

// Commits the values in |cells|, one per global, to the globals, and empties the cells. Releases old values and saved
// bytes after unlocking: a device that releases memory takes Python's interpreter lock, which a forking thread holds
// while it waits for |mutex|.
void pyd_state_commit(pyd_state_t* state, pyd_cell_t* cells) {
  lock_both(state);
  for (uint32_t i = 0; i < state->program->global_count; ++i) {
    if (!cells[i].is_set) continue;  // the call has stored no value in this global
    pyd_cell_t old = state->globals[i];
    state->globals[i] = cells[i];
    cells[i] = old;
  }
  pyd_change_t* changes = pyd_state_end_changes(state);
  unlock_both(state);
  for (uint32_t i = 0; i < state->program->global_count; ++i) pyd_cell_clear(&cells[i]);
  pyd_state_free_changes(changes);
}

// Restores the bytes that a failed call has changed in place, so that globals have their old values. |changing| keeps
// other calls from loading the globals meanwhile. |mutex| is locked only afterwards: a device that restores bytes may
// take Python's interpreter lock, which a forking thread holds while it waits for |mutex|.
void pyd_state_abandon(pyd_state_t* state) {
  pthread_mutex_lock(&state->changing);
  pyd_state_restore(state);
  pthread_mutex_lock(&state->mutex);
  pyd_change_t* changes = pyd_state_end_changes(state);
  unlock_both(state);
  pyd_state_free_changes(changes);
}
