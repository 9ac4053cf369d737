// Decodes the tables of procedures, and the tables that only procedures use: parameters, checks, globals, initializers.
#include <string.h>

#include "program/decode/reader.h"

// Words of a record in each table.
enum { kProcedureWords = 16, kSlotWords = 4, kStepWords = 5, kGlobalWords = 12, kCheckWords = 12, kParameterWords = 8 };

enum { kCheckKinds = 6 };  // kinds of comparisons that a check may make

// Returns the value of two words, the low one first.
static uint64_t read_u64(const uint32_t* words) { return words[0] | (uint64_t)words[1] << 32; }

// Returns the double whose bits are in two words, the low one first.
static double read_f64(const uint32_t* words) {
  uint64_t bits = read_u64(words);
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Returns whether constant |constant| exists and has as many bytes as a tensor of type |value|.
static bool has_bytes_of(const pyd_program_t* program, uint32_t constant, const pyd_program_value_t* value) {
  uint64_t bytes;
  return constant < program->constant_count && pyd_tensor_bytes(value->dtype, value->rank, value->dims, &bytes) &&
         bytes == program->constants[constant].length;
}

// Checks that each constant which refers to a parameter has as many bytes as the parameter.
static pyd_status_t check_parameter_uses(const pyd_program_t* program) {
  for (uint32_t i = 0; i < program->constant_count; ++i) {
    uint32_t number = program->constants[i].parameter;
    if (number == PYD_NONE) continue;
    bool exists = number < program->parameter_count;
    if (exists) {
      const pyd_program_parameter_t* parameter = &program->parameters[number];
      const pyd_program_value_t type = {
          .kind = PYD_KIND_TENSOR, .dtype = parameter->dtype, .rank = parameter->rank, .dims = parameter->dims};
      if (has_bytes_of(program, i, &type)) continue;
    }
    return pyd_status_make(PYD_CODE_CORRUPT, "constant %u: parameter %u %s", i, number,
                           exists ? "has another number of bytes" : "does not exist");
  }
  return PYD_STATUS_OK;
}

// Words of the record of a parameter. A string has two words: offset and length in bytes.
enum { kParameterScope = 0, kParameterKey = 2, kParameterDtype = 4, kParameterRank, kParameterSizes };

// Decodes parameter |i| from its record |words|: scope, key and type.
static pyd_status_t decode_parameter(pyd_reader_t* reader, uint32_t i, const uint32_t* words,
                                     pyd_program_parameter_t* out_parameter) {
  pyd_program_value_t value = {.kind = PYD_KIND_TENSOR, .dtype = words[kParameterDtype], .rank = words[kParameterRank]};
  const uint32_t head[3] = {value.kind, value.dtype, value.rank};
  pyd_status_t status = pyd_reader_check_value("parameter", i, head);
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the scope of a parameter", words + kParameterScope, &out_parameter->scope);
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the key of a parameter", words + kParameterKey, &out_parameter->key);
  if (pyd_ok(status)) status = pyd_reader_sizes(reader, "parameter", i, words[kParameterSizes], &value);
  out_parameter->dtype = value.dtype;
  out_parameter->rank = value.rank;
  out_parameter->dims = value.dims;
  return status;
}

// Decodes the table of parameters: constants whose bytes are not in the artifact, but supplied when it is loaded.
static pyd_status_t decode_parameters(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_PARAMETER_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "parameters", header[PYD_HEADER_PARAMETERS], count, kParameterWords, &words);
  if (!pyd_ok(status)) return status;
  program->parameters = pyd_program_allocate(program, count, sizeof(*program->parameters));
  if (!program->parameters) return pyd_reader_no_memory();
  program->parameter_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kParameterWords) {
    status = decode_parameter(reader, i, words, &program->parameters[i]);
  }
  return pyd_ok(status) ? check_parameter_uses(program) : status;
}

