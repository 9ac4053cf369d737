// Verifies one function: operands are in range, registers are written once and before they are read, and transient
// buffers are used inside their lifetimes only. Takes linear time.
#include "program/commands/command.h"

// Returns whether a register exists and an instruction, of those verified so far, writes it.
static bool is_written(const pyd_function_t* fn, uint32_t reg) {
  return reg < fn->reg_count && fn->reg_flags[reg] & PYD_REG_WRITTEN;
}

// Checks that register |reg| exists and that an earlier instruction writes it.
pyd_status_t pyd_verify_read(const pyd_verifier_t* v, uint32_t reg) {
  if (is_written(v->fn, reg)) return PYD_STATUS_OK;
  return reg < v->fn->reg_count ? PYD_INSN_CORRUPT(v, "register %u is read before it is written", reg)
                                : PYD_INSN_CORRUPT(v, "register %u, the function has %u", reg, v->fn->reg_count);
}

// Checks an optional operand: |reg| is PYD_NONE, or a register that an earlier instruction writes.
pyd_status_t pyd_verify_optional(const pyd_verifier_t* v, uint32_t reg) {
  return reg == PYD_NONE ? PYD_STATUS_OK : pyd_verify_read(v, reg);
}

// Checks that |words| words of the pool exist. |at|: index of the first word. |where| and |number| name the user of the
// words in the message: "step 3".
pyd_status_t pyd_verify_pool(const char* where, uint32_t number, uint32_t pool_count, uint32_t at, uint64_t words) {
  if (at <= pool_count && words <= pool_count - at) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: %llu words at pool word %u lie outside the pool of %u words", where,
                         number, (unsigned long long)words, at, pool_count);
}

// Checks that a string lies inside the program's string block and has at most |limit| bytes. |text|: two words, the
// byte offset of the string in the block and its length in bytes. |where| and |number| name the user of the string in
// the message, such as "step 3"; |what| names the string, such as "location".
pyd_status_t pyd_verify_text(const char* where, uint32_t number, const pyd_program_t* program, const char* what,
                             const uint32_t* text, uint32_t limit) {
  size_t size = program->strings.size;
  if (text[0] <= size && text[1] <= size - text[0] && text[1] <= limit) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: a %s of %u bytes at %u lies outside the strings", where, number,
                         what, text[1], text[0]);
}

// Checks that the |words| words of a record, from pool word |at| on, lie inside the function's pool.
pyd_status_t pyd_verify_record(const pyd_verifier_t* v, uint32_t at, uint64_t words) {
  return pyd_verify_pool("instruction", v->insn, v->fn->pool_count, at, words);
}

// Checks that |buffer| exists, is live in the region of the command, and may be written when |is_written|. Records the
// access for verify_tied().
pyd_status_t pyd_verify_buffer(const pyd_verifier_t* v, uint32_t buffer, bool is_written) {
  if (buffer >= v->fn->buffer_count)
    return PYD_INSN_CORRUPT(v, "buffer %u, the function has %u", buffer, v->fn->buffer_count);
  pyd_buffer_t* b = &v->fn->buffers[buffer];
  if (b->kind == PYD_BUFFER_TRANSIENT && (v->region < b->first || v->region > b->last)) {
    return PYD_INSN_CORRUPT(v, "region %u uses buffer %u, which lives in regions %u to %u", v->region, buffer, b->first,
                            b->last);
  }
  if (is_written && (b->kind == PYD_BUFFER_ARGUMENT || b->kind == PYD_BUFFER_CONSTANT)) {
    return PYD_INSN_CORRUPT(v, "buffer %u is %s and cannot be written", buffer,
                            b->kind == PYD_BUFFER_ARGUMENT ? "an argument" : "a constant");
  }
  if (!is_written) {
    b->read_until = v->region + 1;  // 1 + the last region that reads it, as regions never decrease
  } else if (!b->written_from) {
    b->written_from = v->region + 1;  // 1 + the first region that writes it; 0 if no command does
  }
  return PYD_STATUS_OK;
}

// Verifies a command instruction: its region does not precede the region of the previous command, and its record, which
// begins at pool word a, is valid for its kind. Adds the instruction to the list of commands.
static pyd_status_t verify_command(pyd_verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  const uint32_t region = pyd_command_region(insn);
  if (region < v->region) return PYD_INSN_CORRUPT(v, "region %u comes after region %u", region, v->region);
  if (region >= v->fn->region_count) {
    return PYD_INSN_CORRUPT(v, "region %u, the function has %u", region, v->fn->region_count);
  }
  v->region = region;
  v->fn->commands[v->fn->command_count++] = v->insn;
  return pyd_command_type_of_insn(insn)->verify(v, insn->a);
}

