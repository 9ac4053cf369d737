// What each register of a function is for. Linear.
#include <stdlib.h>

#include "program/internal.h"

static void mark(pyd_function_t* fn, uint32_t reg, uint8_t flag) {
  if (reg != PYD_NONE) fn->reg_flags[reg] |= flag;
}

static void mark_operands(pyd_function_t* fn, const pyd_insn_t* insn, uint8_t flag) {
  uint8_t uses = pyd_insn_operands(insn->op);
  if (uses & PYD_OPERAND_A) mark(fn, insn->a, flag);
  if (uses & PYD_OPERAND_B) mark(fn, insn->b, flag);
  if (uses & PYD_OPERAND_C) mark(fn, insn->c, flag);
}

// Whether the contract of an export that a dispatch may name reads its constant |word|.
static bool reads(const pyd_program_t* program, uint32_t export, uint32_t word) {
  // Of several, chosen in the call: any of them might.
  return export == PYD_NONE || pyd_contract_reads(&program->exports[export], word);
}

// Where the two kinds of values end: in the layout and the order of things, or in what kernels get to see.
static void mark_command(const pyd_program_t* program, const uint32_t* exports, pyd_function_t* fn, const pyd_insn_t* insn) {
  const uint32_t* record = fn->pool + insn->a;
  if (insn->op == PYD_OP_FILL) {
    mark(fn, record[1], PYD_REG_STRUCTURAL);
    mark(fn, record[2], PYD_REG_STRUCTURAL);
    mark(fn, record[3], PYD_REG_NEEDED);
  } else if (insn->op == PYD_OP_COPY) {
    mark(fn, record[1], PYD_REG_STRUCTURAL);
    mark(fn, record[3], PYD_REG_STRUCTURAL);
    mark(fn, record[4], PYD_REG_STRUCTURAL);
  } else {
    pyd_dispatch_view_t view = pyd_dispatch_view(record);
    mark(fn, view.export_reg, PYD_REG_STRUCTURAL);
    for (uint32_t i = 0; i < 3; ++i) mark(fn, view.grid[i], PYD_REG_STRUCTURAL);
    for (uint32_t i = 0; i < view.constant_count; ++i) {
      uint32_t reg = view.constants[i] & ~PYD_CONSTANT_HIGH;
      mark(fn, reg, PYD_REG_NEEDED);
      if (exports && reads(program, exports[view.export_reg], i)) mark(fn, reg, PYD_REG_STRUCTURAL);
    }
    for (uint32_t i = 0; i < view.binding_count; ++i) {
      mark(fn, view.bindings[3 * i + 1], PYD_REG_STRUCTURAL);
      mark(fn, view.bindings[3 * i + 2], PYD_REG_STRUCTURAL);
    }
  }
}

// Which export each register is the number of, PYD_NONE where that is computed; NULL in |out_exports| without any contract.
static pyd_status_t find_exports(const pyd_program_t* program, const pyd_function_t* fn, uint32_t** out_exports) {
  *out_exports = NULL;
  if (!program->has_contracts) return PYD_STATUS_OK;
  uint32_t* exports = malloc(((size_t)fn->reg_count + 1) * sizeof(*exports));
  if (!exports) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the analysis of a function");
  for (uint32_t i = 0; i < fn->reg_count; ++i) exports[i] = PYD_NONE;
  for (uint32_t i = 0; i < fn->insn_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[i];
    if (insn->op == PYD_OP_CONST && insn->c == 0 && insn->b < program->export_count) exports[insn->dst] = insn->b;
  }
  *out_exports = exports;
  return PYD_STATUS_OK;
}

