// Calls: a plan (a function specialized for the sizes of its arguments) with its buffers, which bind.c handles. Work
// that depends on the bindings alone is done once after they change, so that a run only tests a flag before
// pyd_call_run.
#include <string.h>

#include "api/call.h"
#include "base/carve.h"

static const char* name_of(const pyd_api_call_t* call) { return call->entry->info.name; }

// ---- making

// Fills in size and alignment of each tensor from the plan. Buffers of scalars stay all zero.
static void describe_buffers(pyd_api_call_t* call) {
  const pyd_api_function_t* fn = &call->entry->info;
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    if (fn->arguments[i]->kind != PYD_API_TENSOR) continue;
    uint32_t alignment = pyd_plan_arg_alignment(call->plan, i);
    call->arguments[i] = (pyd_api_buffer_t){
        .bytes = pyd_plan_arg_bytes(call->plan, i), .alignment = alignment ? alignment : 1, .is_tensor = true};
  }
  for (uint32_t i = 0; i < fn->result_count; ++i) {
    if (fn->results[i]->kind != PYD_API_TENSOR) continue;
    uint32_t alignment = pyd_plan_result_alignment(call->plan, i);
    call->results[i] = (pyd_api_buffer_t){
        .bytes = pyd_plan_result_bytes(call->plan, i), .alignment = alignment ? alignment : 1, .is_tensor = true};
  }
}

// Checks that |dims| and |scalars| have as many values as the function takes.
static pyd_status_t check_counts(const pyd_api_function_t* fn, const int64_t* dims, uint32_t dims_count,
                                 const uint64_t* scalars, uint32_t scalar_count) {
  if (dims_count != fn->dims_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "call_prepare: '%s' takes %u sizes, the ranks of its tensor arguments "
                           "together; got %u",
                           fn->name, fn->dims_count, dims_count);
  }
  if (scalar_count != fn->scalar_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "call_prepare: '%s' takes %u scalars, got %u", fn->name,
                           fn->scalar_count, scalar_count);
  }
  if (dims_count && !dims) return pyd_api_null("call_prepare", "dims");
  if (scalar_count && !scalars) return pyd_api_null("call_prepare", "scalars");
  return PYD_STATUS_OK;
}

// Sets the array pointers of |call| for a block at |base| that holds the call and then its arrays. Returns the bytes of
// the block; |base| is NULL to compute only these.
static size_t lay_out(pyd_api_call_t* call, const pyd_api_entry_t* entry, uint8_t* base) {
  const pyd_api_function_t* fn = &entry->info;
  pyd_carve_t block = {base, sizeof(*call), sizeof(uint64_t)};
  PYD_CARVE(&block, call->arguments, fn->argument_count);
  PYD_CARVE(&block, call->results, fn->result_count);
  PYD_CARVE(&block, call->dims, fn->dims_count);
  PYD_CARVE(&block, call->inputs, entry->is_procedure ? fn->argument_count : 0);
  return block.size;
}

// Creates a call with one reference and a copy of |dims|, fn->dims_count sizes. Retains the program. All else is zero:
// the plan, its pyd_call_t and the contents of the arrays.
static pyd_status_t allocate(const pyd_api_entry_t* entry, const int64_t* dims, pyd_api_call_t** out_call) {
  const pyd_api_function_t* fn = &entry->info;
  pyd_api_call_t measure;  // only its array pointers are set, to NULL
  size_t size = lay_out(&measure, entry, NULL);
  pyd_api_call_t* call = pyd_allocate_zeroed(&entry->program->device->allocator, size);
  if (!call) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a call of '%s': %zu bytes", fn->name, size);
  call->entry = entry;
  lay_out(call, entry, (uint8_t*)call);
  call->size = size;
  if (fn->dims_count) memcpy(call->dims, dims, fn->dims_count * sizeof(int64_t));
  atomic_init(&call->references, 1);
  atomic_init(&call->is_busy, false);
  pyd_api_retain(&entry->program->references);
  *out_call = call;
  return PYD_STATUS_OK;
}

// Creates the plan of |call| and the call of that plan. |scalars| may be NULL if the function takes none.
static pyd_status_t prepare_plan(pyd_api_call_t* call, const uint64_t* scalars) {
  static const uint64_t kNoScalars = 0;  // a plan wants an address even if there are no scalars
  const pyd_api_program_t* program = call->entry->program;
  pyd_status_t status =
      pyd_plan_create(program->program, call->entry->index, call->dims, scalars ? scalars : &kNoScalars, &call->plan);
  if (pyd_ok(status)) status = pyd_call_create(call->plan, program->device->sched, program->device->pool, &call->call);
  if (pyd_ok(status)) describe_buffers(call);
  return status;
}

