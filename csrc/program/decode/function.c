// The tables of one function: arguments, results, buffers, instructions and their pool.
#include "program/decode/reader.h"

enum { kBufferWords = 6, kInsnWords = 5 };  // of a record

// Words of a function's record. A string has two: offset and length in bytes. A table has two: its position, in words
// from the beginning of the program, and the number of its records.
enum {
  kName = 0,
  kSignature = 2,
  kFlags = 4,
  kArguments,
  kArgumentCount,
  kResults,
  kResultCount,
  kBuffers,
  kBufferCount,
  kInstructions,
  kInstructionCount,
  kPool,
  kPoolCount,
  kRegisterCount,
  kRegionCount,
};

// Decodes argument |i| of a function from its record |words|: type, name and buffer. Numbers the scalars, and the sizes
// of all tensors together.
static pyd_status_t decode_arg(pyd_reader_t* reader, pyd_function_t* fn, uint32_t i, const uint32_t* words,
                               pyd_program_value_t* out_value) {
  pyd_status_t status = pyd_reader_check_value("argument", i, words);
  if (!pyd_ok(status)) return status;
  const uint32_t rank = words[PYD_VALUE_RANK], buffer = words[PYD_VALUE_TARGET];
  const bool is_scalar = words[PYD_VALUE_KIND] == PYD_KIND_SCALAR;
  *out_value = (pyd_program_value_t){.kind = words[PYD_VALUE_KIND], .dtype = words[PYD_VALUE_DTYPE], .rank = rank};
  fn->args[i] = (pyd_arg_slot_t){.buffer = buffer, .first_dim = fn->info.dims_count, .scalar = fn->scalar_count};
  if (is_scalar) ++fn->scalar_count;
  fn->info.dims_count += rank;
  if (rank) {
    status =
        pyd_reader_dims(reader->program, fn->pool, fn->pool_count, "argument", i, words[PYD_VALUE_SIZES], out_value);
  }
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the name of an argument", words + PYD_VALUE_NAME, &out_value->name);
  // Scalars have no buffer, and neither have tensors that no command uses.
  const bool is_valid = buffer == PYD_NONE || (!is_scalar && buffer < fn->buffer_count);
  if (!pyd_ok(status) || is_valid) return status;
  return pyd_status_make(PYD_CODE_CORRUPT, "argument %u: buffer %u, the function has %u", i, buffer, fn->buffer_count);
}

// Decodes |count| arguments of a function from their records.
static pyd_status_t decode_args(pyd_reader_t* reader, pyd_function_t* fn, const uint32_t* words, uint32_t count) {
  pyd_program_t* program = reader->program;
  pyd_program_value_t* values = pyd_program_allocate(program, count, sizeof(*values));
  fn->args = pyd_program_allocate(program, count, sizeof(*fn->args));
  if (!values || !fn->args) return pyd_reader_no_memory();
  fn->info.args = values;
  fn->info.arg_count = count;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += PYD_VALUE_WORDS) {
    status = decode_arg(reader, fn, i, words, &values[i]);
  }
  return status;
}

// Decodes result |i| of a function from its record |words|: type, name, buffer (tensor) or register (scalar), and the
// registers of its sizes.
static pyd_status_t decode_result(pyd_reader_t* reader, pyd_function_t* fn, uint32_t i, const uint32_t* words,
                                  pyd_program_value_t* out_value) {
  pyd_status_t status = pyd_reader_check_value("result", i, words);
  if (!pyd_ok(status)) return status;
  const uint32_t kind = words[PYD_VALUE_KIND], rank = words[PYD_VALUE_RANK], target = words[PYD_VALUE_TARGET];
  const uint32_t sizes = rank ? words[PYD_VALUE_SIZES] : 0;  // pool word with the first register
  *out_value = (pyd_program_value_t){.kind = kind,
                                     .dtype = words[PYD_VALUE_DTYPE],
                                     .rank = rank,
                                     .tied = words[PYD_VALUE_TIED] - 1};  // of an argument; 0 becomes PYD_NONE
  if (rank && (sizes > fn->pool_count || rank > fn->pool_count - sizes)) {
    return pyd_status_make(PYD_CODE_CORRUPT, "result %u: its %u sizes at pool word %u lie outside the pool of %u words",
                           i, rank, sizes, fn->pool_count);
  }
  fn->results[i] = (pyd_result_slot_t){.target = target, .dims = fn->pool + sizes, .first_dim = fn->result_dims_count};
  fn->result_dims_count += rank;
  status = pyd_reader_string(reader, "the name of a result", words + PYD_VALUE_NAME, &out_value->name);
  if (!pyd_ok(status) || kind != PYD_KIND_TENSOR || target < fn->buffer_count) return status;
  return pyd_status_make(PYD_CODE_CORRUPT, "result %u: buffer %u, the function has %u", i, target, fn->buffer_count);
}

