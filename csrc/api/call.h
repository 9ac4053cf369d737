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
  atomic_uint references;  // the caller's, and that of the call in flight
  pyd_call_t* call;
  atomic_bool is_busy;  // a thread runs it, or it is in flight
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

// call.c, for all ways of running a call:
// From now on it is this run's, with all that has to be copied known; until pyd_api_call_leave.
pyd_status_t pyd_api_call_enter(pyd_api_call_t* call, const char* function);
void pyd_api_call_leave(pyd_api_call_t* call);
pyd_status_t pyd_api_call_run_entered(pyd_api_call_t* call, const pyd_interrupt_t* interrupt);
// Copies tensors whose memory cannot be used in place.
void pyd_api_call_copy_in(const pyd_api_call_t* call);
void pyd_api_call_copy_out(const pyd_api_call_t* call);
// |*out_interrupt| is what the caller's structure, which may be NULL, asks.
pyd_status_t pyd_api_interrupt_of(const char* function, const pyd_api_interrupt_t* given, pyd_interrupt_t* out_interrupt);

// procedure.c
static inline bool pyd_api_is_procedure(const pyd_api_call_t* call) { return call->entry->is_procedure; }
pyd_status_t pyd_api_procedure_prepare(pyd_api_call_t* call, const uint64_t* scalars);
void pyd_api_procedure_set_scalars(pyd_api_call_t* call, const uint64_t* scalars);
// Hands the memory that is bound to the next run.
pyd_status_t pyd_api_procedure_route(pyd_api_call_t* call);
pyd_status_t pyd_api_procedure_run(pyd_api_call_t* call, const pyd_interrupt_t* interrupt);
// Of the last run. False when there was none.
bool pyd_api_procedure_result(const pyd_api_call_t* call, uint32_t index, pyd_value_t* out_value);

#endif  // PYD_API_CALL_H_