// Words of the record of a check. A string and a double have two words.
enum { kCheckKind = 0, kCheckName = 1, kCheckLocation = 3, kCheckAtol = 5, kCheckRtol = 7 };

// Decodes check |i| from its record |words|: kind, name, location in the source, tolerances.
static pyd_status_t decode_check(pyd_reader_t* reader, uint32_t i, const uint32_t* words,
                                 pyd_program_check_t* out_check) {
  out_check->kind = words[kCheckKind];
  out_check->atol = read_f64(words + kCheckAtol);
  out_check->rtol = read_f64(words + kCheckRtol);
  pyd_status_t status = pyd_reader_string(reader, "the name of a check", words + kCheckName, &out_check->name);
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the location of a check", words + kCheckLocation, &out_check->location);
  if (!pyd_ok(status) || out_check->kind < kCheckKinds) return status;
  return pyd_status_make(PYD_CODE_CORRUPT, "check %u is of kind %u, there are %u", i, out_check->kind, kCheckKinds);
}

// Decodes the table of checks, which OBSERVE steps refer to.
static pyd_status_t decode_checks(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_CHECK_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = pyd_reader_table(reader, "checks", header[PYD_HEADER_CHECKS], count, kCheckWords, &words);
  if (!pyd_ok(status)) return status;
  program->checks = pyd_program_allocate(program, count, sizeof(*program->checks));
  if (!program->checks) return pyd_reader_no_memory();
  program->check_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kCheckWords) {
    status = decode_check(reader, i, words, &program->checks[i]);
  }
  return status;
}

// Words of the record of a global. A string and the value of a scalar have two words.
enum {
  kGlobalName = 0,
  kGlobalKind = 2,
  kGlobalDtype,
  kGlobalRank,
  kGlobalSizes,     // table of sizes
  kGlobalConstant,  // initial value of a tensor
  kGlobalValue,     // initial value of a scalar
  kGlobalFlags = 9  // 1: mutable
};

// Decodes global |i| from its record |words|: name, type, and the initial value: a constant for a tensor (PYD_NONE:
// none), or 64 bits for a scalar.
static pyd_status_t decode_global(pyd_reader_t* reader, uint32_t i, const uint32_t* words, pyd_global_t* out_global) {
  pyd_status_t status = pyd_reader_check_value("global", i, words + kGlobalKind);
  if (!pyd_ok(status)) return status;
  const uint32_t kind = words[kGlobalKind], constant = words[kGlobalConstant];
  *out_global = (pyd_global_t){.type = {.kind = kind, .dtype = words[kGlobalDtype], .rank = words[kGlobalRank]},
                               .constant = constant,
                               .value = read_u64(words + kGlobalValue),
                               .is_mutable = words[kGlobalFlags] & 1};
  status = pyd_reader_string(reader, "the name of a global", words + kGlobalName, &out_global->name);
  if (pyd_ok(status)) status = pyd_reader_sizes(reader, "global", i, words[kGlobalSizes], &out_global->type);
  if (!pyd_ok(status) || constant == PYD_NONE) return status;
  if (kind != PYD_KIND_SCALAR && has_bytes_of(reader->program, constant, &out_global->type)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "global %u: constant %u does not exist, or does not have its type", i,
                         constant);
}

// Decodes the table of globals.
static pyd_status_t decode_globals(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_GLOBAL_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = pyd_reader_table(reader, "globals", header[PYD_HEADER_GLOBALS], count, kGlobalWords, &words);
  if (!pyd_ok(status)) return status;
  program->globals = pyd_program_allocate(program, count, sizeof(*program->globals));
  if (!program->globals) return pyd_reader_no_memory();
  program->global_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kGlobalWords) {
    status = decode_global(reader, i, words, &program->globals[i]);
  }
  return status;
}