// Verifies the message of a check instruction; operand c is the pool index of its byte offset and length.
static pyd_status_t verify_message(const pyd_verifier_t* v) {
  uint32_t at = v->fn->insns[v->insn].c;
  pyd_status_t status = pyd_verify_record(v, at, 2);
  if (!pyd_ok(status)) return status;
  // When the check fails, {a} and {b} become numbers of up to 20 characters, so the message grows up to sevenfold; its
  // length still has to fit an int.
  return pyd_verify_text("instruction", v->insn, v->program, "message", v->fn->pool + at, INT32_MAX / 8);
}

// Verifies an instruction that reads no register: the argument, axis, query or executable that it names exists. Sets
// |is_read| of a scalar argument.
static pyd_status_t verify_source(const pyd_verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  const pyd_program_function_t* info = &v->fn->info;
  switch (insn->op) {
    case PYD_OP_DIM:
      if (insn->a < info->arg_count && insn->b < info->args[insn->a].rank) return PYD_STATUS_OK;
      return PYD_INSN_CORRUPT(v, "axis %u of argument %u does not exist", insn->b, insn->a);
    case PYD_OP_SCALAR:
      if (insn->a < info->arg_count && info->args[insn->a].kind == PYD_KIND_SCALAR) {
        v->fn->args[insn->a].is_read = true;
        return PYD_STATUS_OK;
      }
      return PYD_INSN_CORRUPT(v, "argument %u is no scalar", insn->a);
    case PYD_OP_QUERY:
      if (insn->a < v->program->query_count) return PYD_STATUS_OK;
      return PYD_INSN_CORRUPT(v, "query %u, the program has %u", insn->a, v->program->query_count);
    case PYD_OP_VARIANT:
      if (insn->a < v->program->executable_count) return PYD_STATUS_OK;
      return PYD_INSN_CORRUPT(v, "executable %u, the program has %u", insn->a, v->program->executable_count);
    default: return PYD_STATUS_OK;
  }
}

// Verifies one instruction, and marks its destination register as written.
static pyd_status_t verify_insn(pyd_verifier_t* v) {
  const pyd_insn_t* insn = &v->fn->insns[v->insn];
  PYD_COUNT_WORK(1);
  if (!pyd_insn_is_valid(insn)) {
    return PYD_INSN_CORRUPT(v, "opcode %u with modifier %u does not exist", insn->op, insn->modifier);
  }
  const pyd_opcode_t* op = pyd_opcode(insn);
  if (op->class == PYD_CLASS_COMMAND) return verify_command(v);
  pyd_status_t status = op->class == PYD_CLASS_SOURCE ? verify_source(v) : PYD_STATUS_OK;
  if (pyd_ok(status) && op->registers & PYD_OPERAND_A) status = pyd_verify_read(v, insn->a);
  if (pyd_ok(status) && op->registers & PYD_OPERAND_B) status = pyd_verify_read(v, insn->b);
  if (pyd_ok(status) && op->registers & PYD_OPERAND_C) status = pyd_verify_read(v, insn->c);
  if (pyd_ok(status) && op->class == PYD_CLASS_CHECK) status = verify_message(v);
  if (!pyd_ok(status) || !(op->registers & PYD_OPERAND_DST)) return status;
  if (insn->dst >= v->fn->reg_count)
    return PYD_INSN_CORRUPT(v, "register %u, the function has %u", insn->dst, v->fn->reg_count);
  if (v->fn->reg_flags[insn->dst] & PYD_REG_WRITTEN)
    return PYD_INSN_CORRUPT(v, "register %u is written twice", insn->dst);
  v->fn->reg_flags[insn->dst] |= PYD_REG_WRITTEN;
  return PYD_STATUS_OK;
}

// Returns whether the fields of buffer |number| are valid for its kind. The buffer of an argument or a result must also
// be the one that this argument or result names.
static bool buffer_fits(const pyd_verifier_t* v, uint32_t number) {
  const pyd_function_t* fn = v->fn;
  const pyd_buffer_t* b = &fn->buffers[number];
  if (b->kind != PYD_BUFFER_TRANSIENT && b->tile_bytes != 0) return false;
  const bool has_size_reg = b->kind == PYD_BUFFER_RESULT || b->kind == PYD_BUFFER_TRANSIENT;
  if (has_size_reg && !is_written(fn, b->size_reg)) return false;
  switch (b->kind) {
    case PYD_BUFFER_ARGUMENT:
      return b->index < fn->info.arg_count && fn->info.args[b->index].kind == PYD_KIND_TENSOR &&
             fn->args[b->index].buffer == number;
    case PYD_BUFFER_RESULT:
      return b->index < fn->info.result_count && fn->info.results[b->index].kind == PYD_KIND_TENSOR &&
             fn->results[b->index].target == number;
    case PYD_BUFFER_TRANSIENT:
      return b->first <= b->last && b->last < fn->region_count && b->tile_bytes % PYD_TILE_ALIGNMENT == 0;
    case PYD_BUFFER_CONSTANT: return b->index < v->program->constant_count;
    default: return false;
  }
}

