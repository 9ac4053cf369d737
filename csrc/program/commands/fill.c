// FILL {buffer, offset or NONE, length or NONE, pattern, bytes of the pattern}: repeats a pattern. Offset, length and
// pattern are registers; without them, the offset is 0, and the length is the rest of the buffer.
#include <stdio.h>
#include <string.h>

#include "program/commands/command.h"
#include "program/commands/pieces.h"

typedef unsigned long long ull_t;

// Words of a FILL record: the buffer, registers of its offset, length and pattern, and the bytes of the pattern.
enum { BUFFER, OFFSET, LENGTH, PATTERN, PATTERN_BYTES, WORDS };

// Verifies the record at pool word |at|, and counts its slot.
static pyd_status_t verify(const pyd_verifier_t* v, uint32_t at) {
  pyd_status_t status = pyd_verify_record(v, at, WORDS);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + at;
  status = pyd_verify_buffer(v, record[BUFFER], /* is_written */ true);
  if (pyd_ok(status)) status = pyd_verify_optional(v, record[OFFSET]);
  if (pyd_ok(status)) status = pyd_verify_optional(v, record[LENGTH]);
  if (pyd_ok(status)) status = pyd_verify_read(v, record[PATTERN]);
  uint32_t bytes = record[PATTERN_BYTES];
  if (pyd_ok(status) && bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
    status = PYD_INSN_CORRUPT(v, "a fill pattern of %u bytes, it has 1, 2, 4 or 8", bytes);
  }
  v->fn->slot_count += 1;
  return status;
}

// Marks the registers that decide which bytes are filled.
static void mark(pyd_function_t* fn, const uint32_t* record) {
  pyd_mark_structural(fn, record[OFFSET]);
  pyd_mark_structural(fn, record[LENGTH]);
}

static pyd_command_values_t values(const uint32_t* record) { return (pyd_command_values_t){record + PATTERN, 1}; }

// Writes the name of a fill.
static void name_operand(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, char* text,
                         size_t size) {
  (void)plan, (void)index;
  snprintf(text, size, "command %u (fill)", command->number);
}

// Plans a fill: its slot, its pattern, and the number of pieces that workers can share. Offset and length of the range
// must be multiples of the bytes of the pattern.
static pyd_status_t plan_fill(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  pyd_status_t status =
      pyd_plan_add_slot(plan, command, record[BUFFER], record[OFFSET], record[LENGTH], name_operand, /* operand */ 0);
  if (!pyd_ok(status)) return status;
  const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 1];
  uint32_t bytes = record[PATTERN_BYTES];
  command->pattern = plan->regs[record[PATTERN]];
  command->pattern_bytes = (uint8_t)bytes;
  command->length = slot->length;
  command->count = pyd_piece_count(slot->length);
  pyd_plan_add_late(plan, record[PATTERN], command->number, /* is_pattern */ true, /* is_high */ false);
  if (slot->offset % bytes == 0 && slot->length % bytes == 0) return PYD_STATUS_OK;
  char who[64];
  name_operand(plan, command, /* index */ 0, who, sizeof(who));
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "function '%.*s', %s: %llu bytes at offset %llu are not whole patterns of "
                         "%u bytes",
                         STRING(plan->fn->info.name), who, (ull_t)slot->length, (ull_t)slot->offset, bytes);
}

// Writes a readable description of a fill. Implements pyd_command_type_t.describe.
static void describe(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  const pyd_plan_slot_t* slot = &plan->slots[command->first_slot];
  uint64_t mask = UINT64_MAX >> (64 - 8 * command->pattern_bytes);  // the bits of the pattern
  char target[96];
  pyd_plan_name_buffer(plan->fn, slot->buffer, target, sizeof(target));
  snprintf(text, size, "fill %llu bytes at %llu of %s with 0x%0*llX", (ull_t)command->length, (ull_t)slot->offset,
           target, 2 * command->pattern_bytes, (ull_t)(command->pattern & mask));
}

// Fills |length| bytes with the lower |pattern_bytes| (1, 2, 4 or 8) bytes of |pattern|, as 8-byte stores, or as memset
// if all its bytes are equal.
static void fill(uint8_t* target, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) {
  // Repeats the pattern in all 8 bytes of the word.
  switch (pattern_bytes) {
    case 1: pattern = (pattern & 0xFF) * UINT64_C(0x0101010101010101); break;
    case 2: pattern = (pattern & 0xFFFF) * UINT64_C(0x0001000100010001); break;
    case 4: pattern = (pattern & 0xFFFFFFFF) * UINT64_C(0x0000000100000001); break;
    default: break;
  }
  if (pattern == (pattern & 0xFF) * UINT64_C(0x0101010101010101)) {
    memset(target, (int)(pattern & 0xFF), length);
    return;
  }
  uint64_t at = 0;
  for (; length - at >= sizeof(pattern); at += sizeof(pattern)) memcpy(target + at, &pattern, sizeof(pattern));
  // The last bytes are whole patterns, as the length is a multiple of |pattern_bytes|.
  if (length != at) memcpy(target + at, &pattern, length - at);
}

// Fills pieces [begin, end). Pieces begin at multiples of PYD_PIECE_BYTES, so each begins with a whole pattern.
static int32_t run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                   uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  const pyd_plan_command_t* plan = command->plan;
  uint8_t* target = call->pointers[plan->first_slot];
  fill(target + begin * PYD_PIECE_BYTES, pyd_piece_bytes(plan, begin, end), command->pattern, plan->pattern_bytes);
  return 0;
}

const pyd_command_type_t pyd_command_type_FILL = {
    .verify = verify,
    .mark = mark,
    .values = values,
    .plan = plan_fill,
    .describe = describe,
    .run = run,
};
