// Marks, for each register of a function, whether its value affects the plan (PYD_REG_STRUCTURAL), is passed to
// commands or returned (PYD_REG_NEEDED), or depends on scalar arguments that are not in the key of cached plans
// (PYD_REG_LATE). Takes linear time.
#include <stdlib.h>

#include "program/commands/command.h"

static void mark(pyd_function_t* fn, uint32_t reg, uint8_t flag) { fn->reg_flags[reg] |= flag; }

// Adds |flag|, a set of flags, to the registers that an instruction reads.
static void mark_operands(pyd_function_t* fn, const pyd_insn_t* insn, uint8_t flag) {
  uint8_t uses = pyd_opcode(insn)->registers;
  if (uses & PYD_OPERAND_A) mark(fn, insn->a, flag);
  if (uses & PYD_OPERAND_B) mark(fn, insn->b, flag);
  if (uses & PYD_OPERAND_C) mark(fn, insn->c, flag);
}

// Returns whether the contract of |export| (which elements its kernel reads and writes) depends on constant |word| of a
// dispatch. True for PYD_NONE: the export is chosen at run time, and it may be any.
static bool may_read_constant(const pyd_program_t* program, uint32_t export, uint32_t word) {
  return export == PYD_NONE || pyd_contract_reads(&program->exports[export], word);
}

// Marks the registers that a command reads. The plan depends on registers of its buffer ranges and its grid, and on
// registers that a kernel's contract reads: they are STRUCTURAL. Registers whose values the command passes to its
// kernel are NEEDED. |exports|: by register, the export whose number it holds; NULL if no export has a contract.
static void mark_command(const pyd_program_t* program, const uint32_t* exports, pyd_function_t* fn,
                         const pyd_insn_t* insn) {
  const uint32_t* record = pyd_command_record(fn, insn);
  const pyd_command_type_t* type = pyd_command_type_of_insn(insn);
  type->mark(fn, record);
  if (!type->values) return;
  // Value i of a dispatch is its constant i: a register number, with the flag PYD_CONSTANT_HIGH if the constant is the
  // high word of the register.
  const pyd_command_values_t values = type->values(record);
  for (uint32_t i = 0; i < values.count; ++i) mark(fn, values.regs[i] & ~PYD_CONSTANT_HIGH, PYD_REG_NEEDED);
  if (!exports || !type->bindings) return;  // only dispatches have bindings, and a kernel with a contract
  const uint32_t export = exports[type->bindings(record).export_reg];
  for (uint32_t i = 0; i < values.count; ++i) {
    if (may_read_constant(program, export, i)) mark(fn, values.regs[i] & ~PYD_CONSTANT_HIGH, PYD_REG_STRUCTURAL);
  }
}

// Returns how many of the values that a command passes on are late: computed in each call rather than once per plan. A
// value is a register number, with the flag PYD_CONSTANT_HIGH if the value is the high word of the register.
static uint32_t count_deferred_values(const pyd_function_t* fn, const pyd_insn_t* insn) {
  const pyd_command_type_t* type = pyd_command_type_of_insn(insn);
  if (!type->values) return 0;
  const pyd_command_values_t values = type->values(pyd_command_record(fn, insn));
  uint32_t count = 0;
  for (uint32_t i = 0; i < values.count; ++i) {
    count += (fn->reg_flags[values.regs[i] & ~PYD_CONSTANT_HIGH] & PYD_REG_LATE) != 0;
  }
  return count;
}

// Finds, for each register, the number of the export that it may hold. Only constant registers can hold the number of
// an export; others get PYD_NONE.
void pyd_function_find_exports(const pyd_program_t* program, const pyd_function_t* fn, uint32_t* out_exports) {
  for (uint32_t i = 0; i < fn->reg_count; ++i) out_exports[i] = PYD_NONE;
  for (uint32_t i = 0; i < fn->insn_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[i];
    PYD_COUNT_WORK(1);
    // The value of CONST: b is the low word, c the high one.
    if (insn->op == PYD_OP_CONST && insn->c == 0 && insn->b < program->export_count) out_exports[insn->dst] = insn->b;
  }
}

// Finds, for each register, the number of the export that it may hold, in a new array, which the caller frees.
// |*out_exports| is NULL if no export of the program has a contract, as only contracts need the array.
static pyd_status_t find_exports(const pyd_program_t* program, const pyd_function_t* fn, uint32_t** out_exports) {
  *out_exports = NULL;
  if (!program->has_contracts) return PYD_STATUS_OK;
  *out_exports = malloc(((size_t)fn->reg_count + 1) * sizeof(**out_exports));
  if (!*out_exports) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the analysis of a function");
  pyd_function_find_exports(program, fn, *out_exports);
  return PYD_STATUS_OK;
}

// Clears the results of an earlier analysis, except PYD_REG_WRITTEN, which the verifier sets.
static void clear(pyd_function_t* fn) {
  for (uint32_t i = 0; i < fn->reg_count; ++i) fn->reg_flags[i] &= PYD_REG_WRITTEN;
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) fn->args[i].keyed = false;
  fn->keyed_count = fn->deferred_count = fn->deferred_value_count = 0;
}

