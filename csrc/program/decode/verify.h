// Checks that the verifiers of functions, of each kind of command, and of procedures share. See verify.c.
#ifndef PYD_PROGRAM_VERIFY_H_
#define PYD_PROGRAM_VERIFY_H_

#include "program/internal.h"

// The state of verifying the instructions of a function.
typedef struct pyd_verifier_s {
  const pyd_program_t* program;
  pyd_function_t* fn;
  uint32_t insn;    // index of the instruction that is verified
  uint32_t region;  // of the last command so far
} pyd_verifier_t;

// Returns a CORRUPT failure that names the current instruction.
#define PYD_INSN_CORRUPT(v, format, ...) \
  pyd_status_make(PYD_CODE_CORRUPT, "instruction %u: " format, (v)->insn, __VA_ARGS__)

// Checks that register |reg| exists and that an earlier instruction writes it.
pyd_status_t pyd_verify_read(const pyd_verifier_t* v, uint32_t reg);
// Checks an optional operand: |reg| is PYD_NONE, or valid for pyd_verify_read().
pyd_status_t pyd_verify_optional(const pyd_verifier_t* v, uint32_t reg);
// Checks that the |words| words at |at| lie inside the function's pool.
pyd_status_t pyd_verify_record(const pyd_verifier_t* v, uint32_t at, uint64_t words);
// Checks that |buffer| exists, is live in the region of the command, and may be written when |is_written|. If not
// |is_written|, the command reads it, or it is not known whether the command writes it.
pyd_status_t pyd_verify_buffer(const pyd_verifier_t* v, uint32_t buffer, bool is_written);

// Checks that |words| words at |at| lie inside a pool of |pool_count| words. |where| and |number| name the place in the
// message: "instruction 3".
pyd_status_t pyd_verify_pool(const char* where, uint32_t number, uint32_t pool_count, uint32_t at, uint64_t words);
// Checks a string, of which |text| holds offset and length in bytes: inside the strings of |program|, at most |limit|
// bytes long.
pyd_status_t pyd_verify_text(const char* where, uint32_t number, const pyd_program_t* program, const char* what,
                             const uint32_t* text, uint32_t limit);

#endif  // PYD_PROGRAM_VERIFY_H_
