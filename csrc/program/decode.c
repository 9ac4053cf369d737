// Bytes to tables. Every table claims its words from a budget of the file's own size, so that functions which name the
// same words again and again cannot make time or memory grow beyond the input.
#include <stdlib.h>
#include <string.h>

#include "program/internal.h"

enum { kHeaderWords = 32, kExecutableWords = 6, kExportWords = 6, kQueryWords = 8, kConstantWords = 8,
       kFunctionWords = 20, kArgWords = 8, kResultWords = 8, kBufferWords = 6, kInsnWords = 5 };

// Keeps every count that is derived from the tables (at most 64 per instruction) within 32 bits.
enum { kMaxWords = 1u << 27 };

typedef struct block_s {
  struct block_s* next;
  uint64_t padding;  // keeps what follows 16-byte aligned
} block_t;

void* pyd_program_allocate(pyd_program_t* program, size_t count, size_t size) {
  if (size && count > (SIZE_MAX - sizeof(block_t) - 1) / size) return NULL;
  block_t* block = calloc(1, sizeof(*block) + count * size + 1);
  if (!block) return NULL;
  block->next = program->blocks;
  program->blocks = block;
  return block + 1;
}

static pyd_status_t no_memory(void) {
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the tables of a host program");
}

typedef struct reader_s {
  pyd_program_t* program;
  uint64_t budget;  // words that tables may still claim
} reader_t;

static pyd_status_t read_table(reader_t* reader, const char* what, uint32_t offset, uint32_t count, uint32_t record,
                               const uint32_t** out_words) {
  uint64_t words = (uint64_t)count * record;
  uint32_t total = reader->program->word_count;
  *out_words = reader->program->words;
  if (count == 0) return PYD_STATUS_OK;
  if (offset < kHeaderWords || offset > total || words > total - offset) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: %u records at word %u do not fit into a program of %u words", what, count,
                           offset, total);
  }
  if (words > reader->budget) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: %u records at word %u overlap other tables of the program", what, count,
                           offset);
  }
  reader->budget -= words;
  *out_words += offset;
  return PYD_STATUS_OK;
}

static pyd_status_t read_string(const reader_t* reader, const char* what, const uint32_t* words, pyd_string_t* out) {
  pyd_span_t strings = reader->program->strings;
  *out = (pyd_string_t){(const char*)strings.data, words[1]};
  if (words[1] == 0) return PYD_STATUS_OK;
  if (words[0] > strings.size || words[1] > strings.size - words[0] || words[1] > INT32_MAX) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: a string of %u bytes at %u lies outside the %zu bytes of strings", what,
                           words[1], words[0], strings.size);
  }
  out->data += words[0];
  return PYD_STATUS_OK;
}

static pyd_status_t decode_executables(reader_t* reader, const uint32_t* header) {
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = read_table(reader, "executables", header[5], header[6], kExecutableWords, &words);
  if (!pyd_ok(status)) return status;
  program->executables = pyd_program_allocate(program, header[6], sizeof(*program->executables));
  program->links = pyd_program_allocate(program, header[6], sizeof(*program->links));
  if (!program->executables || !program->links) return no_memory();
  program->executable_count = header[6];
  for (uint32_t i = 0; i < header[6] && pyd_ok(status); ++i, words += kExecutableWords) {
    pyd_program_executable_t* executable = &program->executables[i];
    executable->constants_function = words[2];
    executable->variant_count = words[4];
    status = read_string(reader, "the name of an executable", words, &executable->name);
    if (pyd_ok(status)) {
      status = read_table(reader, "variant conditions", words[3], words[4], 1, &executable->variant_conditions);
    }
  }
  return status;
}

