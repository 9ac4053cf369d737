// Plans as data, and calls that somebody else runs. See program_device.h.
#include "pydispatch/program_device.h"

#include <stdlib.h>
#include <string.h>

#include "program/commands/command.h"

// Fails, in place of a kernel that only a device has: a call that gets here has no runner.
static int fail_without_runner(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                               const pyd_workgroup_state_t* workgroup) {
  (void)environment, (void)dispatch, (void)workgroup;
  return 1;
}

// Links executable |index| to code that is on a device. The device has checked its exports and calls them itself, so
// each export gets a function that only fails. |variant|: index of the chosen variant. |alignment|: of its bindings, in
// bytes.
pyd_status_t pyd_program_set_device_executable(pyd_program_t* program, uint32_t index, uint32_t variant,
                                               uint32_t alignment) {
  static const pyd_library_export_attrs_t kNoAttributes = {0};
  if (index >= program->executable_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable %u does not exist, the program has %u", index,
                           program->executable_count);
  }
  if (alignment == 0 || alignment > PYD_POOL_ALIGNMENT || (alignment & (alignment - 1))) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "executable %u wants its bindings aligned to %u bytes; powers of two up to "
                           "%u are possible",
                           index, alignment, PYD_POOL_ALIGNMENT);
  }
  for (uint32_t i = program->exports_first[index]; i < program->exports_first[index + 1]; ++i) {
    pyd_export_t* export = &program->exports[program->exports_of[i]];
    export->linked_ordinal = export->ordinal;
    export->function = fail_without_runner;
    export->attrs = &kNoAttributes;
  }
  program->links[index] = (pyd_executable_link_t){.variant = variant, .alignment = alignment};
  return PYD_STATUS_OK;
}

uint32_t pyd_program_export_count(const pyd_program_t* program) { return program->export_count; }
// Describes export |index| of the program for devices.
void pyd_program_export(const pyd_program_t* program, uint32_t index, pyd_export_info_t* out_info) {
  const pyd_export_t* export = &program->exports[index];
  *out_info = (pyd_export_info_t){.executable = export->executable,
                                  .ordinal = export->ordinal,
                                  .name = export->name,
                                  .constant_count = export->constant_count,
                                  .binding_count = export->binding_count};
}

void pyd_program_set_runner(pyd_program_t* program, pyd_runner_t runner) { program->runner = runner; }
void pyd_program_set_device_memory(pyd_program_t* program, pyd_device_memory_t memory) {
  program->device_memory = memory;
}

// Describes command |index| of a plan for a device.
void pyd_plan_command(const pyd_plan_t* plan, uint32_t index, pyd_command_info_t* out_info) {
  const pyd_plan_command_t* command = &plan->commands[index];
  *out_info = (pyd_command_info_t){
      .kind = command->kind,
      .region = command->region,
      .is_empty = command->count == 0,
      .slot_count = command->slot_count,
      .pattern = command->pattern,
      .pattern_bytes = command->pattern_bytes,
  };
  const pyd_command_type_t* type = pyd_command_type(command);
  if (type->inform) type->inform(plan, command, out_info);
}

// Describes the range of a buffer that slot |slot| of a command uses.
void pyd_plan_command_slot(const pyd_plan_t* plan, uint32_t index, uint32_t slot, pyd_command_slot_t* out_slot) {
  const pyd_plan_slot_t* range = &plan->slots[plan->commands[index].first_slot + slot];
  *out_slot = (pyd_command_slot_t){range->buffer, range->offset, range->length};
}

// Returns the sizes of the tensor operands of host command |index|: operand by operand, one per axis.
const int64_t* pyd_plan_command_sizes(const pyd_plan_t* plan, uint32_t index) {
  return plan->sizes + plan->commands[index].first.sizes;
}

uint32_t pyd_plan_buffer_count(const pyd_plan_t* plan) { return plan->fn->buffer_count + (plan->stage_bytes != 0); }

// Describes buffer |index| of a plan for a device.
void pyd_plan_buffer(const pyd_plan_t* plan, uint32_t index, pyd_buffer_info_t* out_info) {
  if (index == plan->fn->buffer_count) {  // the staging buffer, for aligned copies of bindings
    *out_info = (pyd_buffer_info_t){PYD_BUFFER_TRANSIENT, 0, plan->stage_bytes, plan->stage_offset};
    return;
  }
  const pyd_buffer_t* buffer = &plan->fn->buffers[index];
  *out_info = (pyd_buffer_info_t){buffer->kind, buffer->index, plan->buffer_bytes[index], plan->buffer_offset[index]};
}

