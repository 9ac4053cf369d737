// The instructions of one function: operands in range, registers written once and before they are read, lifetimes that
// cover their uses. Linear.
#include <stdlib.h>

#include "program/internal.h"

enum { kDst = PYD_OPERAND_DST, kA = PYD_OPERAND_A, kB = PYD_OPERAND_B, kC = PYD_OPERAND_C };

uint8_t pyd_insn_operands(uint16_t op) {
  switch (op) {
    case PYD_OP_CONST:
    case PYD_OP_DIM:
    case PYD_OP_SCALAR:
    case PYD_OP_QUERY:
    case PYD_OP_VARIANT:
      return kDst;
    case PYD_OP_SELECT:
      return kDst | kA | kB | kC;
    case PYD_OP_CHECK_EQ:
      return kA | kB;
    case PYD_OP_CHECK:
      return kA;
    case PYD_OP_DISPATCH:
    case PYD_OP_FILL:
    case PYD_OP_COPY:
      return 0;
    case PYD_OP_NEG:
    case PYD_OP_SEXT:
    case PYD_OP_ZEXT:
    case PYD_OP_ABS:
    case PYD_OP_CTPOP:
    case PYD_OP_CTLZ:
    case PYD_OP_CTTZ:
      return kDst | kA;
    case PYD_OP_FMA:
      return kDst | kA | kB | kC;
    default:
      return op >= PYD_OP_FNEG && op <= PYD_OP_FMATH ? kDst | kA : kDst | kA | kB;
  }
}

typedef struct verifier_s {
  const pyd_program_t* program;
  pyd_function_t* fn;
  uint32_t insn;    // being looked at
  uint32_t region;  // of the last command
} verifier_t;

#define CORRUPT(v, format, ...) \
  pyd_status_make(PYD_CODE_CORRUPT, "instruction %u: " format, (v)->insn, __VA_ARGS__)

static pyd_status_t check_read(const verifier_t* v, uint32_t reg) {
  if (reg < v->fn->reg_count && v->fn->reg_flags[reg] & PYD_REG_WRITTEN) return PYD_STATUS_OK;
  return reg < v->fn->reg_count ? CORRUPT(v, "register %u is read before it is written", reg)
                                : CORRUPT(v, "register %u, the function has %u", reg, v->fn->reg_count);
}

static pyd_status_t check_optional(const verifier_t* v, uint32_t reg) {
  return reg == PYD_NONE ? PYD_STATUS_OK : check_read(v, reg);
}

static pyd_status_t check_pool(const verifier_t* v, uint32_t index, uint64_t words) {
  if (index <= v->fn->pool_count && words <= v->fn->pool_count - index) return PYD_STATUS_OK;
  return CORRUPT(v, "%llu words at pool word %u lie outside the pool of %u words", (unsigned long long)words, index,
                 v->fn->pool_count);
}

static pyd_status_t check_buffer(const verifier_t* v, uint32_t buffer, bool is_written) {
  if (buffer >= v->fn->buffer_count) return CORRUPT(v, "buffer %u, the function has %u", buffer, v->fn->buffer_count);
  const pyd_buffer_t* b = &v->fn->buffers[buffer];
  if (b->kind == PYD_BUFFER_TRANSIENT && (v->region < b->first || v->region > b->last)) {
    return CORRUPT(v, "region %u uses buffer %u, which lives in regions %u to %u", v->region, buffer, b->first, b->last);
  }
  if (is_written && (b->kind == PYD_BUFFER_ARGUMENT || b->kind == PYD_BUFFER_CONSTANT)) {
    return CORRUPT(v, "buffer %u is %s and cannot be written", buffer,
                   b->kind == PYD_BUFFER_ARGUMENT ? "an argument" : "a constant");
  }
  return PYD_STATUS_OK;
}

