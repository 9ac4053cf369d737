// Interpreter of the scalar instructions of a function, with the messages of failed checks.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/cpu_inline.h"
#include "program/scalar/arith.h"

// Copies |length| bytes of |text| with {a} and {b} replaced by numbers to |out|, which has room for 7 times as many
// bytes and a 0: a placeholder of 3 characters becomes a number of at most 20.
static void insert_numbers(const char* text, uint32_t length, uint64_t a, uint64_t b, char* out) {
  for (uint32_t i = 0; i < length;) {
    if (length - i >= 3 && text[i] == '{' && text[i + 2] == '}' && (text[i + 1] == 'a' || text[i + 1] == 'b')) {
      out += snprintf(out, 3 * 7, "%" PRId64, (int64_t)(text[i + 1] == 'a' ? a : b));
      i += 3;
    } else {
      *out++ = text[i++];
    }
  }
  *out = 0;
}

// Returns the status of a failed check: its text, whose offset and length in bytes are pool words c and c + 1, with {a}
// and {b} replaced by the operands. Without memory, the text as it is.
static pyd_status_t refuse_check(const pyd_program_t* program, const pyd_function_t* fn, const pyd_insn_t* insn,
                                 uint64_t a, uint64_t b) {
  const char* text = (const char*)program->strings.data + fn->pool[insn->c];
  uint32_t length = fn->pool[insn->c + 1];
  char* message = malloc((size_t)length * 7 + 1);
  if (!message) return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%.*s", (int)length, text);
  insert_numbers(text, length, a, b, message);
  pyd_status_t status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s': %s", (int)fn->info.name.length,
                                        fn->info.name.data, message);
  free(message);
  return status;
}

// Returns the status of an instruction with a fault. |a| and |b|: its operands.
static pyd_status_t refuse_fault(const pyd_function_t* fn, const pyd_insn_t* insn, pyd_fault_t fault, uint64_t a,
                                 uint64_t b) {
  int name_length = (int)fn->info.name.length;
  const char* name = fn->info.name.data;
  unsigned at = (unsigned)(insn - fn->insns), width = insn->modifier;
  switch (fault) {
    case PYD_FAULT_ZERO_DIVISOR:
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "function '%.*s', instruction %u: %" PRId64 " is divided by zero", name_length, name, at,
                             (int64_t)a);
    case PYD_FAULT_DIVISION_OVERFLOW:
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "function '%.*s', instruction %u: %" PRId64 " / %" PRId64 " does not fit into %u bits",
                             name_length, name, at, (int64_t)a, (int64_t)b, width);
    case PYD_FAULT_NO_RULE:
      return pyd_status_make(PYD_CODE_INTERNAL,
                             "function '%.*s', instruction %u: opcode %u is in the table of opcodes, but "
                             "nothing computes it",
                             name_length, name, at, insn->op);
    default: {  // PYD_FAULT_WRAPPED
      const char* sign = insn->op == PYD_OP_ADD ? "+" : insn->op == PYD_OP_MUL ? "*" : "-";
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                             "function '%.*s', instruction %u: a size computed as %" PRId64 " %s %" PRId64
                             " does not fit into 64 bits",
                             name_length, name, at, insn->op == PYD_OP_NEG ? 0 : (int64_t)a, sign,
                             insn->op == PYD_OP_NEG ? (int64_t)a : (int64_t)b);
    }
  }
}

// Reads a value that does not come from registers: a constant, size, scalar argument, query or variant. |dims|: the
// sizes of all tensor arguments, one after another. A query with modifier 1 asks whether the device has a result.
static pyd_status_t read_source(const pyd_program_t* program, const pyd_function_t* fn, const pyd_insn_t* insn,
                                const int64_t* dims, const uint64_t* scalars, uint64_t* out) {
  switch (insn->op) {
    case PYD_OP_CONST: *out = insn->b | (uint64_t)insn->c << 32; return PYD_STATUS_OK;
    case PYD_OP_DIM: *out = (uint64_t)dims[fn->args[insn->a].first_dim + insn->b]; return PYD_STATUS_OK;
    case PYD_OP_SCALAR: *out = scalars[fn->args[insn->a].scalar]; return PYD_STATUS_OK;
    case PYD_OP_QUERY: {
      const pyd_query_link_t* query = &program->query_links[insn->a];
      // Without a result the query has the value that the program states as its fallback.
      *out = insn->modifier ? query->found : query->found ? query->value : query->fallback;
      return PYD_STATUS_OK;
    }
    case PYD_OP_VARIANT:
      if (program->links[insn->a].alignment == 0) {  // a linked executable has at least 1
        pyd_string_t name = program->executables[insn->a].name;
        return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                               "function '%.*s' asks for the variant of executable '%.*s', which is not linked",
                               (int)fn->info.name.length, fn->info.name.data, (int)name.length, name.data);
      }
      *out = program->links[insn->a].variant;
      return PYD_STATUS_OK;
    default: return refuse_fault(fn, insn, PYD_FAULT_NO_RULE, 0, 0);
  }
}

