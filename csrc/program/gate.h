// Lets one caller in at a time. Others wait, however long it takes; a thread that works for the one inside is refused,
// since it would wait for itself.
#ifndef PYD_PROGRAM_GATE_H_
#define PYD_PROGRAM_GATE_H_

#include <pthread.h>

#include "base/scope.h"
#include "pydispatch/status.h"

typedef struct pyd_gate_s {
  pthread_mutex_t mutex;  // of what follows, held for moments
  pthread_cond_t is_open;
  bool is_taken;
  pthread_t holder;
  pyd_sched_t* sched;         // may be NULL
  pyd_scope_access_t scopes;  // of |sched|
} pyd_gate_t;

void pyd_gate_init(pyd_gate_t* gate, pyd_sched_t* sched);
void pyd_gate_destroy(pyd_gate_t* gate);

// |scope|, which the caller keeps until it leaves, tells threads that work for the caller that they are inside.
// A thread that waits holds no compute permit. INVALID_ARGUMENT with the text |refusal| when this thread is,
// INTERRUPTED when |interrupt| (may be NULL) ends the waiting.
pyd_status_t pyd_gate_enter(pyd_gate_t* gate, const pyd_interrupt_t* interrupt, const char* refusal,
                            pyd_scope_t* scope);
void pyd_gate_leave(pyd_gate_t* gate, const pyd_scope_t* scope);

// Around fork().
void pyd_gate_fork_prepare(pyd_gate_t* gate);
void pyd_gate_fork_done(pyd_gate_t* gate);
void pyd_gate_fork_child(pyd_gate_t* gate);

#endif  // PYD_PROGRAM_GATE_H_