static pyd_status_t verify_dispatch(const verifier_t* v) {
  pyd_function_t* fn = v->fn;
  uint32_t at = fn->insns[v->insn].a;
  pyd_status_t status = check_pool(v, at, 6);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = fn->pool + at;
  for (uint32_t i = 0; i < 4 && pyd_ok(status); ++i) status = check_read(v, record[i]);
  if (!pyd_ok(status)) return status;
  if (record[4] > PYD_LIBRARY_MAX_CONSTANTS) {
    return CORRUPT(v, "%u constants, the limit is %u", record[4], PYD_LIBRARY_MAX_CONSTANTS);
  }
  status = check_pool(v, at, 6 + (uint64_t)record[4]);
  if (!pyd_ok(status)) return status;
  uint32_t bindings = record[5 + record[4]];
  if (bindings > PYD_LIBRARY_MAX_BINDINGS) return CORRUPT(v, "%u bindings, the limit is %u", bindings, PYD_LIBRARY_MAX_BINDINGS);
  status = check_pool(v, at, 6 + (uint64_t)record[4] + 3 * (uint64_t)bindings);
  if (!pyd_ok(status)) return status;
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  for (uint32_t i = 0; i < view.constant_count && pyd_ok(status); ++i) {
    status = check_read(v, view.constants[i] & ~PYD_CONSTANT_HIGH);
  }
  for (uint32_t i = 0; i < view.binding_count && pyd_ok(status); ++i) {
    const uint32_t* binding = view.bindings + 3 * i;
    status = check_buffer(v, binding[0], false);
    if (pyd_ok(status)) status = check_optional(v, binding[1]);
    if (pyd_ok(status)) status = check_optional(v, binding[2]);
  }
  PYD_COUNT_WORK(view.constant_count + view.binding_count);
  fn->constant_count += view.constant_count;
  fn->slot_count += view.binding_count;
  return status;
}

static pyd_status_t verify_fill(const verifier_t* v) {
  pyd_status_t status = check_pool(v, v->fn->insns[v->insn].a, 5);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + v->fn->insns[v->insn].a;
  status = check_buffer(v, record[0], true);
  if (pyd_ok(status)) status = check_optional(v, record[1]);
  if (pyd_ok(status)) status = check_optional(v, record[2]);
  if (pyd_ok(status)) status = check_read(v, record[3]);
  uint32_t bytes = record[4];
  if (pyd_ok(status) && bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
    status = CORRUPT(v, "a fill pattern of %u bytes, it has 1, 2, 4 or 8", bytes);
  }
  v->fn->slot_count += 1;
  return status;
}

static pyd_status_t verify_copy(const verifier_t* v) {
  pyd_status_t status = check_pool(v, v->fn->insns[v->insn].a, 5);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + v->fn->insns[v->insn].a;
  status = check_buffer(v, record[0], false);
  if (pyd_ok(status)) status = check_optional(v, record[1]);
  if (pyd_ok(status)) status = check_buffer(v, record[2], true);
  if (pyd_ok(status)) status = check_optional(v, record[3]);
  if (pyd_ok(status)) status = check_read(v, record[4]);
  v->fn->slot_count += 2;
  return status;
}

static pyd_status_t verify_command(verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  if (insn->c >= v->fn->region_count || insn->c < v->region) {
    return insn->c < v->region ? CORRUPT(v, "region %u comes after region %u", insn->c, v->region)
                               : CORRUPT(v, "region %u, the function has %u", insn->c, v->fn->region_count);
  }
  v->region = insn->c;
  v->fn->commands[v->fn->command_count++] = v->insn;
  if (insn->op == PYD_OP_DISPATCH) return verify_dispatch(v);
  return insn->op == PYD_OP_FILL ? verify_fill(v) : verify_copy(v);
}