// Decodes |count| results of a function from their records.
static pyd_status_t decode_results(pyd_reader_t* reader, pyd_function_t* fn, const uint32_t* words, uint32_t count) {
  pyd_program_t* program = reader->program;
  pyd_program_value_t* values = pyd_program_allocate(program, count, sizeof(*values));
  fn->results = pyd_program_allocate(program, count, sizeof(*fn->results));
  if (!values || !fn->results) return pyd_reader_no_memory();
  fn->info.results = values;
  fn->info.result_count = count;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += PYD_VALUE_WORDS) {
    status = decode_result(reader, fn, i, words, &values[i]);
  }
  return status;
}

// Decodes the buffers and instructions of a function; pyd_function_verify checks them.
static pyd_status_t decode_body(pyd_program_t* program, pyd_function_t* fn, const uint32_t* buffers,
                                const uint32_t* insns) {
  fn->buffers = pyd_program_allocate(program, fn->buffer_count, sizeof(*fn->buffers));
  fn->insns = pyd_program_allocate(program, fn->insn_count, sizeof(*fn->insns));
  fn->reg_flags = pyd_program_allocate(program, fn->reg_count, 1);
  if (!fn->buffers || !fn->insns || !fn->reg_flags) return pyd_reader_no_memory();
  // The words of a buffer are its first fields, in order.
  for (uint32_t i = 0; i < fn->buffer_count; ++i, buffers += kBufferWords) {
    fn->buffers[i] = (pyd_buffer_t){.kind = buffers[0],
                                    .index = buffers[1],
                                    .size_reg = buffers[2],
                                    .first = buffers[3],
                                    .last = buffers[4],
                                    .tile_bytes = buffers[5]};
  }
  // The first word holds the opcode in its lower and the modifier in its upper half.
  for (uint32_t i = 0; i < fn->insn_count; ++i, insns += kInsnWords) {
    const uint16_t opcode = (uint16_t)insns[0], modifier = (uint16_t)(insns[0] >> 16);
    fn->insns[i] = (pyd_insn_t){opcode,          modifier, /* dst */ insns[1], /* a */ insns[2], /* b */ insns[3],
                                /* c */ insns[4]};
  }
  return PYD_STATUS_OK;
}

// Reads the counts of a function from its record.
static pyd_status_t decode_counts(pyd_function_t* fn, const uint32_t* words) {
  fn->buffer_count = words[kBufferCount];
  fn->insn_count = words[kInstructionCount];
  fn->pool_count = words[kPoolCount];
  fn->reg_count = words[kRegisterCount];
  fn->region_count = words[kRegionCount];
  // Each register is written by one instruction, and regions separate commands, which are instructions. Larger counts
  // would only take memory.
  if (fn->reg_count <= fn->insn_count && fn->region_count <= (uint64_t)fn->insn_count + 1) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "%u registers and %u regions are too many for %u instructions",
                         fn->reg_count, fn->region_count, fn->insn_count);
}

// Decodes and verifies the function that |words|, a record of the table of functions, describes.
pyd_status_t pyd_reader_function(pyd_reader_t* reader, pyd_function_t* fn, const uint32_t* words) {
  const uint32_t *args = NULL, *results = NULL, *buffers = NULL, *insns = NULL;
  fn->info.is_public = words[kFlags] & 1;
  pyd_status_t status = pyd_reader_string(reader, "the name of a function", words + kName, &fn->info.name);
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the signature of a function", words + kSignature, &fn->info.signature);
  if (pyd_ok(status))
    status = pyd_reader_table(reader, "arguments", words[kArguments], words[kArgumentCount], PYD_VALUE_WORDS, &args);
  if (pyd_ok(status))
    status = pyd_reader_table(reader, "results", words[kResults], words[kResultCount], PYD_VALUE_WORDS, &results);
  if (pyd_ok(status))
    status = pyd_reader_table(reader, "buffers", words[kBuffers], words[kBufferCount], kBufferWords, &buffers);
  if (pyd_ok(status))
    status =
        pyd_reader_table(reader, "instructions", words[kInstructions], words[kInstructionCount], kInsnWords, &insns);
  if (pyd_ok(status)) status = pyd_reader_table(reader, "pool", words[kPool], words[kPoolCount], 1, &fn->pool);
  if (pyd_ok(status)) status = decode_counts(fn, words);
  if (pyd_ok(status)) status = decode_args(reader, fn, args, words[kArgumentCount]);
  if (pyd_ok(status)) status = decode_results(reader, fn, results, words[kResultCount]);
  if (pyd_ok(status)) status = decode_body(reader->program, fn, buffers, insns);
  if (pyd_ok(status)) status = pyd_function_verify(reader->program, fn);
  return status;
}
