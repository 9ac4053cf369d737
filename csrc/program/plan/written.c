// The ranges that the commands of a plan write of a result that is stored in place of its argument.
#include "program/commands/command.h"

// Returns whether |command| copies bytes of buffer |argument| to the same offset of buffer |result|, which does nothing
// when both share memory.
static bool is_copy_in_place(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t argument,
                             uint32_t result) {
  const pyd_plan_slot_t* slots = plan->slots + command->first_slot;
  return command->kind == PYD_COMMAND_COPY && slots[0].buffer == argument && slots[1].buffer == result &&
         slots[0].offset == slots[1].offset;
}

// Returns whether |command| may write its slot |slot|, a bound range of a buffer.
static bool writes(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t slot) {
  if (command->kind == PYD_COMMAND_COPY) return slot == 1;  // the target; slot 0 is the source
  if (command->kind != PYD_COMMAND_DISPATCH) return true;
  // A bit per binding says whether the kernel writes it. Bindings from number 64 on have no bit.
  return slot >= 64 || pyd_plan_written_bindings(plan, command) >> slot & 1;
}

// Lists the ranges of result |result| that the commands of |plan| may write, if the result is stored in the memory of
// its tied argument: copies of the argument onto itself write nothing. Returns false if there are more than
// |max_ranges|.
bool pyd_plan_find_written(const pyd_plan_t* plan, uint32_t result, uint32_t max_ranges, pyd_range_t* out_ranges,
                           uint32_t* out_count) {
  const pyd_function_t* fn = plan->fn;
  uint32_t buffer = fn->results[result].target, argument = fn->args[fn->info.results[result].tied].buffer;
  *out_count = 0;
  for (uint32_t i = 0; i < plan->command_count; ++i) {
    const pyd_plan_command_t* command = &plan->commands[i];
    const bool is_empty = command->count == 0;
    if (is_empty || is_copy_in_place(plan, command, argument, buffer)) continue;
    for (uint32_t k = 0; k < command->slot_count; ++k) {
      const pyd_plan_slot_t* slot = &plan->slots[command->first_slot + k];
      if (slot->buffer != buffer || slot->length == 0 || !writes(plan, command, k)) continue;
      if (*out_count == max_ranges) return false;
      out_ranges[(*out_count)++] = (pyd_range_t){slot->offset, slot->length};
    }
  }
  return true;
}