static pyd_status_t decode_exports(reader_t* reader, const uint32_t* header) {
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = read_table(reader, "exports", header[7], header[8], kExportWords, &words);
  if (!pyd_ok(status)) return status;
  program->exports = pyd_program_allocate(program, header[8], sizeof(*program->exports));
  if (!program->exports) return no_memory();
  program->export_count = header[8];
  for (uint32_t i = 0; i < header[8] && pyd_ok(status); ++i, words += kExportWords) {
    pyd_export_t* export = &program->exports[i];
    *export = (pyd_export_t){.executable = words[0], .ordinal = words[1], .constant_count = words[4], .binding_count = words[5]};
    status = read_string(reader, "the name of an export", words + 2, &export->name);
    if (pyd_ok(status) && words[0] >= program->executable_count) {
      status = pyd_status_make(PYD_CODE_CORRUPT, "export %u belongs to executable %u, the program has %u", i, words[0],
                               program->executable_count);
    }
    if (pyd_ok(status) && (words[4] > PYD_LIBRARY_MAX_CONSTANTS || words[5] > PYD_LIBRARY_MAX_BINDINGS)) {
      status = pyd_status_make(PYD_CODE_CORRUPT, "export %u has %u constants and %u bindings, the limits are %u and %u", i,
                               words[4], words[5], PYD_LIBRARY_MAX_CONSTANTS, PYD_LIBRARY_MAX_BINDINGS);
    }
  }
  return status;
}

static pyd_status_t decode_queries(reader_t* reader, const uint32_t* header) {
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = read_table(reader, "queries", header[9], header[10], kQueryWords, &words);
  if (!pyd_ok(status)) return status;
  program->queries = pyd_program_allocate(program, header[10], sizeof(*program->queries));
  program->query_links = pyd_program_allocate(program, header[10], sizeof(*program->query_links));
  if (!program->queries || !program->query_links) return no_memory();
  program->query_count = header[10];
  for (uint32_t i = 0; i < header[10] && pyd_ok(status); ++i, words += kQueryWords) {
    status = read_string(reader, "the category of a query", words, &program->queries[i].category);
    if (pyd_ok(status)) status = read_string(reader, "the key of a query", words + 2, &program->queries[i].key);
    program->query_links[i].fallback = words[4] | (uint64_t)words[5] << 32;
  }
  return status;
}

static pyd_status_t decode_constants(reader_t* reader, const uint32_t* header) {
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = read_table(reader, "constants", header[11], header[12], kConstantWords, &words);
  if (!pyd_ok(status)) return status;
  program->constants = pyd_program_allocate(program, header[12], sizeof(*program->constants));
  program->constant_links = pyd_program_allocate(program, header[12], sizeof(*program->constant_links));
  if (!program->constants || !program->constant_links) return no_memory();
  program->constant_count = header[12];
  for (uint32_t i = 0; i < header[12] && pyd_ok(status); ++i, words += kConstantWords) {
    program->constants[i].offset = words[2] | (uint64_t)words[3] << 32;
    program->constants[i].length = words[4] | (uint64_t)words[5] << 32;
    status = read_string(reader, "the member of a constant", words, &program->constants[i].member);
  }
  return status;
}

// Sizes of argument |index|, two words each.
static pyd_status_t decode_dims(pyd_program_t* program, const pyd_function_t* fn, uint32_t index, uint32_t pool,
                                pyd_program_value_t* value) {
  if (pool > fn->pool_count || value->rank * 2 > fn->pool_count - pool) {
    return pyd_status_make(PYD_CODE_CORRUPT, "argument %u: its %u sizes at pool word %u lie outside the pool of %u words",
                           index, value->rank, pool, fn->pool_count);
  }
  int64_t* dims = pyd_program_allocate(program, value->rank, sizeof(*dims));
  if (!dims) return no_memory();
  for (uint32_t i = 0; i < value->rank; ++i) {
    const uint32_t* words = fn->pool + pool + i * 2;
    dims[i] = (int64_t)(words[0] | (uint64_t)words[1] << 32);
    if (dims[i] < -1) {
      return pyd_status_make(PYD_CODE_CORRUPT, "argument %u: axis %u has size %lld", index, i, (long long)dims[i]);
    }
  }
  value->dims = dims;
  return PYD_STATUS_OK;
}