// Runs one instruction: writes its destination register. A failed check and a fault are INVALID_ARGUMENT. Commands are
// skipped.
static pyd_status_t step(const pyd_program_t* program, const pyd_function_t* fn, const pyd_insn_t* insn,
                         const int64_t* dims, const uint64_t* scalars, uint64_t* regs) {
  const pyd_opcode_t* op = pyd_opcode(insn);
  // An operand that is not a register may be larger than the number of registers, so it must not index them.
  const uint64_t a = op->registers & PYD_OPERAND_A ? regs[insn->a] : 0;
  const uint64_t b = op->registers & PYD_OPERAND_B ? regs[insn->b] : 0;
  const uint64_t c = op->registers & PYD_OPERAND_C ? regs[insn->c] : 0;
  pyd_fault_t fault = PYD_FAULT_NO_RULE;
  switch ((pyd_class_t)op->class) {
    case PYD_CLASS_NONE: break;
    case PYD_CLASS_COMMAND: return PYD_STATUS_OK;
    case PYD_CLASS_SOURCE: return read_source(program, fn, insn, dims, scalars, &regs[insn->dst]);
    case PYD_CLASS_SELECT: regs[insn->dst] = a ? b : c; return PYD_STATUS_OK;
    case PYD_CLASS_CHECK: {
      bool holds = insn->op == PYD_OP_CHECK_EQ ? a == b : a != 0;
      return holds ? PYD_STATUS_OK : refuse_check(program, fn, insn, a, b);
    }
    case PYD_CLASS_INTEGER: fault = pyd_arith_integer(insn, a, b, &regs[insn->dst]); break;
    case PYD_CLASS_DIVISION: fault = pyd_arith_divide(insn, a, b, &regs[insn->dst]); break;
    case PYD_CLASS_FLOAT: fault = pyd_arith_float(insn, a, b, c, &regs[insn->dst]); break;
  }
  if (fault == PYD_FAULT_NONE) return PYD_STATUS_OK;
  // A size must not wrap, as a large buffer would become a small one. Other values wrap as in MLIR.
  if (fault == PYD_FAULT_WRAPPED && !(fn->reg_flags[insn->dst] & PYD_REG_STRUCTURAL)) return PYD_STATUS_OK;
  return refuse_fault(fn, insn, fault, a, b);
}

// Sets the floating-point mode of |program| on this thread. Returns the mode before, for leave_fp_mode(). Without it,
// the values that a plan caches, and those that the compiler has computed, would differ from what a caller with another
// mode computes.
static uint64_t enter_fp_mode(const pyd_program_t* program) {
  const uint64_t callers_mode = pyd_cpu_fp_mode();
  if (callers_mode != program->fp_mode) pyd_cpu_set_fp_mode(program->fp_mode);
  return callers_mode;
}
static void leave_fp_mode(const pyd_program_t* program, uint64_t callers_mode) {
  if (callers_mode != program->fp_mode) pyd_cpu_set_fp_mode(callers_mode);
}

// Runs all scalar instructions of |fn|, which fill |regs|. |dims|: the sizes of all tensor arguments, one after
// another; may be NULL without DIM instructions. |scalars|: the scalar arguments.
pyd_status_t pyd_function_interpret(const pyd_program_t* program, const pyd_function_t* fn, const int64_t* dims,
                                    const uint64_t* scalars, uint64_t* regs) {
  pyd_status_t status = PYD_STATUS_OK;
  const uint64_t callers_mode = enter_fp_mode(program);
  for (uint32_t i = 0; i < fn->insn_count && pyd_ok(status); ++i) {
    status = step(program, fn, &fn->insns[i], dims, scalars, regs);
  }
  leave_fp_mode(program, callers_mode);
  return status;
}

// Runs the deferred instructions of |fn| again: those that depend on scalars for which a plan is not specialized.
// |regs| has the values of all other instructions.
pyd_status_t pyd_function_interpret_late(const pyd_program_t* program, const pyd_function_t* fn,
                                         const uint64_t* scalars, uint64_t* regs) {
  pyd_status_t status = PYD_STATUS_OK;
  const uint64_t callers_mode = enter_fp_mode(program);
  for (uint32_t i = 0; i < fn->deferred_count && pyd_ok(status); ++i) {
    status = step(program, fn, &fn->insns[fn->deferred[i]], NULL, scalars, regs);
  }
  leave_fp_mode(program, callers_mode);
  return status;
}

// Runs a function that only computes scalars, such as a condition. |out_results|: a 64-bit word for each result.
// INVALID_ARGUMENT for a function with tensors or commands.
pyd_status_t pyd_program_evaluate(const pyd_program_t* program, uint32_t function, const uint64_t* scalars,
                                  uint64_t* out_results) {
  if (function >= program->function_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function %u does not exist, the program has %u", function,
                           program->function_count);
  }
  const pyd_function_t* fn = &program->functions[function];
  bool has_tensor = fn->info.dims_count != 0 || fn->command_count != 0;
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) has_tensor |= fn->info.args[i].kind == PYD_KIND_TENSOR;
  for (uint32_t i = 0; i < fn->info.result_count; ++i) has_tensor |= fn->info.results[i].kind == PYD_KIND_TENSOR;
  if (has_tensor) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s' works on tensors, only scalars can be evaluated",
                           (int)fn->info.name.length, fn->info.name.data);
  }
  uint64_t* regs = calloc((size_t)fn->reg_count + 1, sizeof(*regs));
  if (!regs) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u registers", fn->reg_count);
  pyd_status_t status = pyd_function_interpret(program, fn, NULL, scalars, regs);
  for (uint32_t i = 0; i < fn->info.result_count && pyd_ok(status); ++i) {
    out_results[i] = regs[fn->results[i].target];
  }
  free(regs);
  return status;
}
