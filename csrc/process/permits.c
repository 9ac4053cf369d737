// The compute permits that all schedulers of the process share.
#include <pthread.h>

#include "pydispatch/process.h"

// Creates |permits| once.
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pyd_permits_t* permits;  // NULL before the first use, and if they cannot be created

static void prepare(void* self) { pyd_permits_fork_prepare(self); }
static void parent(void* self) { pyd_permits_fork_parent(self); }
static void child(void* self) { pyd_permits_fork_child(self); }

// Creates the permits, with handlers of fork(). A failure leaves NULL: each scheduler then has permits of its own.
static void create(void) {
  permits = pyd_permits_create();
  if (!permits) return;
  pyd_status_t status = pyd_process_atfork_add(permits, prepare, parent, child);
  if (pyd_ok(status)) return;
  pyd_status_free(status);
  pyd_permits_destroy(permits);
  permits = NULL;
}

// Returns the compute permits of the process, created by the first call; NULL if that failed.
pyd_permits_t* pyd_process_permits(void) {
  pthread_once(&once, create);
  return permits;
}
