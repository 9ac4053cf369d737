// A lock that is held for long: one caller is inside at a time, and others wait. A thread that works for the holder is
// refused, since it would deadlock.
#ifndef PYD_PROGRAM_GATE_H_
#define PYD_PROGRAM_GATE_H_

#include <pthread.h>

#include "base/scope.h"
#include "pydispatch/status.h"

// A lock for operations of a program that take long and exclude each other, such as the computation of derived
// constants.
typedef struct pyd_gate_s {
  pthread_mutex_t mutex;   // guards |is_taken| and |holder|; held over a fork, not during the operation
  pthread_cond_t is_open;  // signaled when the holder leaves
  bool is_taken;
  pthread_t holder;           // the thread that has entered; valid while |is_taken|
  pyd_sched_t* sched;         // whose threads may work for the holder; may be NULL
  pyd_scope_access_t scopes;  // of |sched|, to recognize these threads; empty without it
} pyd_gate_t;

// The gate is open at first. |sched|: the scheduler whose threads may work for the holder.
void pyd_gate_init(pyd_gate_t* gate, pyd_sched_t* sched);
void pyd_gate_destroy(pyd_gate_t* gate);

// Enters the gate, and waits until nobody else is inside. |scope|, which the caller keeps until it leaves, marks
// threads that work for the caller as inside. A thread that waits holds no compute permit. Fails with INVALID_ARGUMENT
// and the text |refusal| when this thread is inside already, with INTERRUPTED when |interrupt| (may be NULL) ends the
// wait.
pyd_status_t pyd_gate_enter(pyd_gate_t* gate, const pyd_interrupt_t* interrupt, const char* refusal,
                            pyd_scope_t* scope);
void pyd_gate_leave(pyd_gate_t* gate, const pyd_scope_t* scope);

// Around a change of data of the gate's holder: no fork happens between the two calls, so that the child of a fork sees
// the whole change or nothing of it. The holder must not call other functions of the gate in between.
void pyd_gate_change_begin(pyd_gate_t* gate);
void pyd_gate_change_end(pyd_gate_t* gate);

// Around fork().
void pyd_gate_fork_prepare(pyd_gate_t* gate);
void pyd_gate_fork_done(pyd_gate_t* gate);
void pyd_gate_fork_child(pyd_gate_t* gate);

#endif  // PYD_PROGRAM_GATE_H_