// Decodes argument |i| of |p| from its record |words|: type, name, sizes, and the slot (variable of the procedure) that
// it is stored in.
static pyd_status_t decode_arg(pyd_reader_t* reader, pyd_procedure_t* p, uint32_t i, const uint32_t* words,
                               pyd_program_value_t* out_value) {
  pyd_status_t status = pyd_reader_check_value("argument", i, words);
  if (!pyd_ok(status)) return status;
  const uint32_t rank = words[PYD_VALUE_RANK], sizes = rank ? words[PYD_VALUE_SIZES] : 0;
  *out_value = (pyd_program_value_t){.kind = words[PYD_VALUE_KIND], .dtype = words[PYD_VALUE_DTYPE], .rank = rank};
  p->arg_slots[i] = words[PYD_VALUE_TARGET];
  p->info.dims_count += rank;
  status = pyd_reader_dims(reader->program, p->pool, p->pool_count, "argument", i, sizes, out_value);
  if (!pyd_ok(status)) return status;
  return pyd_reader_string(reader, "the name of an argument", words + PYD_VALUE_NAME, &out_value->name);
}

// Decodes result |i| of a procedure from its record |words|: type and name.
static pyd_status_t decode_result(pyd_reader_t* reader, uint32_t i, const uint32_t* words,
                                  pyd_program_value_t* out_value) {
  pyd_status_t status = pyd_reader_check_value("result", i, words);
  if (!pyd_ok(status)) return status;
  *out_value = (pyd_program_value_t){
      .kind = words[PYD_VALUE_KIND], .dtype = words[PYD_VALUE_DTYPE], .rank = words[PYD_VALUE_RANK]};
  return pyd_reader_string(reader, "the name of a result", words + PYD_VALUE_NAME, &out_value->name);
}

// Decodes the arguments and results of |p| from their records.
static pyd_status_t decode_signature(pyd_reader_t* reader, pyd_procedure_t* p, const uint32_t* args, uint32_t arg_count,
                                     const uint32_t* results, uint32_t result_count) {
  pyd_program_t* program = reader->program;
  pyd_program_value_t* values = pyd_program_allocate(program, (size_t)arg_count + result_count, sizeof(*values));
  p->arg_slots = pyd_program_allocate(program, arg_count, sizeof(*p->arg_slots));
  if (!values || !p->arg_slots) return pyd_reader_no_memory();
  p->info.args = values;
  p->info.arg_count = arg_count;
  p->info.results = values + arg_count;
  p->info.result_count = result_count;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < arg_count && pyd_ok(status); ++i, args += PYD_VALUE_WORDS) {
    status = decode_arg(reader, p, i, args, &values[i]);
  }
  for (uint32_t i = 0; i < result_count && pyd_ok(status); ++i, results += PYD_VALUE_WORDS) {
    status = decode_result(reader, i, results, &values[arg_count + i]);
  }
  return status;
}

// Words of a procedure's record. A string has two: offset and length in bytes. A table has two: its position, in words
// from the beginning of the program, and the number of its records.
enum {
  kName = 0,
  kSignature = 2,
  kFlags = 4,
  kArguments,
  kArgumentCount,
  kResults,
  kResultCount,
  kSlots,
  kSlotCount,
  kSteps,
  kStepCount,
  kPool,
  kPoolCount,
};

// Decodes the types of the slots from their records: kind, element type, rank, 0.
static pyd_status_t decode_slots(pyd_procedure_t* p, const uint32_t* words) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < p->slot_count && pyd_ok(status); ++i, words += kSlotWords) {
    status = pyd_reader_check_value("slot", i, words);
    p->slots[i] = (pyd_slot_type_t){words[0], words[1], words[2]};
  }
  return status;
}