// Creates a call of |function| for fixed shapes. |dims|: the sizes of all tensor arguments, one after another.
// |scalars|: one 64-bit word for each scalar argument. A function with control flow on the host (a procedure) has no
// plan: a run decides sizes.
pyd_status_t pyd_api_call_prepare(const pyd_api_function_t* function, const int64_t* dims, uint32_t dims_count,
                                  const uint64_t* scalars, uint32_t scalar_count, pyd_api_call_t** out_call) {
  if (!out_call) return pyd_api_null("call_prepare", "out_call");
  *out_call = NULL;
  if (!function) return pyd_api_null("call_prepare", "function");
  const pyd_api_entry_t* entry = (const pyd_api_entry_t*)function;  // its first member, |info|
  pyd_api_call_t* call = NULL;
  pyd_status_t status = check_counts(function, dims, dims_count, scalars, scalar_count);
  if (pyd_ok(status)) status = allocate(entry, dims, &call);
  if (pyd_ok(status)) {
    status = entry->is_procedure ? pyd_api_procedure_prepare(call, scalars) : prepare_plan(call, scalars);
  }
  if (pyd_ok(status)) {
    *out_call = call;
  } else {
    pyd_api_call_release(call);
  }
  return status;
}

// Drops a reference to a prepared call; the last one frees it with all that it owns.
void pyd_api_call_release(pyd_api_call_t* call) {
  if (!call || !pyd_api_drop(&call->references)) return;
  pyd_api_program_t* program = call->entry->program;
  pyd_api_call_unbind(call);
  pyd_invocation_free(call->last);
  pyd_call_free(call->call);
  if (call->plan) pyd_plan_free(call->plan);
  pyd_deallocate(&program->device->allocator, call, call->size);
  pyd_api_program_release(program);
}

// ---- asking

// Returns the buffer of argument |index|; NULL if it, or the call, does not exist.
static const pyd_api_buffer_t* argument(const pyd_api_call_t* call, uint32_t index) {
  return call && index < call->entry->info.argument_count ? &call->arguments[index] : NULL;
}

// Returns the buffer of result |index|; NULL if it, or the call, does not exist.
static const pyd_api_buffer_t* result(const pyd_api_call_t* call, uint32_t index) {
  return call && index < call->entry->info.result_count ? &call->results[index] : NULL;
}

uint64_t pyd_api_call_argument_bytes(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = argument(call, index);
  return buffer ? buffer->bytes : 0;
}

uint64_t pyd_api_call_result_bytes(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = result(call, index);
  pyd_value_t value;
  // The last run of a procedure decided the size.
  if (buffer && pyd_api_procedure_result(call, index, &value)) return value.bytes;
  return buffer ? buffer->bytes : 0;
}

uint32_t pyd_api_call_argument_alignment(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = argument(call, index);
  return buffer && buffer->is_tensor ? buffer->alignment : 1;
}

uint32_t pyd_api_call_result_alignment(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = result(call, index);
  return buffer && buffer->is_tensor ? buffer->alignment : 1;
}

// Returns the sizes of a tensor result. NULL for a scalar, and for a result of a procedure that has not run: a run
// decides its sizes.
const int64_t* pyd_api_call_result_dims(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = result(call, index);
  pyd_value_t value;
  if (!buffer || !buffer->is_tensor) return NULL;
  if (call->plan) return pyd_plan_result_dims(call->plan, index);
  return pyd_api_procedure_result(call, index, &value) ? value.dims : NULL;
}

// Returns the address of a result after a run.
const void* pyd_api_call_result_data(const pyd_api_call_t* call, uint32_t index) {
  const pyd_api_buffer_t* buffer = result(call, index);
  pyd_value_t value;
  if (!buffer || !buffer->is_tensor) return NULL;
  if (call->plan) return buffer->data;
  // Of a procedure: memory of the call's allocator if it has one, else memory of the last run.
  if (buffer->own) return buffer->own;
  return pyd_api_procedure_result(call, index, &value) ? value.data : NULL;
}

