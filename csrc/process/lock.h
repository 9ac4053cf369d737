// The one lock of the process-wide state. It is held across fork (atfork.c), so the child finds lists and lock whole.
#ifndef PYD_PROCESS_LOCK_H_
#define PYD_PROCESS_LOCK_H_

#include "pydispatch/process.h"

// Makes sure that fork is handled, then locks. SYSTEM when the handlers cannot be installed (nothing is locked then).
pyd_status_t pyd_process_lock(void);
void pyd_process_unlock(void);

#endif  // PYD_PROCESS_LOCK_H_
