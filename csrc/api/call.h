// Calls of api.h: of a function, with a plan, or of a procedure, with what its last run left.
#ifndef PYD_API_CALL_H_
#define PYD_API_CALL_H_

#include "api/internal.h"

// Memory of one argument or result.
typedef struct pyd_api_buffer_s {
  uint8_t* data;  // as it was bound
  uint64_t bytes;
  uint32_t alignment;
  bool is_tensor;
  bool is_bound;
  bool is_detoured;  // |detour| is used instead, and copied
  void* detour;      // of the pool; kept once it was needed
  uint64_t room;     // bytes that were bound
} pyd_api_buffer_t;

struct pyd_api_call_s {
  pyd_call_t* call;
  atomic_bool is_busy;
  bool is_stale;      // bindings changed since they were last routed
  bool has_detours;
  const pyd_api_entry_t* entry;
  pyd_plan_t* plan;
  int64_t* dims;
  pyd_api_buffer_t* arguments;
  pyd_api_buffer_t* results;
  // Of a procedure:
  pyd_input_t* inputs;
  pyd_invocation_t* last;  // of the last run that ended well, or NULL
};

// procedure.c
static inline bool pyd_api_is_procedure(const pyd_api_call_t* call) { return call->entry->is_procedure; }
pyd_status_t pyd_api_procedure_prepare(pyd_api_call_t* call, const uint64_t* scalars);
void pyd_api_procedure_set_scalars(pyd_api_call_t* call, const uint64_t* scalars);
pyd_status_t pyd_api_procedure_run(pyd_api_call_t* call, const pyd_interrupt_t* interrupt);
// Of the last run. False when there was none.
bool pyd_api_procedure_result(const pyd_api_call_t* call, uint32_t index, pyd_value_t* out_value);

#endif  // PYD_API_CALL_H_