static pyd_status_t verify_message(const verifier_t* v) {
  uint32_t at = v->fn->insns[v->insn].c;
  pyd_status_t status = check_pool(v, at, 2);
  if (!pyd_ok(status)) return status;
  const uint32_t* string = v->fn->pool + at;
  size_t size = v->program->strings.size;
  if (string[0] <= size && string[1] <= size - string[0] && string[1] <= INT32_MAX / 8) return PYD_STATUS_OK;
  return CORRUPT(v, "a message of %u bytes at %u lies outside the strings", string[1], string[0]);
}

static pyd_status_t verify_source(const verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  const pyd_program_function_t* info = &v->fn->info;
  switch (insn->op) {
    case PYD_OP_DIM:
      if (insn->a < info->arg_count && insn->b < info->args[insn->a].rank) return PYD_STATUS_OK;
      return CORRUPT(v, "axis %u of argument %u does not exist", insn->b, insn->a);
    case PYD_OP_SCALAR:
      if (insn->a < info->arg_count && info->args[insn->a].kind == 1) {
        v->fn->args[insn->a].is_read = true;
        return PYD_STATUS_OK;
      }
      return CORRUPT(v, "argument %u is no scalar", insn->a);
    case PYD_OP_QUERY:
      if (insn->a < v->program->query_count) return PYD_STATUS_OK;
      return CORRUPT(v, "query %u, the program has %u", insn->a, v->program->query_count);
    case PYD_OP_VARIANT:
      if (insn->a < v->program->executable_count) return PYD_STATUS_OK;
      return CORRUPT(v, "executable %u, the program has %u", insn->a, v->program->executable_count);
    default:
      return PYD_STATUS_OK;
  }
}

static pyd_status_t verify_insn(verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  uint16_t op = insn->op;
  PYD_COUNT_WORK(1);
  if (op >= PYD_OP_DISPATCH && op <= PYD_OP_COPY) return verify_command(v);
  if (op == 0 || (op > PYD_OP_CHECK && !pyd_arith_is_valid(insn))) {
    return CORRUPT(v, "opcode %u with modifier %u does not exist", op, insn->modifier);
  }
  uint8_t uses = pyd_insn_operands(op);
  pyd_status_t status = verify_source(v);
  if (pyd_ok(status) && uses & kA) status = check_read(v, insn->a);
  if (pyd_ok(status) && uses & kB) status = check_read(v, insn->b);
  if (pyd_ok(status) && uses & kC) status = check_read(v, insn->c);
  if (pyd_ok(status) && (op == PYD_OP_CHECK || op == PYD_OP_CHECK_EQ)) status = verify_message(v);
  if (!pyd_ok(status) || !(uses & kDst)) return status;
  if (insn->dst >= v->fn->reg_count) return CORRUPT(v, "register %u, the function has %u", insn->dst, v->fn->reg_count);
  if (v->fn->reg_flags[insn->dst] & PYD_REG_WRITTEN) return CORRUPT(v, "register %u is written twice", insn->dst);
  v->fn->reg_flags[insn->dst] |= PYD_REG_WRITTEN;
  return PYD_STATUS_OK;
}

// A buffer and the argument or result that owns it must name each other.
static pyd_status_t verify_buffers(const verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    const pyd_buffer_t* b = &fn->buffers[i];
    bool fits = true;
    switch (b->kind) {
      case PYD_BUFFER_ARGUMENT:
        fits = b->index < fn->info.arg_count && fn->info.args[b->index].kind == 0 && fn->args[b->index].buffer == i;
        break;
      case PYD_BUFFER_RESULT:
        fits = b->index < fn->info.result_count && fn->info.results[b->index].kind == 0 && fn->results[b->index].target == i;
        break;
      case PYD_BUFFER_TRANSIENT:
        fits = b->first <= b->last && b->last < fn->region_count;
        break;
      case PYD_BUFFER_CONSTANT:
        fits = b->index < v->program->constant_count;
        break;
      default:
        fits = false;
    }
    bool sized = b->kind == PYD_BUFFER_RESULT || b->kind == PYD_BUFFER_TRANSIENT;
    if (sized) fits &= b->size_reg < fn->reg_count && fn->reg_flags[b->size_reg] & PYD_REG_WRITTEN;
    if (!fits) {
      return pyd_status_make(PYD_CODE_CORRUPT, "buffer %u: kind %u, index %u, size register %u, regions %u to %u do not fit "
                             "the function", i, b->kind, b->index, b->size_reg, b->first, b->last);
    }
  }
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) {
    uint32_t buffer = fn->args[i].buffer;
    if (fn->info.args[i].kind == 1 || buffer == PYD_NONE) continue;
    if (fn->buffers[buffer].kind != PYD_BUFFER_ARGUMENT || fn->buffers[buffer].index != i) {
      return pyd_status_make(PYD_CODE_CORRUPT, "argument %u: buffer %u is not its own", i, buffer);
    }
  }
  return PYD_STATUS_OK;
}

