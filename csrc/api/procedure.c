// Calls of procedures. A run decides the sizes of their results, so that memory of any size can be bound to those.
#include "api/call.h"
#include "pydispatch/submit.h"

// Sets the scalar arguments of a procedure. |scalars|: one word per scalar argument, in order, without the tensors
// between them.
void pyd_api_procedure_set_scalars(pyd_api_call_t* call, const uint64_t* scalars) {
  const pyd_api_function_t* fn = &call->entry->info;
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    if (fn->arguments[i]->kind == PYD_API_SCALAR) call->inputs[i].word = *scalars++;
  }
}

// Checks the sizes call->dims against the signature. Fills in call->inputs except for addresses, and the buffers: those
// of arguments have their bytes, those of results 0, because a run decides them. Alignments are 1, because running a
// procedure copies misaligned tensors. |scalars|: one word per scalar argument; NULL if there are none.
pyd_status_t pyd_api_procedure_prepare(pyd_api_call_t* call, const uint64_t* scalars) {
  const pyd_api_function_t* fn = &call->entry->info;
  const pyd_program_function_t* procedure = pyd_program_procedure(call->entry->program->program, call->entry->index);
  const int64_t* dims = call->dims;
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    const pyd_api_value_t* value = fn->arguments[i];
    call->inputs[i] = (pyd_input_t){.dims = dims};
    if (value->kind == PYD_API_SCALAR) continue;
    uint64_t bytes = 0;
    pyd_status_t status = pyd_program_check_argument(procedure, i, dims, &bytes);
    if (!pyd_ok(status)) return status;
    dims += value->rank;  // |dims| holds the sizes of all arguments one after another
    call->arguments[i] = (pyd_api_buffer_t){.bytes = bytes, .alignment = 1, .is_tensor = true};
  }
  for (uint32_t i = 0; i < fn->result_count; ++i) {
    bool is_tensor = fn->results[i]->kind == PYD_API_TENSOR;
    call->results[i] = (pyd_api_buffer_t){.alignment = 1, .is_tensor = is_tensor, .has_dynamic_size = is_tensor};
  }
  if (scalars) pyd_api_procedure_set_scalars(call, scalars);
  return PYD_STATUS_OK;
}

bool pyd_api_procedure_result(const pyd_api_call_t* call, uint32_t index, pyd_value_t* out_value) {
  return pyd_api_is_procedure(call) && call->last && pyd_invocation_result(call->last, index, out_value);
}

// Copies the results of a run to the memory that is bound to them, or to memory of the call's allocator. Results with
// neither stay in |last|, where call_result_data finds them.
static pyd_status_t copy_results(pyd_api_call_t* call) {
  const pyd_api_function_t* fn = &call->entry->info;
  for (uint32_t i = 0; i < fn->result_count; ++i) {
    const pyd_api_buffer_t* buffer = &call->results[i];
    pyd_value_t value;
    if (!buffer->is_tensor || !pyd_api_procedure_result(call, i, &value)) continue;
    pyd_status_t status = pyd_api_call_make_result(call, i, value.bytes);
    if (!pyd_ok(status)) return status;
    if (!buffer->is_bound && !buffer->own) continue;  // the result stays in |last|
    if (buffer->memory) {
      status = pyd_api_memory_check(buffer->memory, "call_run", "result", i, fn->results[i], value.dims);
      if (!pyd_ok(status)) return status;
    }
    if (buffer->is_bound && value.bytes > buffer->room) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "call_run: result %u of '%s' has %llu bytes, %llu were bound; it can be "
                             "read with call_result_data",
                             i, fn->name, (unsigned long long)value.bytes, (unsigned long long)buffer->room);
    }
    pyd_api_call_put(buffer, value.data, value.bytes);
  }
  return PYD_STATUS_OK;
}

// Sets the addresses of the inputs for the next run: of bound memory, or of temporary blocks where kernels cannot use
// that.
pyd_status_t pyd_api_procedure_route(pyd_api_call_t* call) {
  const pyd_api_function_t* fn = &call->entry->info;
  call->has_detours = false;
  for (uint32_t i = 0; i < fn->argument_count; ++i) {
    const pyd_api_buffer_t* buffer = &call->arguments[i];
    if (buffer->is_tensor && !buffer->is_bound) {
      const char* name = fn->arguments[i]->name;
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "@%s: argument %u%s%s%s has no memory; bind it before the call is "
                             "run",
                             fn->name, i, name[0] ? " '" : "", name, name[0] ? "'" : "");
    }
    if (!buffer->is_tensor) continue;
    void* data;
    pyd_status_t status = pyd_api_call_route_argument(call, i, &data);
    if (!pyd_ok(status)) return status;
    call->inputs[i].data = data;
  }
  return pyd_api_call_check_apart(call);
}

// Runs the procedure, in |task| if that is not NULL. Results of the run before are freed only if this one succeeds.
pyd_status_t pyd_api_procedure_run(pyd_api_call_t* call, const pyd_interrupt_t* interrupt, pyd_task_t* task) {
  pyd_invocation_t* invocation;
  pyd_api_call_copy_in(call);
  pyd_status_t status = pyd_procedure_call_task(call->entry->program->state, call->entry->index, call->inputs,
                                                interrupt, task, &invocation);
  if (!pyd_ok(status)) return status;
  pyd_invocation_free(call->last);
  call->last = invocation;
  return copy_results(call);
}
