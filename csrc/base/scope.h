// Access to the scopes of a thread: the operations that it works for, see pyd_scope_t in sched.h.
#ifndef PYD_BASE_SCOPE_H_
#define PYD_BASE_SCOPE_H_

#include "pydispatch/sched.h"

// Returns the innermost scope of this thread; NULL when there is none.
static inline const pyd_scope_t* pyd_scope_now(pyd_scope_access_t access) { return access.get ? access.get() : NULL; }

// Makes |innermost| the scope of this thread.
static inline void pyd_scope_set(pyd_scope_access_t access, const pyd_scope_t* innermost) {
  if (access.set) access.set(innermost);
}

// Returns whether |owner| owns any scope of this thread, from the innermost to the outermost.
static inline bool pyd_scope_has(pyd_scope_access_t access, const void* owner) {
  for (const pyd_scope_t* scope = pyd_scope_now(access); scope; scope = scope->outer) {
    if (scope->owner == owner) return true;
  }
  return false;
}

// Returns the lowest limit on the number of workers among |scope| and the scopes around it; 0: no limit.
static inline uint32_t pyd_scope_workers(const pyd_scope_t* scope) {
  uint32_t least = 0;
  for (; scope; scope = scope->outer) {
    if (scope->workers && (!least || scope->workers < least)) least = scope->workers;
  }
  return least;
}

#endif  // PYD_BASE_SCOPE_H_
