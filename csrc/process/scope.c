// Scopes: the call or task that each thread works for. One variable for all task systems of the process.
#include "pydispatch/process.h"

// The scope that this thread has entered last and not left; NULL: none.
static _Thread_local const pyd_scope_t* innermost;

const pyd_scope_t* pyd_process_scope_get(void) { return innermost; }

void pyd_process_scope_set(const pyd_scope_t* scope) { innermost = scope; }
