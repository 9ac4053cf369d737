// Bytes to tables: what the decoders of programs, functions and procedures share.
#ifndef PYD_PROGRAM_DECODE_H_
#define PYD_PROGRAM_DECODE_H_

#include "program/internal.h"

enum { PYD_PROGRAM_HEADER_WORDS = 32 };

typedef struct pyd_reader_s {
  pyd_program_t* program;
  uint64_t budget;         // words that tables may still claim
  uint64_t string_budget;  // bytes that strings may still have together: those who list them copy each
} pyd_reader_t;

pyd_status_t pyd_reader_no_memory(void);
// |count| records of |record| words each at word |offset|. CORRUPT when they do not fit, or claim more words than there
// are.
pyd_status_t pyd_reader_table(pyd_reader_t* reader, const char* what, uint32_t offset, uint32_t count, uint32_t record,
                              const uint32_t** out_words);
// |words|: offset and length inside the strings.
pyd_status_t pyd_reader_string(pyd_reader_t* reader, const char* what, const uint32_t* words, pyd_string_t* out);
// Kind, element type and rank in the first words of an argument's or result's record.
pyd_status_t pyd_reader_check_value(const char* what, uint32_t index, const uint32_t* words);
// The sizes of |what| |index|, two words each, at |at| of a pool.
pyd_status_t pyd_reader_dims(pyd_program_t* program, const uint32_t* pool, uint32_t pool_count, const char* what,
                             uint32_t index, uint32_t at, pyd_program_value_t* value);

// The same in a table of their own, at word |offset| of the file.
pyd_status_t pyd_reader_sizes(pyd_reader_t* reader, const char* what, uint32_t index, uint32_t offset,
                              pyd_program_value_t* value);

// command.c: the host commands, before functions, which call them.
pyd_status_t pyd_program_decode_commands(pyd_reader_t* reader, const uint32_t* header);

// function.c: the function that |words|, a record of the table of functions, describes.
pyd_status_t pyd_reader_function(pyd_reader_t* reader, pyd_function_t* fn, const uint32_t* words);

// derived.c: derivations, when functions and constants are there.
pyd_status_t pyd_program_decode_derivations(pyd_reader_t* reader, const uint32_t* header);

// procedure.c: procedures, globals, initializers, checks and parameters, when functions and constants are there.
pyd_status_t pyd_program_decode_procedures(pyd_reader_t* reader, const uint32_t* header);

#endif  // PYD_PROGRAM_DECODE_H_
