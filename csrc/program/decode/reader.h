// Decoding of host programs: what the decoders of programs, functions and procedures share.
#ifndef PYD_PROGRAM_DECODE_H_
#define PYD_PROGRAM_DECODE_H_

#include "program/internal.h"

// Words of a program's header. A table has two: its position, in words from the beginning, and the number of its
// records. The words after the last one are 0.
enum {
  PYD_HEADER_MAGIC,
  PYD_HEADER_VERSION,
  PYD_HEADER_WORDS,         // of the whole program
  PYD_HEADER_STRINGS,       // position of all strings, in bytes from the beginning
  PYD_HEADER_STRING_BYTES,  // and their length in bytes
  PYD_HEADER_EXECUTABLES,
  PYD_HEADER_EXECUTABLE_COUNT,
  PYD_HEADER_EXPORTS,
  PYD_HEADER_EXPORT_COUNT,
  PYD_HEADER_QUERIES,
  PYD_HEADER_QUERY_COUNT,
  PYD_HEADER_CONSTANTS,
  PYD_HEADER_CONSTANT_COUNT,
  PYD_HEADER_FUNCTIONS,
  PYD_HEADER_FUNCTION_COUNT,
  PYD_HEADER_PROCEDURES,
  PYD_HEADER_PROCEDURE_COUNT,
  PYD_HEADER_GLOBALS,
  PYD_HEADER_GLOBAL_COUNT,
  PYD_HEADER_INITIALIZERS,
  PYD_HEADER_INITIALIZER_COUNT,
  PYD_HEADER_CHECKS,
  PYD_HEADER_CHECK_COUNT,
  PYD_HEADER_PARAMETERS,
  PYD_HEADER_PARAMETER_COUNT,
  PYD_HEADER_DERIVATIONS,
  PYD_HEADER_DERIVATION_COUNT,
  PYD_HEADER_COMMANDS,
  PYD_HEADER_COMMAND_COUNT,
  PYD_PROGRAM_HEADER_WORDS = 32,
};

// Words of the record of an argument or result of a function or procedure.
enum {
  PYD_VALUE_KIND,  // PYD_KIND_TENSOR or PYD_KIND_SCALAR
  PYD_VALUE_DTYPE,
  PYD_VALUE_RANK,
  PYD_VALUE_SIZES,       // pool index: sizes of an argument, two words each; size registers of a function's result
  PYD_VALUE_NAME,        // two words: offset and length in bytes
  PYD_VALUE_TARGET = 6,  // buffer or register of a function's value, slot of a procedure's argument
  PYD_VALUE_TIED,        // of a function's result: 1 + the argument whose memory it may take over, or 0
  PYD_VALUE_WORDS,
};

// The state of decoding a program.
typedef struct pyd_reader_s {
  pyd_program_t* program;
  uint64_t budget;         // words that no table has claimed so far
  uint64_t string_budget;  // bytes that further strings may have in total; overlapping strings count each time
} pyd_reader_t;

// Returns the OUT_OF_MEMORY failure of decoding.
pyd_status_t pyd_reader_no_memory(void);
// Claims a table of |count| records of |record| words each at word |offset| of the program, and sets |*out_words| to
// its first word. CORRUPT, naming |what|, when it lies outside the program, or tables together claim more words than
// the program has.
pyd_status_t pyd_reader_table(pyd_reader_t* reader, const char* what, uint32_t offset, uint32_t count, uint32_t record,
                              const uint32_t** out_words);
// Sets |*out| to a string of the program, which it borrows. |words|: its offset and length in bytes inside the strings.
// CORRUPT, naming |what|, when it lies outside them.
pyd_status_t pyd_reader_string(pyd_reader_t* reader, const char* what, const uint32_t* words, pyd_string_t* out);
// Checks the first three words of an argument's or result's record: kind (0 tensor, 1 scalar), element type and rank.
pyd_status_t pyd_reader_check_value(const char* what, uint32_t index, const uint32_t* words);
// Reads the sizes of |what| |index|, two words each and -1 for dynamic ones, at word |at| of a pool.
pyd_status_t pyd_reader_dims(pyd_program_t* program, const uint32_t* pool, uint32_t pool_count, const char* what,
                             uint32_t index, uint32_t at, pyd_program_value_t* value);

// Reads the sizes of |what| |index| from a table of their own, at word |offset| of the program.
pyd_status_t pyd_reader_sizes(pyd_reader_t* reader, const char* what, uint32_t index, uint32_t offset,
                              pyd_program_value_t* value);

// Decodes the host commands; called before functions, which call them. (command.c)
pyd_status_t pyd_program_decode_commands(pyd_reader_t* reader, const uint32_t* header);

// Decodes and verifies the function that |words|, a record of the table of functions, describes. (function.c)
pyd_status_t pyd_reader_function(pyd_reader_t* reader, pyd_function_t* fn, const uint32_t* words);

// Decodes the derivations; called after functions and constants. (derived.c)
pyd_status_t pyd_program_decode_derivations(pyd_reader_t* reader, const uint32_t* header);

// Decodes procedures, globals, initializers, checks and parameters; called after functions and constants. (procedure.c)
pyd_status_t pyd_program_decode_procedures(pyd_reader_t* reader, const uint32_t* header);

#endif  // PYD_PROGRAM_DECODE_H_
