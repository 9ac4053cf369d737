// links: base platform sched memory program
// with: reverse.c
// extended: counts steps of reading a program
// Reading is linear: twice as much input is at most twice as many steps, however its parts refer to each other.
#include "program/plan/plan.h"
#include "program/procedure_builder.h"

uint64_t pyd_work;

static uint64_t decode_work(builder_t* b) {
  pyd_span_t bytes = encode(b);
  pyd_program_t* program = NULL;
  pyd_work = 0;
  pyd_status_free(pyd_program_decode(bytes, &program));
  pyd_program_free(program);
  free((void*)bytes.data);
  return pyd_work;
}

// |n| results, each tied to one argument, and |n| copies that none of them minds.
static uint64_t tied(uint32_t n) {
  static builder_t b;
  fn_t* f = add_function(&b, "f");
  int64_t four = 4;
  uint32_t x = add_tensor(&b, f, F32, "x", 1, &four), size = constant(f, 16), dim = constant(f, 4), out = 0;
  for (uint32_t i = 0; i < n; ++i) {
    out = add_result(f, F32, 1, &dim, size);
    f->results.data[8 * i + 7] = 1 + x;
  }
  for (uint32_t i = 0; i < n; ++i) add_copy(f, 0, 0, NONE, out, NONE, size);
  return decode_work(&b);
}

// |n| steps that run a function of |n| arguments, all with one record of the pool.
static uint64_t shared(uint32_t n) {
  static builder_t b;
  procs_t s = {0};
  fn_t* f = add_function(&b, "f");
  for (uint32_t i = 0; i < n; ++i) add_scalar(&b, f, "");
  proc_t* p = add_procedure(&b, &s, "p");
  uint32_t slot = add_slot(p, 1, I64, 0);
  for (uint32_t i = 0; i < n; ++i) push(&p->pool, slot);
  for (uint32_t i = 0; i < n; ++i) step(p, PYD_STEP_RUN, 0, 0, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  finish_procs(&b, &s);
  return decode_work(&b);
}

// |n| executables with an export each; then one with |n|, which its library has the other way round.
static uint64_t linked(uint32_t n, bool is_one) {
  static builder_t b;
  static pyd_executable_t executable;
  static char text[4096][12];
  const char** names = calloc(n, sizeof(*names));
  pyd_dispatch_fn_t* functions = calloc(n, sizeof(*functions));
  pyd_library_export_attrs_t* attrs = calloc(n, sizeof(*attrs));
  for (uint32_t i = 0; i < n; ++i) {
    snprintf(text[i], sizeof(text[i]), "%u", i);
    names[i] = text[i];
    memset(&functions[i], 1, sizeof(*functions));  // never called
    if (!is_one || i == 0) add_executable(&b, "x");
  }
  for (uint32_t i = 0; i < n; ++i) add_export(&b, is_one ? 0 : i, is_one ? i : 0, text[is_one ? n - 1 - i : 0], 0, 0);
  executable.library.exports = (pyd_library_exports_t){.count = n, .ptrs = functions, .attrs = attrs, .names = names};
  pyd_program_t* program = decode(&b);
  pyd_work = 0;
  for (uint32_t i = 0; i < (is_one ? 1 : n); ++i) CHECK_OK(pyd_program_set_executable(program, i, &executable, 0, 4));
  pyd_program_free(program);
  free(names), free(functions), free(attrs);
  return pyd_work;
}
const pyd_library_t* pyd_executable_library(const pyd_executable_t* e) { return &e->library; }
const pyd_environment_t* pyd_executable_environment(const pyd_executable_t* e) { return &e->environment; }
pyd_span_t pyd_executable_image(const pyd_executable_t* e) { return e->image; }

// |n| constants, which |n| dispatches of one function read.
static uint64_t aligned(uint32_t n) {
  static builder_t b;
  add_executable(&b, "x");
  add_export(&b, 0, 0, "0", 0, 1);
  fn_t* f = add_function(&b, "f");
  uint32_t one = constant(f, 1), zero = constant(f, 0);
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t buffer = add_buffer(f, PYD_BUFFER_CONSTANT, add_constant(&b, "", 0, 4), NONE, 0, 0);
    add_dispatch(f, 0, zero, (uint32_t[]){one, one, one}, 0, NULL, 1, (uint32_t[]){buffer, NONE, NONE});
  }
  pyd_program_t* program = decode(&b);
  uint32_t* alignments = calloc(n, sizeof(*alignments));
  pyd_work = 0;
  CHECK_OK(pyd_program_constant_alignments(program, alignments));
  free(alignments);
  pyd_program_free(program);
  return pyd_work;
}

// One region of |n| dispatches, each with a binding that is less aligned than its executable needs.
static uint64_t staged(uint32_t n) {
  static builder_t b;
  static pyd_dispatch_fn_t functions[1];
  memset(functions, 1, sizeof(functions));  // never called
  static const pyd_library_export_attrs_t attrs[] = {{.binding_count = 1}};
  static const char* const names[] = {"0"};
  static const pyd_executable_t executable = {
      .library.exports = {.count = 1, .ptrs = functions, .attrs = attrs, .names = names}};
  add_executable(&b, "x");
  add_export(&b, 0, 0, "0", 0, 1);
  fn_t* f = add_function(&b, "f");
  const uint32_t one = constant(f, 1), zero = constant(f, 0), four = constant(f, 4), size = constant(f, 8);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t buffer = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, size, 0, 0);
    add_dispatch(f, 0, zero, (uint32_t[]){one, one, one}, 0, NULL, 1, (uint32_t[]){buffer, four, four});
  }
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &executable, 0, 64));
  pyd_plan_t* plan = NULL;
  pyd_work = 0;
  CHECK_OK(pyd_plan_create(program, 0, NULL, NULL, &plan));
  CHECK(plan->command_count == 3 * n);
  pyd_plan_free(plan);
  pyd_program_free(program);
  return pyd_work;
}

static void compare(const char* what, uint64_t small, uint64_t large) {
  fprintf(stderr, "%s: %llu steps, %llu for twice as much\n", what, (unsigned long long)small,
          (unsigned long long)large);
  CHECK(small > 0 && large <= 2 * small + small / 4);
}

int main(void) {
  compare("tied results", tied(1000), tied(2000));
  compare("shared pool words", shared(1000), shared(2000));
  compare("executables", linked(1000, false), linked(2000, false));
  compare("exports in another order", linked(1000, true), linked(2000, true));
  compare("constants", aligned(1000), aligned(2000));
  compare("bindings that are not aligned", staged(1000), staged(2000));
  return 0;
}
