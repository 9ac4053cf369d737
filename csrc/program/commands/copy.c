// COPY {source buffer, offset or NONE, target buffer, offset or NONE, length}: a copy of bytes. Offsets and length are
// registers; NONE is offset 0.
#include <stdio.h>
#include <string.h>

#include "program/commands/command.h"
#include "program/commands/pieces.h"

typedef unsigned long long ull_t;

// Words of a COPY record: buffers of source and target with their offset registers, and the length register.
enum { SOURCE, SOURCE_OFFSET, TARGET, TARGET_OFFSET, LENGTH, WORDS };

// Returns whether the copy is from an argument to the same offset of the result that is tied to the argument. A caller
// may give both the same memory, and then the copy moves nothing. The offsets count as the same if their registers are,
// as the values of registers are not known yet. The target buffer must exist; all other numbers are checked here.
static bool is_onto_itself(const pyd_function_t* fn, const uint32_t* record) {
  const pyd_buffer_t* target = &fn->buffers[record[TARGET]];
  if (target->kind != PYD_BUFFER_RESULT || target->index >= fn->info.result_count) return false;
  const uint32_t tied_arg = fn->info.results[target->index].tied;
  const bool is_from_tied_arg = tied_arg < fn->info.arg_count && fn->args[tied_arg].buffer == record[SOURCE];
  return is_from_tied_arg && record[SOURCE_OFFSET] == record[TARGET_OFFSET];
}

// Verifies the COPY record at word |at| of the pool, and counts its two slots (bound ranges of buffers: source,
// target).
static pyd_status_t verify(const pyd_verifier_t* v, uint32_t at) {
  pyd_status_t status = pyd_verify_record(v, at, WORDS);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + at;
  status = pyd_verify_buffer(v, record[SOURCE], /* is_written */ false);
  if (pyd_ok(status)) status = pyd_verify_optional(v, record[SOURCE_OFFSET]);
  // A copy of an argument onto itself is no write of the result. A buffer number out of range is refused as a write.
  const bool has_target = record[TARGET] < v->fn->buffer_count;
  const bool is_written = !(has_target && is_onto_itself(v->fn, record));
  if (pyd_ok(status)) status = pyd_verify_buffer(v, record[TARGET], is_written);
  if (pyd_ok(status)) status = pyd_verify_optional(v, record[TARGET_OFFSET]);
  if (pyd_ok(status)) status = pyd_verify_read(v, record[LENGTH]);
  v->fn->slot_count += 2;
  return status;
}

// Marks the registers that decide which bytes are copied as structural: a plan is valid only for their values.
static void mark(pyd_function_t* fn, const uint32_t* record) {
  pyd_mark_structural(fn, record[SOURCE_OFFSET]);
  pyd_mark_structural(fn, record[TARGET_OFFSET]);
  pyd_mark_structural(fn, record[LENGTH]);
}

// Writes the name of the source (0) or the target (1) of a copy.
static void name_operand(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, char* text,
                         size_t size) {
  (void)plan;
  snprintf(text, size, "command %u (copy), %s", command->number, index == 0 ? "source" : "target");
}

// Adds the slots (bound ranges of buffers) of source and target to the plan, in this order, and splits the copy into
// pieces that workers can share.
static pyd_status_t plan_copy(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  pyd_status_t status = pyd_plan_add_slot(plan, command, record[SOURCE], record[SOURCE_OFFSET], record[LENGTH],
                                          name_operand, /* source */ 0);
  if (pyd_ok(status)) {
    status = pyd_plan_add_slot(plan, command, record[TARGET], record[TARGET_OFFSET], record[LENGTH], name_operand,
                               /* target */ 1);
  }
  if (!pyd_ok(status)) return status;
  const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 2];  // slot[0]: the source, slot[1]: the target
  uint64_t distance =
      slot[0].offset < slot[1].offset ? slot[1].offset - slot[0].offset : slot[0].offset - slot[1].offset;
  command->length = slot->length;
  command->overlaps = slot[0].buffer == slot[1].buffer && distance < slot->length;
  // An overlapping copy is one memmove: a piece would overwrite bytes that another worker has still to read.
  command->count = command->overlaps ? 1 : pyd_piece_count(slot->length);
  return PYD_STATUS_OK;
}

// Writes a readable description of a copy. Implements pyd_command_type_t.describe.
static void describe(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  const pyd_plan_slot_t* slot = &plan->slots[command->first_slot];
  char source[96], target[96];
  pyd_plan_name_buffer(plan->fn, slot[0].buffer, source, sizeof(source));
  pyd_plan_name_buffer(plan->fn, slot[1].buffer, target, sizeof(target));
  snprintf(text, size, "copy %llu bytes at %llu of %s to %llu of %s", (ull_t)command->length, (ull_t)slot[0].offset,
           source, (ull_t)slot[1].offset, target);
}

// Returns whether source and target have the same address, so that nothing has to be copied: the caller has bound the
// same memory to an argument and to the result to which the argument is copied.
static bool is_skipped(const pyd_call_t* call, const pyd_plan_command_t* command) {
  return call->pointers[command->first_slot] == call->pointers[command->first_slot + 1];
}

// Copies pieces [begin, end). Never fails.
static int32_t run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                   uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  const pyd_plan_command_t* plan = command->plan;
  const uint8_t* source = call->pointers[plan->first_slot];
  uint8_t* target = call->pointers[plan->first_slot + 1];
  uint64_t offset = begin * PYD_PIECE_BYTES;
  if (plan->overlaps) {
    memmove(target, source, plan->length);  // there is only one piece
  } else if (!is_skipped(call, plan)) {
    memcpy(target + offset, source + offset, pyd_piece_bytes(plan, begin, end));
  }
  return 0;
}

const pyd_command_type_t pyd_command_type_COPY = {
    .verify = verify,
    .mark = mark,
    .plan = plan_copy,
    .describe = describe,
    .is_skipped = is_skipped,
    .run = run,
};
