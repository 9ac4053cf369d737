// Calls of api.h: of a function, with a plan, or of a procedure, with the results of its last run.
#ifndef PYD_API_CALL_H_
#define PYD_API_CALL_H_

#include "api/memory.h"
#include "pydispatch/task.h"

// Memory of one argument or result of a prepared call: what the embedder has bound to it, or memory of the call.
typedef struct pyd_api_buffer_s {
  uint8_t* data;             // as it was bound, or |own|
  pyd_api_memory_t* memory;  // what was bound, held; NULL: an address
  uint64_t bytes;
  uint32_t alignment;
  bool is_tensor;
  bool is_bound;
  bool has_dynamic_size;  // |bytes| is 0: a run decides them
  bool is_detoured;       // kernels use |detour| instead, which is copied from or to |data| around a run
  void* detour;           // a block of the pool; kept from its first use until the call is freed
  uint64_t room;          // bytes that were bound
  void* own;              // of a result: memory of the call's allocator, when nothing is bound
  size_t own_bytes;
} pyd_api_buffer_t;

// A prepared call of a function or a procedure, with the memory that is bound to its arguments and results.
struct pyd_api_call_s {
  atomic_uint references;  // one of the caller, one of the run
  pyd_call_t* call;        // runs |plan|; NULL for a procedure
  atomic_bool is_busy;     // a thread runs it, or it is in flight
  bool is_stale;           // bindings changed since they were last routed
  bool has_detours;        // tensors are copied, since their memory cannot be used in place
  size_t size;             // of the block that it begins
  const pyd_api_entry_t* entry;
  pyd_plan_t* plan;                   // of a function: its commands for the sizes |dims|; NULL for a procedure
  int64_t* dims;                      // sizes of all tensor arguments, one after another
  pyd_allocator_t results_allocator;  // for tensor results that nothing is bound to; all zero: none
  pyd_api_buffer_t* arguments;        // one per argument, also for scalars
  pyd_api_buffer_t* results;          // one per result, also for scalars
  // Of a procedure:
  pyd_input_t* inputs;     // one per argument
  pyd_invocation_t* last;  // of the last run that ended well, or NULL
};

// call.c, for all ways of running a call:
// Begins a run: marks the call as busy, so that no other run can begin before pyd_api_call_end_run, retains it, and
// routes its tensors if bindings changed. Fails when it is busy already. |function| names the caller in messages.
pyd_status_t pyd_api_call_begin_run(pyd_api_call_t* call, const char* function);
void pyd_api_call_end_run(pyd_api_call_t* call);
// Executes a call whose run has begun, on this thread and its device's threads. |task|: the task of a submitted call,
// or NULL.
pyd_status_t pyd_api_call_execute(pyd_api_call_t* call, const pyd_interrupt_t* interrupt, pyd_task_t* task);
pyd_status_t pyd_api_call_refuse_busy(const pyd_api_call_t* call, const char* function);

// bind.c: decides where kernels find each tensor, and gets the memory for it.
pyd_status_t pyd_api_call_route(pyd_api_call_t* call);
pyd_status_t pyd_api_call_route_argument(pyd_api_call_t* call, uint32_t index, void** out_data);
// INVALID_ARGUMENT when the memory of two results overlaps.
pyd_status_t pyd_api_call_check_apart(const pyd_api_call_t* call);
// Gives a result that nothing is bound for |bytes| bytes of the call's allocator, when it has one.
pyd_status_t pyd_api_call_make_result(pyd_api_call_t* call, uint32_t index, uint64_t bytes);
// Writes a result's elements, in row-major order, to its memory.
void pyd_api_call_put(const pyd_api_buffer_t* buffer, const void* data, uint64_t bytes);
// Frees and releases all memory of the call's tensors, right before the call itself is freed.
void pyd_api_call_unbind(pyd_api_call_t* call);
// Copies tensors whose memory cannot be used in place.
void pyd_api_call_copy_in(const pyd_api_call_t* call);
void pyd_api_call_copy_out(const pyd_api_call_t* call);
// Reads the interrupt that a caller gave, which may be NULL, into |*out_interrupt|. (handle.c)
pyd_status_t pyd_api_interrupt_of(const char* function, const pyd_api_interrupt_t* interrupt,
                                  pyd_interrupt_t* out_interrupt);

// procedure.c
static inline bool pyd_api_is_procedure(const pyd_api_call_t* call) { return call->entry->is_procedure; }
pyd_status_t pyd_api_procedure_prepare(pyd_api_call_t* call, const uint64_t* scalars);
void pyd_api_procedure_set_scalars(pyd_api_call_t* call, const uint64_t* scalars);
// Hands the memory that is bound to the next run.
pyd_status_t pyd_api_procedure_route(pyd_api_call_t* call);
pyd_status_t pyd_api_procedure_run(pyd_api_call_t* call, const pyd_interrupt_t* interrupt, pyd_task_t* task);
// Reads result |index| of the last run. Returns false when there was none.
bool pyd_api_procedure_result(const pyd_api_call_t* call, uint32_t index, pyd_value_t* out_value);

#endif  // PYD_API_CALL_H_
