// The kinds of commands. What a kind is, from the record that describes it to its execution, is one file of this folder
// and one row: a pyd_command_type_t, named in PYD_COMMANDS of program_device.h.
#ifndef PYD_PROGRAM_COMMANDS_COMMAND_H_
#define PYD_PROGRAM_COMMANDS_COMMAND_H_

#include "program/call/call.h"
#include "program/decode/verify.h"

// Registers whose values reach memory: constants and patterns. With PYD_CONSTANT_HIGH: the upper half of one does.
typedef struct pyd_command_values_s {
  const uint32_t* regs;
  uint32_t count;
} pyd_command_values_t;

// What machine code of an executable is bound to.
typedef struct pyd_command_bindings_s {
  const uint32_t* words;  // three each: buffer, register of the offset or NONE, register of the length or NONE
  uint32_t count;
  uint32_t export_reg;  // register of the number of the export
} pyd_command_bindings_t;

typedef struct pyd_command_type_s {
  // ---- the words of the function's pool that describe a command: its record

  // While the function is decoded: every operand is in range, registers are written, buffers live and may be written.
  // Counts slots and constants.
  pyd_status_t (*verify)(const pyd_verifier_t* v, uint32_t at);
  // When the rest of the function is verified: false, and which result, when a result that lies in the memory of its
  // argument would be read after it is overwritten. NULL: always true.
  bool (*keeps_arguments)(const pyd_function_t* fn, const uint32_t* record, uint32_t* out_result);
  // Marks the registers that decide what the command touches: offsets, lengths, grids.
  void (*mark)(pyd_function_t* fn, const uint32_t* record);
  // NULL: it has none.
  pyd_command_values_t (*values)(const uint32_t* record);
  pyd_command_bindings_t (*bindings)(const uint32_t* record);

  // ---- in a plan

  // Fills |command|: slots, count, and what only this kind has. Refuses what does not fit the buffers.
  pyd_status_t (*plan)(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record);
  // For people: "fill 16 bytes at 0 of result 0 with 0x00".
  void (*describe)(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size);
  // What a device gets besides slots, region and pattern. NULL: nothing.
  void (*inform)(const pyd_plan_t* plan, const pyd_plan_command_t* command, pyd_command_info_t* out_info);

  // ---- in a call

  // What every run needs, once. NULL: nothing.
  void (*prepare)(const pyd_call_t* call, const pyd_plan_command_t* command, pyd_call_command_t* out);
  pyd_command_run_t run;
  // The status for a code of |run| at |index| of the step. NULL: |run| returns 0.
  pyd_status_t (*refuse)(const pyd_call_t* call, const pyd_plan_command_t* command, uint64_t index, int32_t code);
} pyd_command_type_t;

// By pyd_command_kind_t.
extern const pyd_command_type_t* const pyd_command_types[];

static inline const pyd_command_type_t* pyd_command_type_of_insn(const pyd_insn_t* insn) {
  return pyd_command_types[insn->op - PYD_OP_DISPATCH];
}
static inline const pyd_command_type_t* pyd_command_type(const pyd_plan_command_t* command) {
  return pyd_command_types[command->kind];
}

// For |mark|. |reg| may be NONE.
static inline void pyd_mark_structural(pyd_function_t* fn, uint32_t reg) {
  if (reg != PYD_NONE) fn->reg_flags[reg] |= PYD_REG_STRUCTURAL;
}

// For |plan|: the next slot of |command|, a range of |buffer|. |offset_reg| and |length_reg| may be NONE: 0, and the
// rest. |what|: the command, for the text of a refusal.
pyd_status_t pyd_plan_add_slot(pyd_plan_t* plan, pyd_plan_command_t* command, uint32_t buffer, uint32_t offset_reg,
                               uint32_t length_reg, const char* what);
// A constant or pattern whose register may differ from call to call.
void pyd_plan_add_late(pyd_plan_t* plan, uint32_t reg, uint32_t target, bool is_pattern, bool is_high);

#endif  // PYD_PROGRAM_COMMANDS_COMMAND_H_
