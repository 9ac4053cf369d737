// The kinds of commands. Each kind is one file of this folder, from the verification of its record to its execution,
// and one pyd_command_type_t, which is listed in PYD_COMMANDS of program_device.h.
#ifndef PYD_PROGRAM_COMMANDS_COMMAND_H_
#define PYD_PROGRAM_COMMANDS_COMMAND_H_

#include "program/call/call.h"
#include "program/decode/verify.h"

// Registers with the constants and patterns of a command. With PYD_CONSTANT_HIGH: the upper half of the register.
typedef struct pyd_command_values_s {
  const uint32_t* regs;
  uint32_t count;
} pyd_command_values_t;

// The bindings of a dispatch.
typedef struct pyd_command_bindings_s {
  const uint32_t* words;  // three each: buffer, register of the offset or NONE, register of the length or NONE
  uint32_t count;
  uint32_t export_reg;  // register of the number of the export
} pyd_command_bindings_t;

// The functions of one kind of command.
typedef struct pyd_command_type_s {
  // ---- records: the words of the function's pool that describe a command

  // Verifies the record at pool word |at|: operands are in range, registers are written, buffers are live and may be
  // written. Counts slots and constants.
  pyd_status_t (*verify)(const pyd_verifier_t* v, uint32_t at);
  // Marks as structural the registers that decide what the command touches: offsets, lengths, grids.
  void (*mark)(pyd_function_t* fn, const uint32_t* record);
  // Return the constants and patterns, and the bindings. NULL: the kind has none.
  pyd_command_values_t (*values)(const uint32_t* record);
  pyd_command_bindings_t (*bindings)(const uint32_t* record);

  // ---- in a plan

  // Fills |command| with slots, count, and the fields of this kind. INVALID_ARGUMENT if a range is outside of its
  // buffer.
  pyd_status_t (*plan)(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record);
  // Writes a description, such as "fill 16 bytes at 0 of result 0 with 0x00".
  void (*describe)(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size);
  // Fills the fields for devices, besides slots, region and pattern. NULL: none.
  void (*inform)(const pyd_plan_t* plan, const pyd_plan_command_t* command, pyd_command_info_t* out_info);

  // ---- in a call

  // Fills the data of |out| that is the same in all runs. NULL: none.
  void (*prepare)(const pyd_call_t* call, const pyd_plan_command_t* command, pyd_call_command_t* out);
  // Returns whether running the command would change nothing. NULL: never.
  bool (*is_skipped)(const pyd_call_t* call, const pyd_plan_command_t* command);
  // Runs indices [begin, end) of the command: workgroups of a dispatch, pieces of a fill or copy, 0 of a host command.
  // Threads run different indices at the same time.
  pyd_command_run_t run;
  // Returns the status for a code that |run| returned at |index| of the step. NULL: |run| cannot fail.
  pyd_status_t (*refuse)(const pyd_call_t* call, const pyd_plan_command_t* command, uint64_t index, int32_t code);
} pyd_command_type_t;

// By pyd_command_kind_t.
extern const pyd_command_type_t* const pyd_command_types[];

// Returns the functions of the kind of a command, given by its instruction: opcodes of commands are in the order of
// pyd_command_kind_t, from PYD_OP_DISPATCH on.
static inline const pyd_command_type_t* pyd_command_type_of_insn(const pyd_insn_t* insn) {
  return pyd_command_types[insn->op - PYD_OP_DISPATCH];
}
// Returns the functions of the kind of a command of a plan.
static inline const pyd_command_type_t* pyd_command_type(const pyd_plan_command_t* command) {
  return pyd_command_types[command->kind];
}

// Returns the record of a command of |fn|: the words of the function's pool that its instruction refers to.
static inline const uint32_t* pyd_command_record(const pyd_function_t* fn, const pyd_insn_t* insn) {
  return fn->pool + insn->a;
}

// Marks |reg|, which may be NONE, as structural; for |mark|.
static inline void pyd_mark_structural(pyd_function_t* fn, uint32_t reg) {
  if (reg != PYD_NONE) fn->reg_flags[reg] |= PYD_REG_STRUCTURAL;
}

// Writes the name of an operand of |command| for messages. |index|: number of the operand.
typedef void (*pyd_plan_name_fn_t)(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index,
                                   char* text, size_t size);

// Adds a slot to |command|, a range of |buffer|; for |plan|. |offset_reg| and |length_reg| may be NONE: offset 0, and
// the rest of the buffer. |name| is called with |operand| for the message of a failure only: composing names for all
// slots would take longer than all the rest of a small plan.
pyd_status_t pyd_plan_add_slot(pyd_plan_t* plan, pyd_plan_command_t* command, uint32_t buffer, uint32_t offset_reg,
                               uint32_t length_reg, pyd_plan_name_fn_t name, uint32_t operand);
// Notes a constant word or pattern that each call computes, if its register is late.
void pyd_plan_add_late(pyd_plan_t* plan, uint32_t reg, uint32_t target, bool is_pattern, bool is_high);
// Appends the constants of a command to the plan, one for each register in |words|, and notes those that are late.
void pyd_plan_add_constants(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* words, uint32_t count);

#endif  // PYD_PROGRAM_COMMANDS_COMMAND_H_
