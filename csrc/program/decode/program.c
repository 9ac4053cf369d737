// Decodes a host program. Every table claims its words from a budget of the file's own size, so that functions which
// name the same words again and again cannot make time or memory grow beyond the input.
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "platform/cpu_inline.h"
#include "program/decode/reader.h"

// Words of a record in each table.
enum { kExecutableWords = 6, kExportWords = 6, kQueryWords = 8, kConstantWords = 8, kFunctionWords = 20 };

// Largest program, in words. Keeps every count that is derived from the tables (at most 64 per instruction) within 32
// bits, and lengths of strings within 31.
enum { kMaxWords = 1u << 27 };
// Bytes that all strings may have together, per byte of the program: equal ones are stored once but count each time. A
// record that names strings has at least 24 bytes, so that this allows 1.5 KiB for each.
enum { kStringShare = 64 };

// Decodes the table of executables: names, and the numbers of the functions that compute their constants and the
// conditions of their variants (the code of an executable for one target).
static pyd_status_t decode_executables(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_EXECUTABLE_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "executables", header[PYD_HEADER_EXECUTABLES], count, kExecutableWords, &words);
  if (!pyd_ok(status)) return status;
  program->executables = pyd_program_allocate(program, count, sizeof(*program->executables));
  program->links = pyd_program_allocate(program, count, sizeof(*program->links));
  if (!program->executables || !program->links) return pyd_reader_no_memory();
  program->executable_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kExecutableWords) {
    // Words: 0 name (offset, length), 2 function of the constants, 3 table of conditions, 4 number of variants.
    pyd_program_executable_t* executable = &program->executables[i];
    executable->constants_function = words[2];
    executable->variant_count = words[4];
    status = pyd_reader_string(reader, "the name of an executable", words, &executable->name);
    if (pyd_ok(status)) {
      status = pyd_reader_table(reader, "variant conditions", words[3], words[4], 1, &executable->variant_conditions);
    }
  }
  return status;
}

// Words of the record of an export. A string has two words: offset and length in bytes.
enum { kExportExecutable, kExportOrdinal, kExportName, kExportConstantCount = 4, kExportBindingCount };

// Decodes the record of export |index|, and counts it among the exports of its executable.
static pyd_status_t decode_export(pyd_reader_t* reader, uint32_t index, const uint32_t* words) {
  pyd_program_t* program = reader->program;
  pyd_export_t* export = &program->exports[index];
  export->executable = words[kExportExecutable];
  export->ordinal = words[kExportOrdinal];
  export->constant_count = words[kExportConstantCount];
  export->binding_count = words[kExportBindingCount];
  pyd_status_t status = pyd_reader_string(reader, "the name of an export", words + kExportName, &export->name);
  if (!pyd_ok(status)) return status;
  if (export->executable >= program->executable_count) {
    return pyd_status_make(PYD_CODE_CORRUPT, "export %u belongs to executable %u, the program has %u", index,
                           export->executable, program->executable_count);
  }
  ++program->exports_first[export->executable + 1];
  if (export->constant_count > PYD_LIBRARY_MAX_CONSTANTS || export->binding_count > PYD_LIBRARY_MAX_BINDINGS) {
    return pyd_status_make(PYD_CODE_CORRUPT, "export %u has %u constants and %u bindings, the limits are %u and %u",
                           index, export->constant_count, export->binding_count, PYD_LIBRARY_MAX_CONSTANTS,
                           PYD_LIBRARY_MAX_BINDINGS);
  }
  return PYD_STATUS_OK;
}

