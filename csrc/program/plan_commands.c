// From instructions to the commands of a plan: grids and their limits, ranges of buffers, constants.
#include <stdio.h>
#include <string.h>

#include "program/plan.h"

typedef long long ll_t;
typedef unsigned long long ull_t;

// A range of a buffer as |command| names it. |offset_reg| and |length_reg| may be NONE: 0, and the rest.
static pyd_status_t add_slot(pyd_plan_t* plan, pyd_plan_command_t* command, uint32_t buffer, uint32_t offset_reg,
                             uint32_t length_reg, const char* what) {
  uint64_t size = plan->buffer_bytes[buffer];
  uint64_t offset = offset_reg == PYD_NONE ? 0 : plan->regs[offset_reg];
  bool fits = offset <= size;
  uint64_t length = length_reg != PYD_NONE ? plan->regs[length_reg] : fits ? size - offset : 0;
  if (!fits || length > size - offset) {
    char who[128];
    pyd_plan_name_buffer(plan->fn, buffer, who, sizeof(who));
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "function '%.*s', %s: %lld bytes at offset %lld lie outside the %llu bytes of %s",
                           STRING(plan->fn->info.name), what, (ll_t)length, (ll_t)offset, (ull_t)size, who);
  }
  plan->slots[plan->slot_count++] = (pyd_plan_slot_t){buffer, offset, length};
  ++command->slot_count;
  return PYD_STATUS_OK;
}

static void add_late(pyd_plan_t* plan, uint32_t reg, uint32_t target, bool is_pattern, bool is_high) {
  if (!(plan->fn->reg_flags[reg] & PYD_REG_LATE)) return;
  plan->late[plan->late_count++] = (pyd_plan_late_t){reg, target, is_pattern, is_high};
}

static pyd_status_t find_export(const pyd_plan_t* plan, const pyd_dispatch_view_t* view, uint32_t number,
                                const pyd_export_t** out_export) {
  const pyd_program_t* program = plan->program;
  pyd_string_t name = plan->fn->info.name;
  uint64_t index = plan->regs[view->export_reg];
  if (index >= program->export_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', command %u: export %lld, the program has %u",
                           STRING(name), number, (ll_t)index, program->export_count);
  }
  const pyd_export_t* export = *out_export = &program->exports[index];
  pyd_string_t executable = program->executables[export->executable].name;
  if (!export->function) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', command %u: executable '%.*s' is not linked",
                           STRING(name), number, STRING(executable));
  }
  if (view->constant_count != export->constant_count || view->binding_count != export->binding_count) {
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "function '%.*s', command %u: @%.*s::@%.*s takes %u constants and %u bindings, got %u and %u",
                           STRING(name), number, STRING(executable), STRING(export->name), export->constant_count,
                           export->binding_count, view->constant_count, view->binding_count);
  }
  return PYD_STATUS_OK;
}

static pyd_status_t set_grid(const pyd_plan_t* plan, const pyd_dispatch_view_t* view, const char* who,
                             pyd_plan_command_t* command) {
  static const uint64_t kLimits[3] = {UINT32_MAX, UINT32_MAX, UINT16_MAX};
  uint64_t grid[3];
  bool is_empty = false, fits = true;
  for (uint32_t i = 0; i < 3; ++i) {
    grid[i] = plan->regs[view->grid[i]];
    is_empty |= grid[i] == 0;
  }
  for (uint32_t i = 0; i < 3; ++i) {
    fits &= grid[i] <= (is_empty ? INT64_MAX : kLimits[i]);
    command->grid[i] = grid[i] <= kLimits[i] ? (uint32_t)grid[i] : (uint32_t)kLimits[i];
  }
  if (!fits) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', %s: a grid of %lld x %lld x %lld workgroups, at most "
                           "4294967295 x 4294967295 x 65535 are possible", STRING(plan->fn->info.name), who, (ll_t)grid[0],
                           (ll_t)grid[1], (ll_t)grid[2]);
  }
  if (__builtin_mul_overflow((uint64_t)command->grid[0] * command->grid[1], (uint64_t)command->grid[2], &command->count)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', %s: a grid of %llu x %llu x %llu has more than 2^64 "
                           "workgroups", STRING(plan->fn->info.name), who, (ull_t)grid[0], (ull_t)grid[1], (ull_t)grid[2]);
  }
  return PYD_STATUS_OK;
}

