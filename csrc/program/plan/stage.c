// Staging: bindings that are less aligned than their executable requires, such as slices of a tensor, are copied to
// aligned memory, the staging buffer, and back. The copies are in regions of their own, before and after the region of
// the dispatch.
#include <stdlib.h>
#include <string.h>

#include "program/commands/command.h"
#include "program/commands/pieces.h"

// Alignment of copies in the staging buffer, in bytes.
enum { kAlignment = 64 };

// The regions that replace one region of the function, in order: regions run one after the other.
enum { kCopiesIn, kCommands, kCopiesOut, kStagedRegions };

// Returns the region of the plan for one part, kCopiesIn, kCommands or kCopiesOut, of a region of the function.
static uint32_t staged_region(uint32_t region, uint32_t part) { return kStagedRegions * region + part; }

// Returns an upper bound of the number of bindings that pyd_plan_stage() copies in plans of |fn|, whatever the sizes.
uint32_t pyd_plan_stage_count(const pyd_function_t* fn) {
  uint32_t count = 0;  // at most the number of slots, which fits 32 bits
  for (uint32_t i = 0; i < fn->command_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    const pyd_command_type_t* type = pyd_command_type_of_insn(insn);
    if (!type->bindings) continue;
    pyd_command_bindings_t bindings = type->bindings(pyd_command_record(fn, insn));
    // A binding has three words: buffer, offset register, length register. A binding without an offset register begins
    // at offset 0 of its buffer, which is aligned.
    for (uint32_t k = 0; k < bindings.count; ++k) count += bindings.words[3 * k + 1] != PYD_NONE;
  }
  return count;
}

// Returns whether a range is not empty and begins at an offset that is no multiple of |alignment| bytes.
static bool is_misaligned(const pyd_plan_slot_t* slot, uint32_t alignment) {
  return slot->length && slot->offset % alignment;
}

// Adds a copy of range |from| to range |to|, of equal length, to the plan. |number|: of the command that it serves.
static void add_copy(pyd_plan_t* plan, uint32_t number, uint32_t region, pyd_plan_slot_t from, pyd_plan_slot_t to) {
  plan->commands[plan->command_count++] = (pyd_plan_command_t){
      .kind = PYD_COMMAND_COPY,
      .number = number,
      .region = region,
      .first_slot = plan->slot_count,
      .slot_count = 2,
      .alignment = 1,
      .length = from.length,
      .count = pyd_piece_count(from.length),
  };
  plan->slots[plan->slot_count++] = from;
  plan->slots[plan->slot_count++] = to;
}

// Adds a copy of each misaligned binding of |command| to aligned bytes that it appends to the staging buffer, in the
// region before the command, and binds these bytes in place of the original. Returns false if the staging buffer
// becomes larger than 2^63 bytes.
static bool copy_in(pyd_plan_t* plan, const pyd_plan_command_t* command) {
  // The index of the staging buffer follows the indices of the function's buffers.
  uint32_t alignment = command->alignment, fn_buffers = plan->fn->buffer_count;
  pyd_plan_slot_t* slots = plan->slots + command->first_slot;
  for (uint32_t i = 0; i < command->slot_count; ++i) {
    if (!is_misaligned(&slots[i], alignment)) continue;
    pyd_plan_slot_t original = slots[i];
    pyd_plan_slot_t staged = {.buffer = fn_buffers, .offset = plan->stage_bytes, .length = original.length};
    uint64_t padded = (original.length + kAlignment - 1) & ~(uint64_t)(kAlignment - 1);  // a length fits into 63 bits
    if (__builtin_add_overflow(plan->stage_bytes, padded, &plan->stage_bytes) || plan->stage_bytes > INT64_MAX)
      return false;
    add_copy(plan, command->number, staged_region(command->region, kCopiesIn), original, staged);
    for (uint32_t k = i; k < command->slot_count; ++k) {  // equal bindings share the copy: in-place operands have two
      if (slots[k].buffer == original.buffer && slots[k].offset == original.offset &&
          slots[k].length == original.length)
        slots[k] = staged;
    }
  }
  return true;
}