// Decodes the table of exports. Stores the number of exports of executable i in exports_first[i + 1].
static pyd_status_t decode_exports(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_EXPORT_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = pyd_reader_table(reader, "exports", header[PYD_HEADER_EXPORTS], count, kExportWords, &words);
  if (!pyd_ok(status)) return status;
  program->exports = pyd_program_allocate(program, count, sizeof(*program->exports));
  program->exports_of = pyd_program_allocate(program, count, sizeof(*program->exports_of));
  program->exports_first =
      pyd_program_allocate(program, (size_t)program->executable_count + 1, sizeof(*program->exports_first));
  uint32_t* costs = pyd_program_allocate(program, (size_t)count * PYD_EXPORT_COST_CLASSES, sizeof(*costs));
  if (!program->exports || !program->exports_of || !program->exports_first || !costs) return pyd_reader_no_memory();
  program->export_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kExportWords) {
    program->exports[i].costs = costs + (size_t)i * PYD_EXPORT_COST_CLASSES;
    status = decode_export(reader, i, words);
  }
  return status;
}

// Groups the exports by executable, in a counting sort: exports_of lists their numbers. The numbers of the exports of
// executable i begin at index exports_first[i].
static void group_exports(pyd_program_t* program) {
  uint32_t* first = program->exports_first;  // at first, first[i + 1] is the number of exports of executable i
  for (uint32_t i = 0; i < program->executable_count; ++i) first[i + 1] += first[i];
  for (uint32_t i = 0; i < program->export_count; ++i) program->exports_of[first[program->exports[i].executable]++] = i;
  // Each first[i] has advanced to the end of its group, where group i + 1 begins: moves it to first[i + 1].
  for (uint32_t i = program->executable_count; i > 0; --i) first[i] = first[i - 1];
  first[0] = 0;
}

// Decodes the table of queries of device properties: category, key, and the fallback, the value for devices that do not
// know the key.
static pyd_status_t decode_queries(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_QUERY_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = pyd_reader_table(reader, "queries", header[PYD_HEADER_QUERIES], count, kQueryWords, &words);
  if (!pyd_ok(status)) return status;
  program->queries = pyd_program_allocate(program, count, sizeof(*program->queries));
  program->query_links = pyd_program_allocate(program, count, sizeof(*program->query_links));
  if (!program->queries || !program->query_links) return pyd_reader_no_memory();
  program->query_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kQueryWords) {
    // Words: 0 category (offset, length), 2 key (offset, length), 4 fallback (two words).
    status = pyd_reader_string(reader, "the category of a query", words, &program->queries[i].category);
    if (pyd_ok(status)) status = pyd_reader_string(reader, "the key of a query", words + 2, &program->queries[i].key);
    program->query_links[i].fallback = words[4] | (uint64_t)words[5] << 32;
  }
  return status;
}

// Decodes the table of constants: where in which member of the artifact, or which parameter, the bytes of each are.
static pyd_status_t decode_constants(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_CONSTANT_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "constants", header[PYD_HEADER_CONSTANTS], count, kConstantWords, &words);
  if (!pyd_ok(status)) return status;
  program->constants = pyd_program_allocate(program, count, sizeof(*program->constants));
  program->constant_links = pyd_program_allocate(program, count, sizeof(*program->constant_links));
  program->constant_is_mapped = pyd_program_allocate(program, count, sizeof(*program->constant_is_mapped));
  if (!program->constants || !program->constant_links || !program->constant_is_mapped) return pyd_reader_no_memory();
  program->constant_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kConstantWords) {
    // Words: 0 member (offset, length), 2 offset in it and 4 length in bytes (two words each), 6 parameter.
    program->constants[i].offset = words[2] | (uint64_t)words[3] << 32;
    program->constants[i].length = words[4] | (uint64_t)words[5] << 32;
    program->constants[i].parameter = words[6];
    program->constants[i].derivation = PYD_NONE;
    status = pyd_reader_string(reader, "the member of a constant", words, &program->constants[i].member);
  }
  return status;
}

