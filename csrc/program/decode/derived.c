// The table of derivations: constants that a function computes from other constants. Derivations cannot depend on each
// other in a cycle: each reads constants of earlier ones only.
#include "program/decode/reader.h"

enum { kDerivationWords = 4 };  // of a record: function, first constant, two reserved ones

// Returns a CORRUPT failure, prefixed with the derivation's number.
#define CORRUPT(number, ...) derivation_corrupt(number, pyd_status_make(PYD_CODE_CORRUPT, __VA_ARGS__))

// Prefixes a failure with the number of its derivation.
static pyd_status_t derivation_corrupt(uint32_t number, pyd_status_t status) {
  return pyd_status_annotate(status, "derivation %u: %s", number, pyd_status_text(status));
}

// Checks the function that computes the constants of derivation |number|: it exists, has no arguments, and returns at
// least one tensor and no scalars.
static pyd_status_t check_function(const pyd_program_t* program, uint32_t number) {
  uint32_t function = program->derivations[number].function;
  if (function >= program->function_count) {
    return CORRUPT(number, "function %u does not exist, the program has %u", function, program->function_count);
  }
  const pyd_program_function_t* info = &program->functions[function].info;
  bool fits = info->arg_count == 0 && info->result_count != 0;
  for (uint32_t i = 0; i < info->result_count; ++i) fits &= info->results[i].kind == PYD_KIND_TENSOR;
  if (!fits) return CORRUPT(number, "function %u must take no arguments and return tensors", function);
  return PYD_STATUS_OK;
}

// Marks the constants that derivation |number| computes: consecutive ones, as many as its function has results. CORRUPT
// when one of them has another source.
static pyd_status_t claim_constants(pyd_program_t* program, uint32_t number) {
  uint32_t first = program->derivations[number].first_constant;
  uint32_t count = program->functions[program->derivations[number].function].info.result_count;
  if (first > program->constant_count || count > program->constant_count - first) {
    return CORRUPT(number, "%u constants from number %u on, the program has %u", count, first, program->constant_count);
  }
  PYD_COUNT_WORK(count);
  for (uint32_t i = first; i < first + count; ++i) {
    pyd_program_constant_t* constant = &program->constants[i];
    // Sources of a constant: a derivation, a parameter, or a member of the artifact.
    if (constant->derivation != PYD_NONE || constant->parameter != PYD_NONE || constant->member.length) {
      return CORRUPT(number, "constant %u has its bytes from elsewhere already", i);
    }
    constant->derivation = number;
  }
  return PYD_STATUS_OK;
}

// Checks that the function of derivation |number| reads no constant that this or a later derivation computes.
static pyd_status_t check_sources(const pyd_program_t* program, uint32_t number) {
  const pyd_function_t* fn = &program->functions[program->derivations[number].function];
  PYD_COUNT_WORK(fn->buffer_count);
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    if (fn->buffers[i].kind != PYD_BUFFER_CONSTANT) continue;
    uint32_t source = program->constants[fn->buffers[i].index].derivation;
    if (source == PYD_NONE || source < number) continue;
    return CORRUPT(number,
                   "its function reads constant %u, which derivation %u computes; a derivation reads those of "
                   "earlier ones only",
                   fn->buffers[i].index, source);
  }
  return PYD_STATUS_OK;
}

// Decodes the table of derivations that |header| refers to, after functions and constants.
pyd_status_t pyd_program_decode_derivations(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_DERIVATION_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "derived", header[PYD_HEADER_DERIVATIONS], count, kDerivationWords, &words);
  if (!pyd_ok(status)) return status;
  program->derivations = pyd_program_allocate(program, count, sizeof(*program->derivations));
  uint8_t* is_taken =
      pyd_program_allocate(program, program->function_count,
                           1);  // by function: a derivation uses it. At most one may: check_sources() is linear then
  if (!program->derivations || !is_taken) return pyd_reader_no_memory();
  program->derivation_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kDerivationWords) {
    program->derivations[i] = (pyd_program_derivation_t){.function = words[0], .first_constant = words[1]};
    status = check_function(program, i);
    if (pyd_ok(status) && is_taken[words[0]]++) status = CORRUPT(i, "function %u belongs to an earlier one", words[0]);
    if (pyd_ok(status)) status = claim_constants(program, i);
  }
  // After all are decoded: constants of later derivations must be known.
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) status = check_sources(program, i);
  return status;
}
