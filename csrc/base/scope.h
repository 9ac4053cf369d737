// Access to the scopes of a thread: the operations that it works for, see pyd_scope_t in sched.h.
#ifndef PYD_BASE_SCOPE_H_
#define PYD_BASE_SCOPE_H_

#include "pydispatch/sched.h"

// Returns the innermost scope of this thread; NULL when there is none.
static inline const pyd_scope_t* pyd_scope_now(pyd_scope_access_t access) { return access.get ? access.get() : NULL; }

// Makes |innermost| the innermost scope of this thread; NULL: the thread works for no operation. The scope is borrowed
// until the next call; the caller restores the previous scope before its own ends. Does nothing without access.
static inline void pyd_scope_set(pyd_scope_access_t access, const pyd_scope_t* innermost) {
  if (access.set) access.set(innermost);
}

// Returns whether |owner| (a scheduler, a gate or a program) owns any scope of this thread: the thread works for the
// owner, and must not wait for it.
static inline bool pyd_scope_has(pyd_scope_access_t access, const void* owner) {
  for (const pyd_scope_t* scope = pyd_scope_now(access); scope; scope = scope->outer) {
    if (scope->owner == owner) return true;
  }
  return false;
}

// Returns the limit on the participants of a job that is run within |scope|: the lowest of that scope and the scopes
// around it; 0: no limit. |scope| may be NULL.
static inline uint32_t pyd_scope_workers(const pyd_scope_t* scope) {
  uint32_t least = 0;
  for (; scope; scope = scope->outer) {
    if (scope->workers && (!least || scope->workers < least)) least = scope->workers;
  }
  return least;
}

#endif  // PYD_BASE_SCOPE_H_
