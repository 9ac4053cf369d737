// A kind of command: REVERSE {buffer} turns the bytes of a buffer around. This file and its row are all that it takes.
#include <stdio.h>

#include "program/commands/command.h"

enum { BUFFER, WORDS };

static pyd_status_t verify(const pyd_verifier_t* v, uint32_t at) {
  pyd_status_t status = pyd_verify_record(v, at, WORDS);
  if (pyd_ok(status)) status = pyd_verify_buffer(v, v->fn->pool[at + BUFFER], true);
  v->fn->slot_count += 1;
  return status;
}

static void mark(pyd_function_t* fn, const uint32_t* record) { (void)fn, (void)record; }

static void name_operand(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, char* text,
                         size_t size) {
  (void)plan, (void)command, (void)index;
  snprintf(text, size, "reverse");
}

static pyd_status_t plan_reverse(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  pyd_status_t status = pyd_plan_add_slot(plan, command, record[BUFFER], PYD_NONE, PYD_NONE, name_operand, 0);
  if (!pyd_ok(status)) return status;
  command->length = plan->slots[plan->slot_count - 1].length;
  command->count = command->length != 0;
  return status;
}

static void describe(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  char buffer[96];
  pyd_plan_name_buffer(plan->fn, plan->slots[command->first_slot].buffer, buffer, sizeof(buffer));
  snprintf(text, size, "reverse %s", buffer);
}

enum { REFUSED = 0xEE };  // the first byte of what it does not turn around

static int32_t run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                   uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end;
  uint8_t *low = call->pointers[command->plan->first_slot], *high = low + command->plan->length;
  *out_failed = command->plan->start;
  if (*low == REFUSED) return 7;
  while (low < high) {
    uint8_t byte = *low;
    *low++ = *--high;
    *high = byte;
  }
  return 0;
}

static pyd_status_t refuse(const pyd_call_t* call, const pyd_plan_command_t* command, uint64_t index, int32_t code) {
  (void)call, (void)index;
  return pyd_status_make(PYD_CODE_KERNEL, "command %u (reverse) ended with %d", command->number, code);
}

const pyd_command_type_t pyd_command_type_REVERSE = {
    .verify = verify,
    .mark = mark,
    .plan = plan_reverse,
    .describe = describe,
    .run = run,
    .refuse = refuse,
};