uint32_t pyd_plan_constant_count(const pyd_plan_t* plan) { return plan->constant_count; }
const uint32_t* pyd_plan_constants(const pyd_plan_t* plan) { return plan->constants; }
bool pyd_plan_has_deferred(const pyd_plan_t* plan) { return plan->fn->deferred_count != 0; }

// Returns the bytes of constant |index|; empty if there is no such constant, or it is not linked.
pyd_span_t pyd_program_constant_bytes(const pyd_program_t* program, uint32_t index) {
  return index < program->constant_count ? program->constant_links[index] : (pyd_span_t){NULL, 0};
}

// Creates |*out_regs|, a copy of the plan's registers with their values in a call with |scalars|. The caller frees it.
static pyd_status_t copy_registers(const pyd_plan_t* plan, const uint64_t* scalars, uint64_t** out_regs) {
  const pyd_function_t* fn = plan->fn;
  const size_t bytes = (size_t)fn->reg_count * sizeof(**out_regs);
  *out_regs = malloc(bytes);
  if (!*out_regs) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u registers", fn->reg_count);
  memcpy(*out_regs, plan->regs, bytes);
  return pyd_function_interpret_late(plan->program, fn, scalars, *out_regs);
}

// Computes the values that commands of the plan pass on, for a call with |scalars|: the constant words of all
// dispatches, the pattern of each fill, and the scalar results (0 for tensor results).
pyd_status_t pyd_plan_compute(const pyd_plan_t* plan, const uint64_t* scalars, uint32_t* out_constants,
                              uint64_t* out_patterns, uint64_t* out_scalars) {
  const pyd_function_t* fn = plan->fn;
  uint64_t* call_regs = NULL;  // only if any value differs from call to call
  pyd_status_t status = fn->deferred_count ? copy_registers(plan, scalars, &call_regs) : PYD_STATUS_OK;
  if (!pyd_ok(status)) {
    free(call_regs);
    return status;
  }
  const uint64_t* regs = call_regs ? call_regs : plan->regs;
  if (plan->constant_count) memcpy(out_constants, plan->constants, plan->constant_count * sizeof(*out_constants));
  for (uint32_t i = 0; i < plan->command_count; ++i) out_patterns[i] = plan->commands[i].pattern;
  for (uint32_t i = 0; i < plan->deferred_count; ++i) {
    const pyd_plan_deferred_t* deferred = &plan->deferred[i];
    if (deferred->is_pattern) {
      out_patterns[deferred->target] = regs[deferred->reg];
    } else {
      out_constants[deferred->target] = (uint32_t)(regs[deferred->reg] >> (deferred->is_high ? 32 : 0));
    }
  }
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    out_scalars[i] = fn->info.results[i].kind == PYD_KIND_SCALAR ? regs[fn->results[i].target] : 0;
  }
  free(call_regs);
  return PYD_STATUS_OK;
}

const pyd_plan_t* pyd_call_plan(const pyd_call_t* call) { return call->plan; }

// Returns the address to which a buffer is bound; NULL if no command uses it. The call stores only the addresses of
// slots: the buffer's address is that of its first slot minus the slot's offset in the buffer.
void* pyd_call_buffer(const pyd_call_t* call, uint32_t buffer) {
  const pyd_plan_t* plan = call->plan;
  uint32_t first = plan->patch_first[buffer];
  const bool has_slots = first < plan->patch_first[buffer + 1];
  if (!has_slots) return NULL;
  const pyd_plan_patch_t* patch = &plan->patches[first];
  return (void*)((uintptr_t)call->pointers[patch->slot] - patch->offset);
}

const uint32_t* pyd_call_constants(const pyd_call_t* call) { return call->constants; }
uint64_t pyd_call_pattern(const pyd_call_t* call, uint32_t command) { return call->commands[command].pattern; }

const pyd_program_t* pyd_plan_program(const pyd_plan_t* plan) { return plan->program; }
uint32_t pyd_plan_function(const pyd_plan_t* plan) { return (uint32_t)(plan->fn - plan->program->functions); }
const pyd_program_function_t* pyd_plan_function_info(const pyd_plan_t* plan) { return &plan->fn->info; }
const int64_t* pyd_plan_dims(const pyd_plan_t* plan) { return plan->dims; }
// Returns the scalar arguments for which the plan was created.
const uint64_t* pyd_plan_scalars(const pyd_plan_t* plan, uint32_t* out_count) {
  *out_count = plan->fn->scalar_count;
  return plan->scalars;
}