// Marks the registers that the analysis starts from: sizes of buffers and results, scalar results, and the registers
// that commands read.
static pyd_status_t mark_roots(const pyd_program_t* program, pyd_function_t* fn) {
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    uint32_t kind = fn->buffers[i].kind;
    // The sizes of arguments and constants are known without a register.
    if (kind == PYD_BUFFER_RESULT || kind == PYD_BUFFER_TRANSIENT)
      mark(fn, fn->buffers[i].size_reg, PYD_REG_STRUCTURAL);
  }
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    for (uint32_t k = 0; k < fn->info.results[i].rank; ++k) mark(fn, fn->results[i].dims[k], PYD_REG_STRUCTURAL);
    if (fn->info.results[i].kind == PYD_KIND_SCALAR) mark(fn, fn->results[i].target, PYD_REG_NEEDED);
  }
  uint32_t* exports;
  pyd_status_t status = find_exports(program, fn, &exports);
  if (!pyd_ok(status)) return status;
  for (uint32_t i = 0; i < fn->command_count; ++i) mark_command(program, exports, fn, &fn->insns[fn->commands[i]]);
  free(exports);
  return PYD_STATUS_OK;
}

// Passes the flags STRUCTURAL and NEEDED of each register on to the registers from which it is computed, and sets
// |keyed| of the scalar arguments that structural registers depend on. Visits the instructions backwards, so that a
// register has all its flags before the instruction that writes it is visited.
static void mark_sources(pyd_function_t* fn) {
  for (uint32_t i = fn->insn_count; i-- > 0;) {
    const pyd_insn_t* insn = &fn->insns[i];
    // A check runs once, when a plan is created, so that the plan is valid only for the registers that the check reads.
    if (pyd_opcode(insn)->class == PYD_CLASS_CHECK) mark_operands(fn, insn, PYD_REG_STRUCTURAL);
    if (!(pyd_opcode(insn)->registers & PYD_OPERAND_DST)) continue;
    uint8_t flags = fn->reg_flags[insn->dst] & (PYD_REG_STRUCTURAL | PYD_REG_NEEDED);
    mark_operands(fn, insn, flags);
    if (insn->op == PYD_OP_SCALAR && flags & PYD_REG_STRUCTURAL) fn->args[insn->a].keyed = true;
  }
}

// Returns whether the value that an instruction writes is late: it depends on a scalar that is not in the plan's key.
static bool is_late(const pyd_function_t* fn, const pyd_insn_t* insn) {
  if (insn->op == PYD_OP_SCALAR && !fn->args[insn->a].keyed) return true;
  uint8_t uses = pyd_opcode(insn)->registers, flags = 0;
  if (uses & PYD_OPERAND_A) flags |= fn->reg_flags[insn->a];
  if (uses & PYD_OPERAND_B) flags |= fn->reg_flags[insn->b];
  if (uses & PYD_OPERAND_C) flags |= fn->reg_flags[insn->c];
  return flags & PYD_REG_LATE;
}

// Marks the late registers, which depend on scalars outside of the plan's key. Lists in |deferred| the instructions
// that each call runs again, because they write late registers that are needed. Counts the late values of commands.
static void mark_late(pyd_function_t* fn) {
  for (uint32_t i = 0; i < fn->insn_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[i];
    const bool has_result = (pyd_opcode(insn)->registers & PYD_OPERAND_DST) != 0;
    if (!has_result || !is_late(fn, insn)) continue;
    fn->reg_flags[insn->dst] |= PYD_REG_LATE;
    if (fn->reg_flags[insn->dst] & PYD_REG_NEEDED) fn->deferred[fn->deferred_count++] = i;
  }
  for (uint32_t i = 0; i < fn->command_count; ++i)
    fn->deferred_value_count += count_deferred_values(fn, &fn->insns[fn->commands[i]]);
}

// Computes which registers of |fn| are needed, and on which scalar arguments they depend. Sizes, offsets and counts of
// commands depend on some scalars: these are the key (|fn->keyed|) by which a plan is cached. A register that depends
// on other scalars is late: each call runs the instruction that writes it again (|fn->deferred|). Called when a program
// is decoded, and again after linking, when the contracts of its kernels (what they require) are known.
pyd_status_t pyd_function_analyse(pyd_program_t* program, pyd_function_t* fn) {
  clear(fn);
  pyd_status_t status = mark_roots(program, fn);
  if (!pyd_ok(status)) return status;
  mark_sources(fn);
  if (!fn->deferred) fn->deferred = pyd_program_allocate(program, fn->reg_count, sizeof(*fn->deferred));
  if (!fn->keyed) fn->keyed = pyd_program_allocate(program, fn->scalar_count, sizeof(*fn->keyed));
  if (!fn->deferred || !fn->keyed)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the analysis of a function");
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) {
    if (fn->args[i].keyed) fn->keyed[fn->keyed_count++] = fn->args[i].scalar;
  }
  mark_late(fn);
  return PYD_STATUS_OK;
}
