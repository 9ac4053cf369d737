// Translates the command instructions of a function to the commands of a plan.
#include "program/commands/command.h"

typedef long long ll_t;
typedef unsigned long long ull_t;

// Adds a slot to |command|: a range of |buffer|, whose offset and length are in registers. Without these registers
// (PYD_NONE) the offset is 0, and the range ends with the buffer. |name| is called with |operand| only to name the slot
// in the message of a failure.
pyd_status_t pyd_plan_add_slot(pyd_plan_t* plan, pyd_plan_command_t* command, uint32_t buffer, uint32_t offset_reg,
                               uint32_t length_reg, pyd_plan_name_fn_t name, uint32_t operand) {
  uint64_t size = plan->buffer_bytes[buffer];
  uint64_t offset = offset_reg == PYD_NONE ? 0 : plan->regs[offset_reg];
  bool fits = offset <= size;
  uint64_t length = length_reg != PYD_NONE ? plan->regs[length_reg] : fits ? size - offset : 0;
  if (!fits || length > size - offset) {
    char what[256], who[128];
    name(plan, command, operand, what, sizeof(what));
    pyd_plan_name_buffer(plan->fn, buffer, who, sizeof(who));
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "function '%.*s', %s: %lld bytes at offset %lld lie outside the %llu bytes of %s",
                           STRING(plan->fn->info.name), what, (ll_t)length, (ll_t)offset, (ull_t)size, who);
  }
  plan->slots[plan->slot_count++] = (pyd_plan_slot_t){buffer, offset, length};
  ++command->slot_count;
  return PYD_STATUS_OK;
}

// Adds a constant or a fill pattern to those that each call computes, if register |reg| is late. |target|: index of the
// constant word in the plan, or, with |is_pattern|, of the command. |is_high|: the word is the upper half of the
// register.
void pyd_plan_add_late(pyd_plan_t* plan, uint32_t reg, uint32_t target, bool is_pattern, bool is_high) {
  if (!(plan->fn->reg_flags[reg] & PYD_REG_LATE)) return;
  plan->deferred[plan->deferred_count++] = (pyd_plan_deferred_t){reg, target, is_pattern, is_high};
}

// Appends the constants of a command to the plan: 32-bit words. |words|: for each the register whose low half it is,
// or, with the flag PYD_CONSTANT_HIGH, whose high half.
void pyd_plan_add_constants(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* words, uint32_t count) {
  command->first_constant = plan->constant_count;
  command->constant_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t reg = words[i] & ~PYD_CONSTANT_HIGH;
    bool is_high = words[i] & PYD_CONSTANT_HIGH;
    pyd_plan_add_late(plan, reg, plan->constant_count, /* is_pattern */ false, is_high);
    plan->constants[plan->constant_count++] = (uint32_t)(plan->regs[reg] >> (is_high ? 32 : 0));
  }
}

// Creates one command of the plan per command of the function, after registers and buffer sizes are known.
pyd_status_t pyd_plan_add_commands(pyd_plan_t* plan) {
  const pyd_function_t* fn = plan->fn;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < fn->command_count && pyd_ok(status); ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    pyd_plan_command_t* command = &plan->commands[plan->command_count++];
    command->kind = (uint8_t)(insn->op - PYD_OP_DISPATCH);  // opcodes of commands are in the order of their kinds
    command->number = i;
    command->region = pyd_command_region(insn);
    command->first_slot = plan->slot_count;
    command->alignment = 1;  // a dispatch raises it
    status = pyd_command_type(command)->plan(plan, command, pyd_command_record(fn, insn));
  }
  return status;
}