// Adds copies in the region after |command| that write staged results and transients back: the reverse of the copies
// before the command, commands [first, end) of the plan.
static void copy_out(pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; ++i) {
    PYD_COUNT_WORK(1);
    pyd_plan_slot_t original = plan->slots[plan->commands[i].first_slot],  // source of copy i
        staged = plan->slots[plan->commands[i].first_slot + 1];            // its target
    uint32_t kind = plan->fn->buffers[original.buffer].kind;
    const bool may_be_written = kind == PYD_BUFFER_RESULT || kind == PYD_BUFFER_TRANSIENT;
    if (may_be_written) {
      add_copy(plan, command->number, staged_region(command->region, kCopiesOut), staged, original);
    }
  }
}

// Returns whether a command of the plan has a misaligned binding.
static bool has_misaligned(const pyd_plan_t* plan) {
  for (uint32_t i = 0; i < plan->command_count; ++i) {
    const pyd_plan_command_t* command = &plan->commands[i];
    const pyd_plan_slot_t* slots = plan->slots + command->first_slot;
    for (uint32_t k = 0; k < command->slot_count; ++k) {
      if (is_misaligned(&slots[k], command->alignment)) return true;
    }
  }
  return false;
}

// Appends to the plan the commands old[begin] to old[end - 1], which are all commands of one region. Before them, adds
// copies of misaligned bindings to aligned memory, and after them copies back. |new_index|: by old index, receives the
// new index of the command. |copies|: by old index, scratch memory for the index of the first copy of the command.
// Returns false if the copies are larger than 2^63 bytes.
static bool stage_region(pyd_plan_t* plan, const pyd_plan_command_t* old, uint32_t begin, uint32_t end,
                         uint32_t* new_index, uint32_t* copies) {
  for (uint32_t i = begin; i < end; ++i) {
    copies[i] = plan->command_count;
    if (!copy_in(plan, &old[i])) return false;
    copies[i + 1] = plan->command_count;
  }
  for (uint32_t i = begin; i < end; ++i) {
    new_index[i] = plan->command_count;
    plan->commands[plan->command_count] = old[i];
    plan->commands[plan->command_count++].region = staged_region(old[i].region, kCommands);
  }
  for (uint32_t i = begin; i < end; ++i) copy_out(plan, &old[i], copies[i], copies[i + 1]);
  return true;
}

// Adds copies before and after dispatches with bindings that are less aligned than their executable requires.
pyd_status_t pyd_plan_stage(pyd_plan_t* plan) {
  if (!has_misaligned(plan)) return PYD_STATUS_OK;
  uint32_t count = plan->command_count;
  pyd_plan_command_t* old = malloc(count * sizeof(*old));    // the commands before staging
  uint32_t* new_index = malloc(count * sizeof(*new_index));  // see stage_region()
  uint32_t* copies = malloc(((size_t)count + 1) * sizeof(*copies));
  const bool has_memory = old && new_index && copies;
  bool fits = true;
  if (has_memory) {
    memcpy(old, plan->commands, count * sizeof(*old));
    plan->command_count = 0;
    for (uint32_t begin = 0, end; begin < count && fits; begin = end) {
      for (end = begin + 1; end < count && old[end].region == old[begin].region;) ++end;
      fits = stage_region(plan, old, begin, end, new_index, copies);
    }
    for (uint32_t i = 0; i < plan->deferred_count && fits; ++i) {  // patterns refer to their command by index
      if (plan->deferred[i].is_pattern) plan->deferred[i].target = new_index[plan->deferred[i].target];
    }
  }
  free(copies);
  free(new_index);
  free(old);
  if (has_memory && fits) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY,
                         "function '%.*s': no memory for the copies of bindings that are not aligned",
                         STRING(plan->fn->info.name));
}