// Decodes and verifies the procedure that |words|, a record of the table of procedures, describes.
static pyd_status_t decode_procedure(pyd_reader_t* reader, pyd_procedure_t* p, const uint32_t* words) {
  const uint32_t *args = NULL, *results = NULL, *slots = NULL, *steps = NULL;
  p->info.is_public = words[kFlags] & 1;
  pyd_status_t status = pyd_reader_string(reader, "the name of a procedure", words + kName, &p->info.name);
  if (pyd_ok(status))
    status = pyd_reader_string(reader, "the signature of a procedure", words + kSignature, &p->info.signature);
  if (pyd_ok(status))
    status = pyd_reader_table(reader, "arguments", words[kArguments], words[kArgumentCount], PYD_VALUE_WORDS, &args);
  if (pyd_ok(status))
    status = pyd_reader_table(reader, "results", words[kResults], words[kResultCount], PYD_VALUE_WORDS, &results);
  if (pyd_ok(status)) status = pyd_reader_table(reader, "slots", words[kSlots], words[kSlotCount], kSlotWords, &slots);
  if (pyd_ok(status)) status = pyd_reader_table(reader, "steps", words[kSteps], words[kStepCount], kStepWords, &steps);
  if (pyd_ok(status)) status = pyd_reader_table(reader, "pool", words[kPool], words[kPoolCount], 1, &p->pool);
  if (!pyd_ok(status)) return status;
  p->slot_count = words[kSlotCount];
  p->step_count = words[kStepCount];
  p->pool_count = words[kPoolCount];
  p->slots = pyd_program_allocate(reader->program, p->slot_count, sizeof(*p->slots));
  p->steps = pyd_program_allocate(reader->program, p->step_count, sizeof(*p->steps));
  if (!p->slots || !p->steps) return pyd_reader_no_memory();
  status = decode_slots(p, slots);
  for (uint32_t i = 0; i < p->step_count; ++i, steps += kStepWords) {
    // Words: operation, and its operands a, b, c and d.
    p->steps[i] = (pyd_step_t){steps[0], steps[1], steps[2], steps[3], steps[4]};
  }
  if (pyd_ok(status)) status = decode_signature(reader, p, args, words[kArgumentCount], results, words[kResultCount]);
  if (pyd_ok(status)) status = pyd_procedure_verify(reader->program, p);
  return status;
}

// Decodes the table of initializers: procedures without arguments and results that run before the first call.
static pyd_status_t decode_initializers(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_INITIALIZER_COUNT];
  pyd_program_t* program = reader->program;
  pyd_status_t status =
      pyd_reader_table(reader, "initializers", header[PYD_HEADER_INITIALIZERS], count, 1, &program->initializers);
  if (!pyd_ok(status)) return status;
  program->initializer_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t number = program->initializers[i];
    const bool exists = number < program->procedure_count;
    const pyd_program_function_t* info = exists ? &program->procedures[number].info : NULL;
    if (exists && info->arg_count == 0 && info->result_count == 0) continue;
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "initializer %u is procedure %u, which does not exist or has arguments or results", i,
                           number);
  }
  return status;
}

// Decodes procedures and the tables that they refer to, which are decoded before them, then initializers.
pyd_status_t pyd_program_decode_procedures(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_PROCEDURE_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status = decode_parameters(reader, header);
  if (pyd_ok(status)) status = decode_checks(reader, header);
  if (pyd_ok(status)) status = decode_globals(reader, header);
  if (pyd_ok(status)) {
    status = pyd_reader_table(reader, "procedures", header[PYD_HEADER_PROCEDURES], count, kProcedureWords, &words);
  }
  if (!pyd_ok(status)) return status;
  program->procedures = pyd_program_allocate(program, count, sizeof(*program->procedures));
  if (!program->procedures) return pyd_reader_no_memory();
  program->procedure_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kProcedureWords) {
    pyd_procedure_t* p = &program->procedures[i];
    status = decode_procedure(reader, p, words);
    if (!pyd_ok(status)) {
      status = pyd_status_annotate(status, "procedure %u ('%.*s'): %s", i, (int)p->info.name.length, p->info.name.data,
                                   pyd_status_text(status));
    }
  }
  if (pyd_ok(status)) status = decode_initializers(reader, header);
  return status;
}
