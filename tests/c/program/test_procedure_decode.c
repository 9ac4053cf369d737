// links: base platform sched memory program
// with: double.c
// Procedures that are refused when they are decoded, with the text that says why; and their valid twins.
#include "program/builder.h"
#include "program/procedure_builder.h"

static void settle(builder_t* b, procs_t* s, const char* text) {
  pyd_program_t* program = NULL;
  finish_procs(b, s);
  pyd_span_t bytes = encode(b);
  pyd_status_t status = pyd_program_decode(bytes, &program);
  if (text) {
    check_refused(status, PYD_CODE_CORRUPT, text, __FILE__, __LINE__);
  } else {
    CHECK_OK(status);
  }
  pyd_program_free(program);
  free((void*)bytes.data);
}
#define TRY(text, ...)                      \
  do {                                      \
    static builder_t b;                     \
    static procs_t s;                       \
    proc_t* p = add_procedure(&b, &s, "p"); \
    __VA_ARGS__;                            \
    settle(&b, &s, text);                   \
  } while (0)
#define RETURN(p) step(p, PYD_STEP_RETURN, 0, 0, 0, 0)

// An element of |dtype| of a tensor without axes.
static void add_read(proc_t* p, uint32_t dtype) {
  uint32_t tensor = add_slot(p, 0, dtype, 0), word = add_slot(p, 1, dtype, 0);
  step(p, PYD_STEP_READ, word, tensor, push(&p->pool, 0), NONE);
  RETURN(p);
}

// Rows of a tensor of f32 that are saved with positions and elements of these types.
static void add_save(proc_t* p, uint32_t positions, uint32_t saved) {
  uint32_t tensor = add_slot(p, 0, F32, 2), at = add_slot(p, 0, positions, 1), old = add_slot(p, 0, saved, 2);
  step(p, PYD_STEP_SAVE, tensor, tensor, push_all(&p->pool, 2, at, old), 0);
  RETURN(p);
}

int main(void) {
  TRY(NULL, RETURN(p));
  TRY("the last of 0 steps goes on", (void)p);
  // A loop without an end.
  TRY(NULL, uint32_t word = add_slot(p, 1, I64, 0); step(p, PYD_STEP_SCALAR, word, 0, 0, 0);
      step(p, PYD_STEP_BRANCH, word, 0, 1, 0));
  TRY("the last of 1 steps goes on", step(p, PYD_STEP_SCALAR, add_slot(p, 1, I64, 0), 0, 0, 0));
  // Initializers: procedures without arguments and results.
  TRY(NULL, RETURN(p); push(&s.initializers, 0));
  TRY("initializer 0 is procedure 1, which does not exist or has arguments or results", RETURN(p);
      push(&s.initializers, 1));
  TRY("initializer 0 is procedure 0, which does not exist or has arguments or results",
      add_port(&b, p, 1, I64, 0, NULL);
      RETURN(p); push(&s.initializers, 0));
  TRY("initializer 0 is procedure 0, which does not exist or has arguments or results",
      uint32_t word = add_slot(p, 1, I64, 0);
      step(p, PYD_STEP_SCALAR, word, 0, 0, 0); add_output(p, 1, I64, 0);
      step(p, PYD_STEP_RETURN, push(&p->pool, word), 0, 0, 0); push(&s.initializers, 0));
  // Elements that can be read: of 8, 16, 32 or 64 bits, and single bits.
  TRY(NULL, add_read(p, F32));
  TRY(NULL, add_read(p, I64));
  TRY(NULL, add_read(p, 0x13000001));
  TRY(NULL, add_read(p, 0x13000008));
  TRY("an element of 128 bits cannot be read", add_read(p, 0x10000080));
  TRY("an element of 24 bits cannot be read", add_read(p, 0x10000018));
  TRY("an element of 32 bits cannot be read", add_read(p, 0x13000020));
  // Rows are saved of tensors of one type; their positions are integers of 64 bits.
  TRY(NULL, add_save(p, I64, F32));
  TRY("slot 1 has the dtype 0x21000020, expected 0x10000040", add_save(p, F32, F32));
  TRY("slot 2 has the dtype 0x10000040, expected 0x21000020", add_save(p, I64, I64));
  // Of two arguments the first is said.
  TRY("argument 0: axis 0 has size -2", add_port(&b, p, 0, F32, 1, (int64_t[]){-2});
      add_port(&b, p, 0, F32, 1, (int64_t[]){-3}); RETURN(p));
  return 0;
}