// Decodes and verifies the functions. The tables that their instructions refer to are decoded before.
static pyd_status_t decode_functions(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_FUNCTION_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "functions", header[PYD_HEADER_FUNCTIONS], count, kFunctionWords, &words);
  if (!pyd_ok(status)) return status;
  program->functions = pyd_program_allocate(program, count, sizeof(*program->functions));
  if (!program->functions) return pyd_reader_no_memory();
  program->function_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kFunctionWords) {
    pyd_function_t* fn = &program->functions[i];
    status = pyd_reader_function(reader, fn, words);
    if (!pyd_ok(status)) {
      status = pyd_status_annotate(status, "function %u ('%.*s'): %s", i, (int)fn->info.name.length, fn->info.name.data,
                                   pyd_status_text(status));
    }
  }
  return status;
}

// Checks the number |function| of a function that runs when executable |executable| is linked; PYD_NONE: none. With
// |is_condition| it computes the condition of a variant: no argument, one scalar result. Else it computes the constants
// of the executable: one scalar argument, the number of the selected variant, and scalar results. It must have no
// commands, as no kernel is linked yet. |purpose|: for the message.
static pyd_status_t check_host_function(const pyd_program_t* program, const char* purpose, uint32_t executable,
                                        uint32_t function, bool is_condition) {
  if (function == PYD_NONE) return PYD_STATUS_OK;
  bool fits = function < program->function_count;
  if (fits) {
    const pyd_function_t* fn = &program->functions[function];
    const uint32_t arg_count = is_condition ? 0 : 1;
    const bool has_results = !is_condition || fn->info.result_count == 1;  // constants may be any number
    fits = fn->info.arg_count == arg_count && has_results && fn->command_count == 0;
    for (uint32_t i = 0; i < fn->info.arg_count; ++i) fits &= fn->info.args[i].kind == PYD_KIND_SCALAR;
    for (uint32_t i = 0; i < fn->info.result_count; ++i) fits &= fn->info.results[i].kind == PYD_KIND_SCALAR;
  }
  if (fits) return PYD_STATUS_OK;
  return pyd_status_make(
      PYD_CODE_CORRUPT, "executable %u: the %s are function %u, which must %s", executable, purpose, function,
      is_condition ? "take no arguments and return one scalar" : "take one scalar and return scalars");
}

// Checks that the functions that compute the constants of executables, and the conditions of their variants, exist and
// have the signatures that check_host_function() requires.
static pyd_status_t check_executables(const pyd_program_t* program) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->executable_count && pyd_ok(status); ++i) {
    const pyd_program_executable_t* executable = &program->executables[i];
    status = check_host_function(program, "constants", i, executable->constants_function, /* is_condition */ false);
    for (uint32_t k = 0; k < executable->variant_count && pyd_ok(status); ++k) {
      status =
          check_host_function(program, "conditions", i, executable->variant_conditions[k], /* is_condition */ true);
    }
  }
  return status;
}

// Checks magic number, version and size in the header of a program.
static pyd_status_t check_header(const pyd_program_t* program) {
  const uint32_t* header = program->words;
  if (header[PYD_HEADER_MAGIC] != PYD_PROGRAM_MAGIC) {
    return pyd_status_make(PYD_CODE_CORRUPT, "a host program starts with 0x%08X, this one with 0x%08X",
                           PYD_PROGRAM_MAGIC, header[PYD_HEADER_MAGIC]);
  }
  if (header[PYD_HEADER_VERSION] < PYD_PROGRAM_OLDEST_VERSION || header[PYD_HEADER_VERSION] > PYD_PROGRAM_VERSION) {
    return pyd_status_make(
        PYD_CODE_UNSUPPORTED,
        "a host program of version %u; this pydispatch reads versions %u to %u: compile the source again, "
        "pydispatch compile FILE.mlir -o FILE.pdx",
        header[PYD_HEADER_VERSION], PYD_PROGRAM_OLDEST_VERSION, PYD_PROGRAM_VERSION);
  }
  if (header[PYD_HEADER_WORDS] != program->word_count) {
    return pyd_status_make(PYD_CODE_CORRUPT, "a host program of %u words, but its header says %u", program->word_count,
                           header[PYD_HEADER_WORDS]);
  }
  return PYD_STATUS_OK;
}

