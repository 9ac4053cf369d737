// Queries of a plan: its key, its sizes, and descriptions of its commands.
#include <stdio.h>
#include <string.h>

#include "program/commands/command.h"

// Returns whether the plan was created for these sizes, and for these values of the scalars that it depends on.
bool pyd_plan_matches(const pyd_plan_t* plan, const int64_t* dims, const uint64_t* scalars) {
  const pyd_function_t* fn = plan->fn;
  for (uint32_t i = 0; i < fn->info.dims_count; ++i) {
    if (plan->dims[i] != dims[i]) return false;
  }
  for (uint32_t i = 0; i < fn->keyed_count; ++i) {
    if (plan->scalars[fn->keyed[i]] != scalars[fn->keyed[i]]) return false;
  }
  return true;
}

// Returns |hash| updated by |value|.
static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);  // 2^64 over the golden ratio
  return hash ^ hash >> 32;
}

// Returns a hash of the sizes of all tensor arguments, and of the scalar arguments that plans of |function| depend on.
uint64_t pyd_plan_hash(const pyd_program_t* program, uint32_t function, const int64_t* dims, const uint64_t* scalars) {
  uint64_t hash = mix(0, (uint64_t)function + 1);  // mix(0, 0) would be 0
  if (function >= program->function_count) return hash;
  const pyd_function_t* fn = &program->functions[function];
  for (uint32_t i = 0; i < fn->info.dims_count; ++i) hash = mix(hash, (uint64_t)dims[i]);
  for (uint32_t i = 0; i < fn->keyed_count; ++i) hash = mix(hash, scalars[fn->keyed[i]]);
  return hash;
}

// Returns the bytes of a tensor argument; 0 for a scalar.
uint64_t pyd_plan_arg_bytes(const pyd_plan_t* plan, uint32_t arg) {
  const pyd_function_t* fn = plan->fn;
  uint64_t bytes = 0;
  if (arg >= fn->info.arg_count || fn->info.args[arg].kind != PYD_KIND_TENSOR) return 0;
  // Cannot overflow: the creation of the plan has checked the sizes.
  pyd_tensor_bytes(fn->info.args[arg].dtype, fn->info.args[arg].rank, plan->dims + fn->args[arg].first_dim, &bytes);
  return bytes;
}

const int64_t* pyd_plan_result_dims(const pyd_plan_t* plan, uint32_t result) {
  return result < plan->fn->info.result_count ? plan->result_dims + plan->fn->results[result].first_dim : NULL;
}

// Returns the buffer of a tensor result; PYD_NONE for a scalar and for a result that does not exist.
static uint32_t result_buffer(const pyd_plan_t* plan, uint32_t result) {
  if (result >= plan->fn->info.result_count || plan->fn->info.results[result].kind != PYD_KIND_TENSOR) return PYD_NONE;
  return plan->fn->results[result].target;
}

// Returns the bytes of a tensor result; 0 for a scalar.
uint64_t pyd_plan_result_bytes(const pyd_plan_t* plan, uint32_t result) {
  uint32_t buffer = result_buffer(plan, result);
  return buffer == PYD_NONE ? 0 : plan->buffer_bytes[buffer];
}

// Returns the alignment in bytes that kernels require of argument |arg|; 1 for a scalar and for an unused tensor.
uint32_t pyd_plan_arg_alignment(const pyd_plan_t* plan, uint32_t arg) {
  if (arg >= plan->fn->info.arg_count || plan->fn->info.args[arg].kind != PYD_KIND_TENSOR) return 1;
  uint32_t buffer = plan->fn->args[arg].buffer;
  return buffer == PYD_NONE ? 1 : plan->buffer_alignment[buffer];
}

// Returns the alignment in bytes that kernels require of a result; 1 for a scalar.
uint32_t pyd_plan_result_alignment(const pyd_plan_t* plan, uint32_t result) {
  uint32_t buffer = result_buffer(plan, result);
  return buffer == PYD_NONE ? 1 : plan->buffer_alignment[buffer];
}

uint64_t pyd_plan_arena_bytes(const pyd_plan_t* plan) { return plan->arena_bytes; }
uint32_t pyd_plan_command_count(const pyd_plan_t* plan) { return plan->command_count; }

// Writes the name of an argument or result for messages, such as "argument 1 'b'".
void pyd_plan_name_value(const char* kind, uint32_t index, pyd_string_t name, char* text, size_t size) {
  if (name.length) {
    snprintf(text, size, "%s %u '%.*s'", kind, index, STRING(name));
  } else {
    snprintf(text, size, "%s %u", kind, index);
  }
}

// Writes the name of a buffer for messages, such as "argument 1 'b'" or "transient buffer 3".
void pyd_plan_name_buffer(const pyd_function_t* fn, uint32_t buffer, char* text, size_t size) {
  const bool is_staging = buffer == fn->buffer_count;  // the buffer of the plan for aligned copies of bindings
  if (is_staging) {
    snprintf(text, size, "the aligned copies");
    return;
  }
  const pyd_buffer_t* b = &fn->buffers[buffer];
  switch (b->kind) {
    case PYD_BUFFER_ARGUMENT:
      pyd_plan_name_value("argument", b->index, fn->info.args[b->index].name, text, size);
      break;
    case PYD_BUFFER_RESULT: pyd_plan_name_value("result", b->index, fn->info.results[b->index].name, text, size); break;
    case PYD_BUFFER_TRANSIENT:
      pyd_plan_name_value("transient buffer", buffer, (pyd_string_t){NULL, 0}, text, size);
      break;
    default: pyd_plan_name_value("constant", b->index, (pyd_string_t){NULL, 0}, text, size);
  }
}

// Writes a description of command |index|, such as "region 0: dispatch @executable::@simple_mul 16x1x1", as a C string
// to |buffer| of |size| bytes; a longer text is cut. INVALID_ARGUMENT if the command does not exist.
pyd_status_t pyd_plan_describe(const pyd_plan_t* plan, uint32_t index, char* buffer, size_t size) {
  if (index >= plan->command_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "command %u does not exist, the plan has %u", index,
                           plan->command_count);
  }
  const pyd_plan_command_t* command = &plan->commands[index];
  int length = snprintf(buffer, size, "region %u: ", command->region);
  if (length > 0 && (size_t)length < size) {
    pyd_command_type(command)->describe(plan, command, buffer + length, size - (size_t)length);
  }
  return PYD_STATUS_OK;
}