static pyd_status_t add_dispatch(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  const pyd_export_t* export = NULL;
  pyd_status_t status = find_export(plan, &view, command->number, &export);
  if (!pyd_ok(status)) return status;
  command->export = (uint32_t)plan->regs[view.export_reg];
  command->local_bytes = export->attrs->local_memory_pages * PYD_LIBRARY_PAGE_SIZE;
  command->first_constant = plan->constant_count;
  command->constant_count = view.constant_count;
  for (uint32_t i = 0; i < view.constant_count; ++i) {
    uint32_t reg = view.constants[i] & ~PYD_CONSTANT_HIGH;
    bool is_high = view.constants[i] & PYD_CONSTANT_HIGH;
    add_late(plan, reg, plan->constant_count, false, is_high);
    plan->constants[plan->constant_count++] = (uint32_t)(plan->regs[reg] >> (is_high ? 32 : 0));
  }
  char who[256];
  int executable_length = (int)plan->program->executables[export->executable].name.length;
  int export_length = (int)export->name.length;
  snprintf(who, sizeof(who), "@%.*s::@%.*s", executable_length < 100 ? executable_length : 100,
           plan->program->executables[export->executable].name.data, export_length < 100 ? export_length : 100,
           export->name.data);
  status = set_grid(plan, &view, who, command);
  uint32_t alignment = plan->program->links[export->executable].alignment;
  size_t end = strlen(who);
  for (uint32_t i = 0; i < view.binding_count && pyd_ok(status); ++i) {
    const uint32_t* binding = view.bindings + 3 * i;
    if (command->count == 0) {  // nothing runs: its ranges need not make sense
      plan->slots[plan->slot_count++] = (pyd_plan_slot_t){binding[0], 0, 0};
      ++command->slot_count;
      continue;
    }
    snprintf(who + end, sizeof(who) - end, ", binding %u", i);
    status = add_slot(plan, command, binding[0], binding[1], binding[2], who);
    if (!pyd_ok(status)) break;
    const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 1];
    if (slot->length && slot->offset % alignment) continue;  // is staged, wherever the buffer lies
    if (plan->buffer_alignment[binding[0]] < alignment) plan->buffer_alignment[binding[0]] = alignment;
  }
  if (pyd_ok(status)) status = pyd_plan_hold_contract(plan, command, view.constants);
  return status;
}

static uint64_t piece_count(uint64_t length) { return length / PYD_TILE_BYTES + (length % PYD_TILE_BYTES != 0); }

static pyd_status_t add_fill(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  char who[64];
  snprintf(who, sizeof(who), "command %u (fill)", command->number);
  pyd_status_t status = add_slot(plan, command, record[0], record[1], record[2], who);
  if (!pyd_ok(status)) return status;
  const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 1];
  command->pattern = plan->regs[record[3]];
  command->pattern_bytes = (uint8_t)record[4];
  command->length = slot->length;
  command->count = piece_count(slot->length);
  add_late(plan, record[3], command->number, true, false);
  if (slot->offset % record[4] || slot->length % record[4]) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', %s: %llu bytes at offset %llu are not whole patterns "
                           "of %u bytes", STRING(plan->fn->info.name), who, (ull_t)slot->length, (ull_t)slot->offset, record[4]);
  }
  return PYD_STATUS_OK;
}

static pyd_status_t add_copy(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  char who[64];
  snprintf(who, sizeof(who), "command %u (copy), source", command->number);
  pyd_status_t status = add_slot(plan, command, record[0], record[1], record[4], who);
  snprintf(who, sizeof(who), "command %u (copy), target", command->number);
  if (pyd_ok(status)) status = add_slot(plan, command, record[2], record[3], record[4], who);
  if (!pyd_ok(status)) return status;
  const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 2];
  uint64_t distance = slot[0].offset < slot[1].offset ? slot[1].offset - slot[0].offset : slot[0].offset - slot[1].offset;
  command->length = slot->length;
  command->overlaps = slot[0].buffer == slot[1].buffer && distance < slot->length;
  command->count = command->overlaps ? 1 : piece_count(slot->length);
  return PYD_STATUS_OK;
}

pyd_status_t pyd_plan_add_commands(pyd_plan_t* plan) {
  const pyd_function_t* fn = plan->fn;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < fn->command_count && pyd_ok(status); ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    const uint32_t* record = fn->pool + insn->a;
    pyd_plan_command_t* command = &plan->commands[plan->command_count++];
    command->number = i;
    command->region = insn->c;
    command->first_slot = plan->slot_count;
    command->kind = (uint8_t)(insn->op - PYD_OP_DISPATCH);
    if (command->kind == PYD_COMMAND_DISPATCH) {
      status = add_dispatch(plan, command, record);
    } else if (command->kind == PYD_COMMAND_FILL) {
      status = add_fill(plan, command, record);
    } else {
      status = add_copy(plan, command, record);
    }
  }
  return status;
}
