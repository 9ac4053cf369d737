// What the kinds of commands check their records with. See verify.c.
#ifndef PYD_PROGRAM_VERIFY_H_
#define PYD_PROGRAM_VERIFY_H_

#include "program/internal.h"

typedef struct pyd_verifier_s {
  const pyd_program_t* program;
  pyd_function_t* fn;
  uint32_t insn;    // being looked at
  uint32_t region;  // of the last command
} pyd_verifier_t;

#define PYD_INSN_CORRUPT(v, format, ...) \
  pyd_status_make(PYD_CODE_CORRUPT, "instruction %u: " format, (v)->insn, __VA_ARGS__)

// CORRUPT when register |reg| does not exist or is not written yet.
pyd_status_t pyd_verify_read(const pyd_verifier_t* v, uint32_t reg);
// The same, for a register that may be NONE.
pyd_status_t pyd_verify_optional(const pyd_verifier_t* v, uint32_t reg);
// CORRUPT when |words| words at |at| are not all in the pool.
pyd_status_t pyd_verify_record(const pyd_verifier_t* v, uint32_t at, uint64_t words);
// CORRUPT when the command may not read, or write, |buffer| in its region.
pyd_status_t pyd_verify_buffer(const pyd_verifier_t* v, uint32_t buffer, bool is_written);

// What functions and procedures share. |where| |number|: "instruction 3".
pyd_status_t pyd_verify_pool(const char* where, uint32_t number, uint32_t pool_count, uint32_t at, uint64_t words);
// |text|: offset and length in the strings of |program|; at most |limit| bytes.
pyd_status_t pyd_verify_text(const char* where, uint32_t number, const pyd_program_t* program, const char* what,
                             const uint32_t* text, uint32_t limit);

#endif  // PYD_PROGRAM_VERIFY_H_