// Copies the bits of a scalar result of the last run.
pyd_status_t pyd_api_call_scalar_result(const pyd_api_call_t* call, uint32_t index, uint64_t* out_word) {
  if (!out_word) return pyd_api_null("call_scalar_result", "out_word");
  *out_word = 0;
  if (!call) return pyd_api_null("call_scalar_result", "call");
  const pyd_api_buffer_t* buffer = result(call, index);
  if (!buffer || buffer->is_tensor) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "call_scalar_result: result %u of '%s' %s", index, name_of(call),
                           buffer ? "is a tensor" : "does not exist");
  }
  if (pyd_api_is_procedure(call)) {
    pyd_value_t value = {.word = 0};
    pyd_api_procedure_result(call, index, &value);
    *out_word = value.word;
  } else {
    *out_word = pyd_call_scalar_result(call->call, index);
  }
  return PYD_STATUS_OK;
}

// Sets the scalar arguments of a prepared call.
pyd_status_t pyd_api_call_set_scalars(pyd_api_call_t* call, const uint64_t* scalars, uint32_t scalar_count) {
  if (!call) return pyd_api_null("call_set_scalars", "call");
  const pyd_api_function_t* fn = &call->entry->info;
  if (scalar_count != fn->scalar_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "call_set_scalars: '%s' takes %u scalars, got %u", fn->name,
                           fn->scalar_count, scalar_count);
  }
  if (!scalar_count) return PYD_STATUS_OK;
  if (!scalars) return pyd_api_null("call_set_scalars", "scalars");
  if (atomic_load_explicit(&call->is_busy, memory_order_relaxed))
    return pyd_api_call_refuse_busy(call, "call_set_scalars");
  if (pyd_api_is_procedure(call)) {
    pyd_api_procedure_set_scalars(call, scalars);
    return PYD_STATUS_OK;
  }
  if (!pyd_plan_matches(call->plan, call->dims, scalars)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "call_set_scalars: '%s' was prepared for another value of a scalar that "
                           "decides a size, a grid or a check; prepare another call",
                           fn->name);
  }
  pyd_call_set_scalars(call->call, scalars);
  return PYD_STATUS_OK;
}

// ---- running

// Marks the call as busy for one run, until pyd_api_call_end_run, and refuses a second run meanwhile. The run has a
// reference, because a callback may release the caller's.
pyd_status_t pyd_api_call_begin_run(pyd_api_call_t* call, const char* function) {
  if (!call) return pyd_api_null(function, "call");
  if (atomic_exchange_explicit(&call->is_busy, true, memory_order_acquire))
    return pyd_api_call_refuse_busy(call, function);
  pyd_api_retain(&call->references);
  pyd_status_t status = PYD_STATUS_OK;
  if (pyd_api_is_procedure(call)) {
    status = pyd_api_procedure_route(call);  // each time: there is no plan that keeps the addresses
  } else if (call->is_stale) {
    status = pyd_api_call_route(call);
  }
  if (!pyd_ok(status)) pyd_api_call_end_run(call);
  return status;
}

// Ends a run: another one may begin.
void pyd_api_call_end_run(pyd_api_call_t* call) {
  atomic_store_explicit(&call->is_busy, false, memory_order_release);
  pyd_api_call_release(call);
}

// Executes a call between pyd_api_call_begin_run and pyd_api_call_end_run. A function without control flow on the host
// runs the commands of its plan; one with loops or branches (a procedure) is interpreted.
pyd_status_t pyd_api_call_execute(pyd_api_call_t* call, const pyd_interrupt_t* interrupt, pyd_task_t* task) {
  if (pyd_api_is_procedure(call)) return pyd_api_procedure_run(call, interrupt, task);
  pyd_api_call_copy_in(call);
  pyd_status_t status = pyd_call_run_until(call->call, interrupt);
  if (pyd_ok(status)) pyd_api_call_copy_out(call);
  return status;
}

// Runs a call that no other thread is running. |function| names the caller in messages.
static pyd_status_t run(pyd_api_call_t* call, const char* function, const pyd_interrupt_t* interrupt) {
  pyd_status_t status = pyd_api_call_begin_run(call, function);
  if (!pyd_ok(status)) return status;
  status = pyd_api_call_execute(call, interrupt, NULL);
  pyd_api_call_end_run(call);
  return status;
}

pyd_status_t pyd_api_call_run(pyd_api_call_t* call) { return run(call, "call_run", NULL); }

// Runs a call on this thread and its device's threads until its end, or until |interrupt| requests one.
pyd_status_t pyd_api_call_run_until(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt) {
  if (!interrupt) return run(call, "call_run_until", NULL);
  pyd_interrupt_t asked;
  pyd_status_t status = pyd_api_interrupt_of("call_run_until", interrupt, &asked);
  return pyd_ok(status) ? run(call, "call_run_until", &asked) : status;
}
