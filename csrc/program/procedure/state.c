#include "program/procedure/state.h"

#include <stdlib.h>
#include <time.h>

#include "base/scope.h"
#include "program/plan/plan.h"

static pyd_status_t set_globals(pyd_state_t* state) {
  const pyd_program_t* program = state->program;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->global_count && pyd_ok(status); ++i) {
    const pyd_global_t* global = &program->globals[i];
    if (global->type.kind == 1) {
      pyd_cell_set_word(&state->globals[i], global->value);
    } else if (global->constant != PYD_NONE) {
      const uint8_t* data = program->constant_links[global->constant].data;
      pyd_tensor_t* tensor = NULL;
      if (!data) {
        status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "global '%.*s': constant %u is not linked", STRING(global->name),
                                 global->constant);
      } else {
        status = pyd_tensor_wrap(global->type.dtype, global->type.rank, global->type.dims, data, false, &tensor);
      }
      if (pyd_ok(status)) pyd_cell_set_tensor(&state->globals[i], tensor);
    }
  }
  return status;
}

pyd_status_t pyd_state_create(const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool, pyd_state_t** out_state) {
  *out_state = NULL;
  pyd_state_t* state = calloc(1, sizeof(*state));
  if (!state) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the state of a program");
  state->program = program;
  state->sched = sched;
  state->pool = pool;
  if (sched) state->scopes = pyd_sched_scopes(sched);
  pthread_mutex_init(&state->mutex, NULL);
  pthread_cond_init(&state->is_open, NULL);
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

enum { PYD_STATE_ASK_NANOSECONDS = 50000000 };  // between two questions whether to go on waiting

void pyd_state_free(pyd_state_t* state) {
  if (!state) return;
  for (uint32_t i = 0; state->caches && i < state->program->function_count; ++i) {
    for (uint32_t k = 0; k < PYD_STATE_PLANS; ++k) pyd_state_free_entry(state->caches[i].entries[k]);
  }
  for (uint32_t i = 0; state->globals && i < state->program->global_count; ++i) pyd_cell_clear(&state->globals[i]);
  pthread_cond_destroy(&state->is_open);
  pthread_mutex_destroy(&state->mutex);
  free(state->caches);
  free(state->globals);
  free(state);
}

void pyd_state_fork_prepare(pyd_state_t* state) { pthread_mutex_lock(&state->mutex); }
void pyd_state_fork_done(pyd_state_t* state) { pthread_mutex_unlock(&state->mutex); }
void pyd_state_fork_child(pyd_state_t* state) {
  // Whoever was inside or waited is gone; its stores were not committed. The thread that forks is inside only when a
  // kernel forks, and then goes on.
  pthread_cond_init(&state->is_open, NULL);
  if (state->is_taken && !pthread_equal(state->holder, pthread_self())) state->is_taken = false;
  pthread_mutex_unlock(&state->mutex);
}

// Whether the call that is inside is waiting for this thread. A thread of a pool works for whoever runs the job.
static bool is_inside(const pyd_state_t* state) {
  return state->is_taken && (pthread_equal(state->holder, pthread_self()) || pyd_scope_has(state->scopes, state));
}

// Waits for a change of |is_open|, a while at most when there is an interrupt to ask. Under the mutex, which is not held
// while the interrupt is asked.
static pyd_status_t wait_a_while(pyd_state_t* state, const pyd_interrupt_t* interrupt) {
  if (!interrupt) {
    pthread_cond_wait(&state->is_open, &state->mutex);
    return PYD_STATUS_OK;
  }
  struct timespec until;
  timespec_get(&until, TIME_UTC);  // the clock of pthread_cond_timedwait
  until.tv_nsec += PYD_STATE_ASK_NANOSECONDS;
  if (until.tv_nsec >= 1000000000) until.tv_sec += 1, until.tv_nsec -= 1000000000;
  if (!pthread_cond_timedwait(&state->is_open, &state->mutex, &until)) return PYD_STATUS_OK;
  pthread_mutex_unlock(&state->mutex);
  bool is_wanted = interrupt->is_wanted(interrupt->self) != 0;
  pthread_mutex_lock(&state->mutex);
  if (!is_wanted) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INTERRUPTED, "the call was interrupted while it waited for another one of its program");
}

pyd_status_t pyd_state_enter(pyd_state_t* state, const pyd_interrupt_t* interrupt, pyd_scope_t* scope) {
  pyd_status_t status = PYD_STATUS_OK;
  pthread_mutex_lock(&state->mutex);
  if (is_inside(state)) {
    status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "a program with mutable globals is called by one of its own kernels. "
                             "Calls of such a program come one after another, so this one would wait for the call that it is "
                             "part of: call it when that has returned, or load the program once more and call that one");
  }
  while (pyd_ok(status) && state->is_taken) status = wait_a_while(state, interrupt);
  if (pyd_ok(status)) {
    state->is_taken = true;
    state->holder = pthread_self();
  } else {
    pthread_cond_signal(&state->is_open);  // a signal that came to this thread meanwhile belongs to the next one
  }
  pthread_mutex_unlock(&state->mutex);
  if (!pyd_ok(status)) return status;
  *scope = (pyd_scope_t){pyd_scope_now(state->scopes), state};
  pyd_scope_set(state->scopes, scope);
  return status;
}

void pyd_state_leave(pyd_state_t* state, const pyd_scope_t* scope) {
  pyd_scope_set(state->scopes, scope->outer);
  pthread_mutex_lock(&state->mutex);
  state->is_taken = false;
  pthread_cond_signal(&state->is_open);
  pthread_mutex_unlock(&state->mutex);
}

void pyd_state_load(pyd_state_t* state, uint32_t global, pyd_cell_t* out) {
  pthread_mutex_lock(&state->mutex);
  pyd_cell_share(&state->globals[global], out);
  pthread_mutex_unlock(&state->mutex);
}

void pyd_state_commit(pyd_state_t* state, pyd_cell_t* cells) {
  pthread_mutex_lock(&state->mutex);
  for (uint32_t i = 0; i < state->program->global_count; ++i) {
    if (!cells[i].is_set) continue;
    pyd_cell_t old = state->globals[i];
    state->globals[i] = cells[i];
    cells[i] = old;  // let go by the caller, outside the lock
  }
  pthread_mutex_unlock(&state->mutex);
  for (uint32_t i = 0; i < state->program->global_count; ++i) pyd_cell_clear(&cells[i]);
}