// Copies the program, checks its header and the range of its strings, and initializes the budgets of the reader: all
// tables together may refer to that many words and string bytes. So a broken program cannot refer to the same bytes
// many times, and decoding takes linear time.
static pyd_status_t decode_header(pyd_reader_t* reader, pyd_span_t bytes) {
  pyd_program_t* program = reader->program;
  if (bytes.size < PYD_PROGRAM_HEADER_WORDS * 4 || bytes.size % 4 || bytes.size / 4 > kMaxWords) {
    return pyd_status_make(
        PYD_CODE_CORRUPT, "a host program of %zu bytes: it is made of 4-byte words, at least %u and at most %u of them",
        bytes.size, PYD_PROGRAM_HEADER_WORDS, kMaxWords);
  }
  program->words = pyd_program_allocate(program, bytes.size, 1);
  if (!program->words) return pyd_reader_no_memory();
  memcpy(program->words, bytes.data, bytes.size);
  program->word_count = (uint32_t)(bytes.size / 4);
  reader->budget = program->word_count - PYD_PROGRAM_HEADER_WORDS;
  reader->string_budget = kStringShare * (uint64_t)bytes.size;
  const uint32_t* header = program->words;
  pyd_status_t status = check_header(program);
  if (!pyd_ok(status)) return status;
  if (header[PYD_HEADER_STRINGS] > bytes.size ||
      header[PYD_HEADER_STRING_BYTES] > bytes.size - header[PYD_HEADER_STRINGS]) {
    return pyd_status_make(PYD_CODE_CORRUPT, "strings: %u bytes at %u lie outside the %zu bytes of the program",
                           header[PYD_HEADER_STRING_BYTES], header[PYD_HEADER_STRINGS], bytes.size);
  }
  program->strings =
      (pyd_span_t){(const uint8_t*)program->words + header[PYD_HEADER_STRINGS], header[PYD_HEADER_STRING_BYTES]};
  return PYD_STATUS_OK;
}

// Returns the floating-point mode in which C programs begin: rounds to nearest even, keeps subnormal numbers, traps on
// no exception.
static uint64_t default_fp_mode(void) {
  fenv_t saved;  // the mode of the caller
  fegetenv(&saved);
  fesetenv(FE_DFL_ENV);
  const uint64_t mode = pyd_cpu_fp_mode();
  fesetenv(&saved);
  return mode;
}

// Decodes and verifies a program from a copy of |bytes|. Each table is decoded after those that its records refer to.
pyd_status_t pyd_program_decode(pyd_span_t bytes, pyd_program_t** out_program) {
  *out_program = NULL;
  pyd_program_t* program = calloc(1, sizeof(*program));
  if (!program) return pyd_reader_no_memory();
  program->fp_mode = default_fp_mode();
  pyd_reader_t reader = {.program = program};
  pyd_status_t status = decode_header(&reader, bytes);
  const uint32_t* header = program->words;
  if (pyd_ok(status)) status = decode_executables(&reader, header);
  if (pyd_ok(status)) status = decode_exports(&reader, header);
  if (pyd_ok(status)) group_exports(program);
  if (pyd_ok(status)) status = decode_queries(&reader, header);
  if (pyd_ok(status)) status = decode_constants(&reader, header);
  if (pyd_ok(status)) status = pyd_program_decode_commands(&reader, header);
  if (pyd_ok(status)) status = decode_functions(&reader, header);
  if (pyd_ok(status)) status = check_executables(program);
  if (pyd_ok(status)) status = pyd_program_decode_derivations(&reader, header);
  if (pyd_ok(status)) status = pyd_program_decode_procedures(&reader, header);
  if (!pyd_ok(status)) {
    pyd_program_free(program);
    return pyd_status_annotate(status, "program: %s", pyd_status_text(status));
  }
  *out_program = program;
  return PYD_STATUS_OK;
}