static pyd_status_t check_value(const char* what, uint32_t index, const uint32_t* words) {
  uint32_t bits = words[1] & 0xFFFFFF;
  if (words[0] > 1 || words[2] > PYD_PROGRAM_MAX_RANK || (words[0] == 1 && words[2] != 0)) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: kind %u with rank %u, tensors (0) have at most %u axes and scalars (1) "
                           "none", what, index, words[0], words[2], PYD_PROGRAM_MAX_RANK);
  }
  if (bits == 0 || bits > 1024) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: an element type of %u bits", what, index, bits);
  }
  return PYD_STATUS_OK;
}

static pyd_status_t decode_args(reader_t* reader, pyd_function_t* fn, const uint32_t* words, uint32_t count) {
  pyd_program_t* program = reader->program;
  pyd_program_value_t* values = pyd_program_allocate(program, count, sizeof(*values));
  fn->args = pyd_program_allocate(program, count, sizeof(*fn->args));
  if (!values || !fn->args) return no_memory();
  fn->info.args = values;
  fn->info.arg_count = count;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kArgWords) {
    status = check_value("argument", i, words);
    if (!pyd_ok(status)) break;
    values[i] = (pyd_program_value_t){.kind = words[0], .dtype = words[1], .rank = words[2]};
    fn->args[i] = (pyd_arg_slot_t){.buffer = words[6], .first_dim = fn->info.dims_count, .scalar = fn->scalar_count};
    if (words[0] == 1) ++fn->scalar_count;
    fn->info.dims_count += words[2];
    if (words[2]) status = decode_dims(program, fn, i, words[3], &values[i]);
    if (pyd_ok(status)) status = read_string(reader, "the name of an argument", words + 4, &values[i].name);
    if (pyd_ok(status) && words[6] != PYD_NONE && (words[0] == 1 || words[6] >= fn->buffer_count)) {
      status = pyd_status_make(PYD_CODE_CORRUPT, "argument %u: buffer %u, the function has %u", i, words[6], fn->buffer_count);
    }
  }
  return status;
}

static pyd_status_t decode_results(reader_t* reader, pyd_function_t* fn, const uint32_t* words, uint32_t count) {
  pyd_program_t* program = reader->program;
  pyd_program_value_t* values = pyd_program_allocate(program, count, sizeof(*values));
  fn->results = pyd_program_allocate(program, count, sizeof(*fn->results));
  if (!values || !fn->results) return no_memory();
  fn->info.results = values;
  fn->info.result_count = count;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kResultWords) {
    status = check_value("result", i, words);
    if (!pyd_ok(status)) break;
    values[i] = (pyd_program_value_t){.kind = words[0], .dtype = words[1], .rank = words[2]};
    fn->results[i] = (pyd_result_slot_t){.target = words[6], .dims = fn->pool, .first_dim = fn->result_dims_count};
    fn->result_dims_count += words[2];
    if (words[2]) {
      if (words[3] > fn->pool_count || words[2] > fn->pool_count - words[3]) {
        status = pyd_status_make(PYD_CODE_CORRUPT, "result %u: its %u sizes at pool word %u lie outside the pool of %u words",
                                 i, words[2], words[3], fn->pool_count);
        break;
      }
      fn->results[i].dims = fn->pool + words[3];
    }
    status = read_string(reader, "the name of a result", words + 4, &values[i].name);
    if (pyd_ok(status) && words[0] == 0 && words[6] >= fn->buffer_count) {
      status = pyd_status_make(PYD_CODE_CORRUPT, "result %u: buffer %u, the function has %u", i, words[6], fn->buffer_count);
    }
  }
  return status;
}