// Verifies two properties:
// - Each buffer has a valid kind, index, size register and lifetime. If its kind is "argument" and its index 3, it is
//   the buffer that argument 3 names; likewise for results.
// - The buffer that argument 3 names has the kind "argument" and the index 3. verify_results() does this for results.
static pyd_status_t verify_buffers(const pyd_verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    if (buffer_fits(v, i)) continue;
    const pyd_buffer_t* b = &fn->buffers[i];
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "buffer %u: kind %u, index %u, size register %u, regions %u to %u, %u bytes of a "
                           "tile do not fit the function",
                           i, b->kind, b->index, b->size_reg, b->first, b->last, b->tile_bytes);
  }
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) {
    uint32_t buffer = fn->args[i].buffer;  // less than buffer_count, see decode/function.c
    if (fn->info.args[i].kind == PYD_KIND_SCALAR || buffer == PYD_NONE) continue;
    if (fn->buffers[buffer].kind != PYD_BUFFER_ARGUMENT || fn->buffers[buffer].index != i) {
      return pyd_status_make(PYD_CODE_CORRUPT, "argument %u: buffer %u is not its own", i, buffer);
    }
  }
  return PYD_STATUS_OK;
}

// Verifies where the results come from: scalars and the sizes of tensors from registers that are written, tensors from
// a result buffer of their own, whose index is below buffer_count (decode/function.c).
static pyd_status_t verify_results(const pyd_verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    const pyd_program_value_t* value = &fn->info.results[i];
    const pyd_result_slot_t* slot = &fn->results[i];
    bool fits = true;  // |slot->target|: the register of a scalar, the buffer of a tensor
    if (value->kind == PYD_KIND_SCALAR) {
      fits = is_written(fn, slot->target);
    } else {
      fits = fn->buffers[slot->target].kind == PYD_BUFFER_RESULT && fn->buffers[slot->target].index == i;
    }
    for (uint32_t k = 0; k < value->rank && fits; ++k) fits = is_written(fn, slot->dims[k]);
    if (!fits) {
      return pyd_status_make(PYD_CODE_CORRUPT,
                             "result %u: its %s or the registers of its sizes do not fit the function", i,
                             value->kind ? "register" : "buffer");
    }
  }
  return PYD_STATUS_OK;
}

// Verifies tied results, which may share the memory of an argument: both are tensors, and no command reads the argument
// in or after the first region that writes the result. Which bindings a dispatch writes is not known here, so that the
// compiler alone ensures it for results that dispatches write.
static pyd_status_t verify_tied(const pyd_verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  for (uint32_t i = 0; i < fn->info.result_count; ++i) {
    uint32_t tied = fn->info.results[i].tied;
    if (tied == PYD_NONE) continue;  // the result always has memory of its own
    bool fits = tied < fn->info.arg_count && fn->info.args[tied].kind == PYD_KIND_TENSOR &&
                fn->info.results[i].kind == PYD_KIND_TENSOR && fn->args[tied].buffer != PYD_NONE;
    if (!fits) {
      return pyd_status_make(PYD_CODE_CORRUPT,
                             "result %u cannot take over the memory of argument %u: one of them is no tensor, or no "
                             "command uses the argument",
                             i, tied);
    }
    const pyd_buffer_t *result = &fn->buffers[fn->results[i].target], *argument = &fn->buffers[fn->args[tied].buffer];
    // Both are 1 + a region, or 0 if no command writes or reads the buffer.
    if (result->written_from && result->written_from <= argument->read_until) {
      return pyd_status_make(
          PYD_CODE_CORRUPT,
          "result %u cannot take over the memory of argument %u: region %u writes the result, region "
          "%u reads the argument",
          i, tied, result->written_from - 1, argument->read_until - 1);
    }
  }
  return PYD_STATUS_OK;
}

// Verifies the instructions of |fn| and computes the fields that are derived from them.
pyd_status_t pyd_function_verify(pyd_program_t* program, pyd_function_t* fn) {
  fn->commands = pyd_program_allocate(program, fn->insn_count, sizeof(*fn->commands));
  if (!fn->commands) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the commands of a function");
  pyd_verifier_t v = {.program = program, .fn = fn};
  pyd_status_t status = PYD_STATUS_OK;
  for (v.insn = 0; v.insn < fn->insn_count && pyd_ok(status); ++v.insn) status = verify_insn(&v);
  if (pyd_ok(status)) status = verify_buffers(&v);
  if (pyd_ok(status)) status = verify_results(&v);
  if (pyd_ok(status)) status = verify_tied(&v);
  if (pyd_ok(status)) status = pyd_function_analyse(program, fn);
  return status;
}