static pyd_status_t verify_results(const verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    const pyd_program_value_t* value = &fn->info.results[i];
    const pyd_result_slot_t* slot = &fn->results[i];
    bool fits = true;
    if (value->kind == 1) {
      fits = slot->target < fn->reg_count && fn->reg_flags[slot->target] & PYD_REG_WRITTEN;
    } else {
      fits = fn->buffers[slot->target].kind == PYD_BUFFER_RESULT && fn->buffers[slot->target].index == i;
    }
    for (uint32_t k = 0; k < value->rank && fits; ++k) {
      fits = slot->dims[k] < fn->reg_count && fn->reg_flags[slot->dims[k]] & PYD_REG_WRITTEN;
    }
    if (!fits) {
      return pyd_status_make(PYD_CODE_CORRUPT, "result %u: its %s or the registers of its sizes do not fit the function", i,
                             value->kind ? "register" : "buffer");
    }
  }
  return PYD_STATUS_OK;
}

static pyd_status_t refuse_tied(uint32_t result, uint32_t tied) {
  return pyd_status_make(PYD_CODE_CORRUPT, "result %u cannot take over the memory of argument %u: that is no tensor, or is "
                         "copied to another place of the result", result, tied);
}

// A result that may lie where an argument lies: the copies between the two keep every byte in its place.
static pyd_status_t verify_tied(const verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    uint32_t tied = fn->results[i].tied;
    if (tied == PYD_NONE) continue;
    bool fits = tied < fn->info.arg_count && fn->info.args[tied].kind == 0 && fn->info.results[i].kind == 0 &&
                fn->args[tied].buffer != PYD_NONE;
    if (!fits) return refuse_tied(i, tied);
  }
  for (uint32_t k = 0; k < fn->command_count; ++k) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[k]];
    const uint32_t* record = fn->pool + insn->a;
    PYD_COUNT_WORK(1);
    if (insn->op != PYD_OP_COPY || fn->buffers[record[2]].kind != PYD_BUFFER_RESULT || record[1] == record[3]) continue;
    uint32_t result = fn->buffers[record[2]].index, tied = fn->results[result].tied;
    if (tied != PYD_NONE && fn->args[tied].buffer == record[0]) return refuse_tied(result, tied);
  }
  return PYD_STATUS_OK;
}

pyd_status_t pyd_function_verify(pyd_program_t* program, pyd_function_t* fn) {
  fn->commands = pyd_program_allocate(program, fn->insn_count, sizeof(*fn->commands));
  if (!fn->commands) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the commands of a function");
  verifier_t v = {program, fn, 0, 0};
  pyd_status_t status = PYD_STATUS_OK;
  for (v.insn = 0; v.insn < fn->insn_count && pyd_ok(status); ++v.insn) status = verify_insn(&v);
  if (pyd_ok(status)) status = verify_buffers(&v);
  if (pyd_ok(status)) status = verify_results(&v);
  if (pyd_ok(status)) status = verify_tied(&v);
  if (pyd_ok(status)) status = pyd_function_analyse(program, fn);
  return status;
}