static pyd_status_t decode_body(pyd_program_t* program, pyd_function_t* fn, const uint32_t* buffers,
                                const uint32_t* insns) {
  fn->buffers = pyd_program_allocate(program, fn->buffer_count, sizeof(*fn->buffers));
  fn->insns = pyd_program_allocate(program, fn->insn_count, sizeof(*fn->insns));
  fn->reg_flags = pyd_program_allocate(program, fn->reg_count, 1);
  if (!fn->buffers || !fn->insns || !fn->reg_flags) return no_memory();
  for (uint32_t i = 0; i < fn->buffer_count; ++i, buffers += kBufferWords) {
    fn->buffers[i] = (pyd_buffer_t){buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]};
  }
  for (uint32_t i = 0; i < fn->insn_count; ++i, insns += kInsnWords) {
    fn->insns[i] = (pyd_insn_t){(uint16_t)insns[0], (uint16_t)(insns[0] >> 16), insns[1], insns[2], insns[3], insns[4]};
  }
  return PYD_STATUS_OK;
}

static pyd_status_t decode_function(reader_t* reader, pyd_function_t* fn, const uint32_t* words) {
  const uint32_t *args = NULL, *results = NULL, *buffers = NULL, *insns = NULL;
  fn->info.is_public = words[4] & 1;
  pyd_status_t status = read_string(reader, "the name of a function", words, &fn->info.name);
  if (pyd_ok(status)) status = read_string(reader, "the signature of a function", words + 2, &fn->info.signature);
  if (pyd_ok(status)) status = read_table(reader, "arguments", words[5], words[6], kArgWords, &args);
  if (pyd_ok(status)) status = read_table(reader, "results", words[7], words[8], kResultWords, &results);
  if (pyd_ok(status)) status = read_table(reader, "buffers", words[9], words[10], kBufferWords, &buffers);
  if (pyd_ok(status)) status = read_table(reader, "instructions", words[11], words[12], kInsnWords, &insns);
  if (pyd_ok(status)) status = read_table(reader, "pool", words[13], words[14], 1, &fn->pool);
  if (!pyd_ok(status)) return status;
  fn->buffer_count = words[10];
  fn->insn_count = words[12];
  fn->pool_count = words[14];
  fn->reg_count = words[15];
  fn->region_count = words[16];
  // Each register has an instruction of its own, and each region a command.
  if (fn->reg_count > fn->insn_count || fn->region_count > (uint64_t)fn->insn_count + 1) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%u registers and %u regions are too many for %u instructions", fn->reg_count,
                           fn->region_count, fn->insn_count);
  }
  status = decode_args(reader, fn, args, words[6]);
  if (pyd_ok(status)) status = decode_results(reader, fn, results, words[8]);
  if (pyd_ok(status)) status = decode_body(reader->program, fn, buffers, insns);
  if (pyd_ok(status)) status = pyd_function_verify(reader->program, fn);
  return status;
}

static pyd_status_t decode_functions(reader_t* reader, const uint32_t* header) {
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = read_table(reader, "functions", header[13], header[14], kFunctionWords, &words);
  if (!pyd_ok(status)) return status;
  program->functions = pyd_program_allocate(program, header[14], sizeof(*program->functions));
  if (!program->functions) return no_memory();
  program->function_count = header[14];
  for (uint32_t i = 0; i < header[14] && pyd_ok(status); ++i, words += kFunctionWords) {
    pyd_function_t* fn = &program->functions[i];
    status = decode_function(reader, fn, words);
    if (!pyd_ok(status)) {
      status = pyd_status_annotate(status, "function %u ('%.*s'): %s", i, (int)fn->info.name.length,
                                   fn->info.name.data ? fn->info.name.data : "", pyd_status_text(status));
    }
  }
  return status;
}

