// A lock that is held for long: waiting for it, and refusing threads that would wait for themselves.
#include "program/gate.h"

#include <time.h>

enum { kAskNanoseconds = 50000000 };  // interval at which a waiting thread polls its interrupt

// Opens a new gate. |sched|: the scheduler whose threads may work for its holder.
void pyd_gate_init(pyd_gate_t* gate, pyd_sched_t* sched) {
  *gate = (pyd_gate_t){.sched = sched};
  if (sched) gate->scopes = pyd_sched_scopes(sched);
  pthread_mutex_init(&gate->mutex, NULL);
  pthread_cond_init(&gate->is_open, NULL);
}

void pyd_gate_destroy(pyd_gate_t* gate) {
  pthread_cond_destroy(&gate->is_open);
  pthread_mutex_destroy(&gate->mutex);
}

// Between these two calls no fork happens, as forks lock the same mutex: the child sees a change of the data that the
// gate guards as a whole, or not at all.
void pyd_gate_change_begin(pyd_gate_t* gate) { pthread_mutex_lock(&gate->mutex); }
void pyd_gate_change_end(pyd_gate_t* gate) { pthread_mutex_unlock(&gate->mutex); }

void pyd_gate_fork_prepare(pyd_gate_t* gate) { pthread_mutex_lock(&gate->mutex); }
void pyd_gate_fork_done(pyd_gate_t* gate) { pthread_mutex_unlock(&gate->mutex); }
// Restores the gate in the child of a fork, where only the forking thread exists.
void pyd_gate_fork_child(pyd_gate_t* gate) {
  // All threads but the forking one are gone. If that is the holder, as a kernel of its call forks, it stays the
  // holder.
  pthread_cond_init(&gate->is_open, NULL);
  if (gate->is_taken && !pthread_equal(gate->holder, pthread_self())) gate->is_taken = false;
  pthread_mutex_unlock(&gate->mutex);
}

// Returns whether this thread is the holder or works for it, as a pool thread in a job of the holder does: the scope of
// the holder is among its scopes. Such a thread would deadlock if it waited.
static bool is_inside(const pyd_gate_t* gate) {
  return gate->is_taken && (pthread_equal(gate->holder, pthread_self()) || pyd_scope_has(gate->scopes, gate));
}

// Waits until |is_open| is signaled; with an interrupt, at most kAskNanoseconds, and polls the interrupt then. Returns
// INTERRUPTED if it requests the end. The caller holds the mutex, which is released while the interrupt is polled.
static pyd_status_t wait_a_while(pyd_gate_t* gate, const pyd_interrupt_t* interrupt) {
  if (!interrupt) {
    pthread_cond_wait(&gate->is_open, &gate->mutex);
    return PYD_STATUS_OK;
  }
  struct timespec until;
  timespec_get(&until, TIME_UTC);  // the clock of pthread_cond_timedwait
  until.tv_nsec += kAskNanoseconds;
  if (until.tv_nsec >= 1000000000) until.tv_sec += 1, until.tv_nsec -= 1000000000;
  if (!pthread_cond_timedwait(&gate->is_open, &gate->mutex, &until)) return PYD_STATUS_OK;
  pthread_mutex_unlock(&gate->mutex);
  bool is_wanted = interrupt->is_wanted(interrupt->self) != 0;
  pthread_mutex_lock(&gate->mutex);
  if (!is_wanted) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INTERRUPTED,
                         "the call was interrupted while it waited for another one of its program");
}

// Waits until no call is inside the gate, a lock that one call at a time holds, and enters. |scope|, which must stay in
// place until pyd_gate_leave(), marks the threads that work for this call as inside. INVALID_ARGUMENT with the text
// |refusal| if this thread is inside already: it would wait for itself. INTERRUPTED if |interrupt|, which may be NULL,
// ended the wait.
pyd_status_t pyd_gate_enter(pyd_gate_t* gate, const pyd_interrupt_t* interrupt, const char* refusal,
                            pyd_scope_t* scope) {
  pyd_status_t status = PYD_STATUS_OK;
  pthread_mutex_lock(&gate->mutex);
  if (is_inside(gate)) status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s", refusal);
  const bool waits = pyd_ok(status) && gate->is_taken;
  pyd_blocking_t blocking;
  if (waits) {  // release the compute permit of this thread, without holding the mutex
    pthread_mutex_unlock(&gate->mutex);
    pyd_sched_block_begin(gate->sched, &blocking);
    pthread_mutex_lock(&gate->mutex);
  }
  while (pyd_ok(status) && gate->is_taken) status = wait_a_while(gate, interrupt);
  if (pyd_ok(status)) {
    gate->is_taken = true;
    gate->holder = pthread_self();
  } else {
    pthread_cond_signal(&gate->is_open);  // pass on a signal that this thread may have consumed
  }
  pthread_mutex_unlock(&gate->mutex);
  if (waits) pyd_sched_block_end(&blocking);
  if (!pyd_ok(status)) return status;
  *scope = (pyd_scope_t){.outer = pyd_scope_now(gate->scopes), .owner = gate};
  pyd_scope_set(gate->scopes, scope);
  return status;
}

// Leaves the gate, so that the next waiting call can enter it.
void pyd_gate_leave(pyd_gate_t* gate, const pyd_scope_t* scope) {
  pyd_scope_set(gate->scopes, scope->outer);
  pthread_mutex_lock(&gate->mutex);
  gate->is_taken = false;
  pthread_cond_signal(&gate->is_open);
  pthread_mutex_unlock(&gate->mutex);
}