pyd_status_t pyd_function_analyse(pyd_program_t* program, pyd_function_t* fn) {
  uint32_t* exports;
  pyd_status_t status = find_exports(program, fn, &exports);
  if (!pyd_ok(status)) return status;
  for (uint32_t i = 0; i < fn->reg_count; ++i) fn->reg_flags[i] &= PYD_REG_WRITTEN;
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) fn->args[i].keyed = false;
  fn->keyed_count = fn->late_count = fn->late_value_count = 0;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    uint32_t kind = fn->buffers[i].kind;
    if (kind == PYD_BUFFER_RESULT || kind == PYD_BUFFER_TRANSIENT) mark(fn, fn->buffers[i].size_reg, PYD_REG_STRUCTURAL);
  }
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    for (uint32_t k = 0; k < fn->info.results[i].rank; ++k) mark(fn, fn->results[i].dims[k], PYD_REG_STRUCTURAL);
    if (fn->info.results[i].kind == 1) mark(fn, fn->results[i].target, PYD_REG_NEEDED);
  }
  for (uint32_t i = 0; i < fn->command_count; ++i) mark_command(program, exports, fn, &fn->insns[fn->commands[i]]);
  free(exports);
  // Backwards: what the marked registers are computed from.
  for (uint32_t i = fn->insn_count; i-- > 0;) {
    const pyd_insn_t* insn = &fn->insns[i];
    if (insn->op == PYD_OP_CHECK || insn->op == PYD_OP_CHECK_EQ) mark_operands(fn, insn, PYD_REG_STRUCTURAL);
    if (!(pyd_insn_operands(insn->op) & PYD_OPERAND_DST)) continue;
    uint8_t flags = fn->reg_flags[insn->dst];
    if (flags & (PYD_REG_STRUCTURAL | PYD_REG_NEEDED)) {
      mark_operands(fn, insn, flags & (PYD_REG_STRUCTURAL | PYD_REG_NEEDED));
    }
    if (insn->op == PYD_OP_SCALAR && flags & PYD_REG_STRUCTURAL) fn->args[insn->a].keyed = true;
  }
  // Forwards: what depends on the scalars that are left.
  if (!fn->late) fn->late = pyd_program_allocate(program, fn->reg_count, sizeof(*fn->late));
  if (!fn->keyed) fn->keyed = pyd_program_allocate(program, fn->scalar_count, sizeof(*fn->keyed));
  if (!fn->late || !fn->keyed) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the analysis of a function");
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) {
    if (fn->args[i].keyed) fn->keyed[fn->keyed_count++] = fn->args[i].scalar;
  }
  for (uint32_t i = 0; i < fn->insn_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[i];
    uint8_t uses = pyd_insn_operands(insn->op);
    if (!(uses & PYD_OPERAND_DST)) continue;
    bool is_late = insn->op == PYD_OP_SCALAR && !fn->args[insn->a].keyed;
    if (uses & PYD_OPERAND_A) is_late |= (fn->reg_flags[insn->a] & PYD_REG_LATE) != 0;
    if (uses & PYD_OPERAND_B) is_late |= (fn->reg_flags[insn->b] & PYD_REG_LATE) != 0;
    if (uses & PYD_OPERAND_C) is_late |= (fn->reg_flags[insn->c] & PYD_REG_LATE) != 0;
    if (!is_late) continue;
    fn->reg_flags[insn->dst] |= PYD_REG_LATE;
    if (fn->reg_flags[insn->dst] & PYD_REG_NEEDED) fn->late[fn->late_count++] = i;
  }
  for (uint32_t i = 0; i < fn->command_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    const uint32_t* record = fn->pool + insn->a;
    if (insn->op == PYD_OP_FILL) {
      fn->late_value_count += (fn->reg_flags[record[3]] & PYD_REG_LATE) != 0;
    } else if (insn->op == PYD_OP_DISPATCH) {
      for (uint32_t k = 0; k < record[4]; ++k) {
        fn->late_value_count += (fn->reg_flags[record[5 + k] & ~PYD_CONSTANT_HIGH] & PYD_REG_LATE) != 0;
      }
    }
  }
  return PYD_STATUS_OK;
}