// Conditions and executable constants are functions from nothing to scalars.
static pyd_status_t check_host_function(const pyd_program_t* program, const char* what, uint32_t executable,
                                        uint32_t function, bool is_condition) {
  if (function == PYD_NONE) return PYD_STATUS_OK;
  bool fits = function < program->function_count;
  if (fits) {
    const pyd_function_t* fn = &program->functions[function];
    // Constants are computed from one number, that of the chosen variant; a condition from nothing.
    fits = fn->info.arg_count == (is_condition ? 0 : 1) && fn->command_count == 0 &&
           (!is_condition || fn->info.result_count == 1);
    for (uint32_t i = 0; i < fn->info.arg_count; ++i) fits &= fn->info.args[i].kind == 1;
    for (uint32_t i = 0; i < fn->info.result_count; ++i) fits &= fn->info.results[i].kind == 1;
  }
  if (fits) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "executable %u: the %s are function %u, which is none from %s",
                         executable, what, function, is_condition ? "nothing to one scalar" : "one scalar to scalars");
}

static pyd_status_t check_executables(const pyd_program_t* program) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->executable_count && pyd_ok(status); ++i) {
    const pyd_program_executable_t* executable = &program->executables[i];
    status = check_host_function(program, "constants", i, executable->constants_function, false);
    for (uint32_t k = 0; k < executable->variant_count && pyd_ok(status); ++k) {
      status = check_host_function(program, "conditions", i, executable->variant_conditions[k], true);
    }
  }
  return status;
}

static pyd_status_t decode_header(reader_t* reader, pyd_span_t bytes) {
  pyd_program_t* program = reader->program;
  if (bytes.size < kHeaderWords * 4 || bytes.size % 4 || bytes.size / 4 > kMaxWords) {
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "a host program of %zu bytes: it is made of 4-byte words, at least %u and at most %u of them",
                           bytes.size, kHeaderWords, kMaxWords);
  }
  program->words = pyd_program_allocate(program, bytes.size, 1);
  if (!program->words) return no_memory();
  memcpy(program->words, bytes.data, bytes.size);
  program->word_count = (uint32_t)(bytes.size / 4);
  reader->budget = program->word_count - kHeaderWords;
  const uint32_t* header = program->words;
  if (header[0] != PYD_PROGRAM_MAGIC) {
    return pyd_status_make(PYD_CODE_CORRUPT, "a host program starts with 0x%08X, this one with 0x%08X", PYD_PROGRAM_MAGIC,
                           header[0]);
  }
  if (header[1] != PYD_PROGRAM_VERSION) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "a host program of version %u; this build reads version %u: compile again",
                           header[1], PYD_PROGRAM_VERSION);
  }
  if (header[2] != program->word_count) {
    return pyd_status_make(PYD_CODE_CORRUPT, "a host program of %u words, but its header says %u", program->word_count,
                           header[2]);
  }
  if (header[3] > bytes.size || header[4] > bytes.size - header[3]) {
    return pyd_status_make(PYD_CODE_CORRUPT, "strings: %u bytes at %u lie outside the %zu bytes of the program", header[4],
                           header[3], bytes.size);
  }
  program->strings = (pyd_span_t){(const uint8_t*)program->words + header[3], header[4]};
  return PYD_STATUS_OK;
}

pyd_status_t pyd_program_decode(pyd_span_t bytes, pyd_program_t** out_program) {
  *out_program = NULL;
  pyd_program_t* program = calloc(1, sizeof(*program));
  if (!program) return no_memory();
  reader_t reader = {program, 0};
  pyd_status_t status = decode_header(&reader, bytes);
  const uint32_t* header = program->words;
  if (pyd_ok(status)) status = decode_executables(&reader, header);
  if (pyd_ok(status)) status = decode_exports(&reader, header);
  if (pyd_ok(status)) status = decode_queries(&reader, header);
  if (pyd_ok(status)) status = decode_constants(&reader, header);
  if (pyd_ok(status)) status = decode_functions(&reader, header);
  if (pyd_ok(status)) status = check_executables(program);
  if (!pyd_ok(status)) {
    pyd_program_free(program);
    return pyd_status_annotate(status, "program: %s", pyd_status_text(status));
  }
  *out_program = program;
  return PYD_STATUS_OK;
}

void pyd_program_free(pyd_program_t* program) {
  if (!program) return;
  for (block_t* block = program->blocks; block;) {
    block_t* next = block->next;
    free(block);
    block = next;
  }
  free(program);
}
