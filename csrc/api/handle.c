// Functions for all handles: reference counts, and failures of arguments that are NULL or incomplete.
#include "api/call.h"
#include "base/sized.h"

pyd_status_t pyd_api_null(const char* function, const char* what) {
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
}

void pyd_api_retain(atomic_uint* references) { atomic_fetch_add_explicit(references, 1, memory_order_relaxed); }

bool pyd_api_drop(atomic_uint* references) {
  return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

// Reads the interrupt that a caller passes, whose |size| states the version of its structure. INVALID_ARGUMENT, with a
// message that begins with |function|, if it is incomplete.
pyd_status_t pyd_api_interrupt_of(const char* function, const pyd_api_interrupt_t* interrupt,
                                  pyd_interrupt_t* out_interrupt) {
  const bool is_too_small = interrupt->size < PYD_SIZE_UP_TO(pyd_api_interrupt_t, context);
  if (is_too_small || !interrupt->is_wanted) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the interrupt has %s; set its size to sizeof(pyd_api_interrupt_t) and its "
                           "is_wanted to a function",
                           function, is_too_small ? "too small a size" : "no function to ask");
  }
  *out_interrupt = (pyd_interrupt_t){interrupt->is_wanted, interrupt->context};
  return PYD_STATUS_OK;
}
