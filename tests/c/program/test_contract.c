// links: base platform sched program
// Contracts of exports: what a plan is held to, and the words in which it is refused.
#include "program/builder.h"
#include "program/plan/plan.h"
#include "program/small_pool.h"

#include "program/double.c"

typedef struct parts_s {
  uint32_t bytes;  // of the transient that the kernel reads
  uint32_t grid;
  bool writes_argument;
  bool is_scalar;  // the size comes from a scalar argument of the function
  bool writes_constant;
  bool is_chosen;  // the kernel is chosen in the call, so that no contract is known when contracts are applied
} parts_t;

// f(x: tensor<?xf32>, s): one dispatch of an export with the constants (n low, n high, any) over (transient, result).
static pyd_program_t* make(parts_t parts) {
  static builder_t b;
  add_executable(&b, "exe");
  add_export(&b, 0, 0, "kernel", 3, 2);
  add_constant(&b, "c.bin", 0, 64);
  fn_t* f = add_function(&b, "f");
  int64_t open_size = -1;
  uint32_t x = add_tensor(&b, f, F32, "x", 1, &open_size), s = add_scalar(&b, f, "s");
  uint32_t n = parts.is_scalar ? op(f, PYD_OP_SCALAR, 0, s, 0, 0) : op(f, PYD_OP_DIM, 0, x, 0, 0);
  uint32_t any = parts.is_scalar ? n : op(f, PYD_OP_SCALAR, 0, s, 0, 0), zero = constant(f, 0), one = constant(f, 1);
  uint32_t dim = op(f, PYD_OP_DIM, 0, x, 0, 0), bytes = op(f, PYD_OP_MUL, 64, dim, constant(f, 4), 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, constant(f, parts.bytes), 0, 0);
  uint32_t r = add_result(f, F32, 1, &dim, bytes);
  uint32_t c = add_buffer(f, PYD_BUFFER_CONSTANT, 0, NONE, 0, 0), large = constant(f, UINT64_C(1) << 32);
  uint32_t export = parts.is_chosen ? op(f, PYD_OP_SELECT, 0, one, zero, large) : zero;
  uint32_t target = parts.writes_argument ? 0 : parts.writes_constant ? c : r;
  add_dispatch(f, 0, export, (uint32_t[]){constant(f, parts.grid), one, one}, 3,
               (uint32_t[]){n, n | PYD_CONSTANT_HIGH, any}, 2, (uint32_t[]){t, NONE, NONE, target, NONE, NONE});
  return decode(&b);
}

// The kernel reads n floats of the first binding, writes n of the second, in at most 4 workgroups. Results after the
// sixth are the bytes of each binding that one tile takes: the same.
static pyd_program_t* make_contract(uint32_t constants, uint32_t results) {
  static builder_t b;
  fn_t* f = add_function(&b, "kernel");
  for (uint32_t i = 0; i < constants; ++i) add_scalar(&b, f, "");
  uint32_t high = op(f, PYD_OP_SHL, 64, op(f, PYD_OP_SCALAR, 0, 1, 0, 0), constant(f, 32), 0);
  uint32_t n = op(f, PYD_OP_OR, 64, op(f, PYD_OP_SCALAR, 0, 0, 0, 0), high, 0), zero = constant(f, 0);
  add_check(&b, f, PYD_OP_CHECK, op(f, PYD_OP_CMP, 64 + 5 * 256, n, zero, 0), 0, "size 0 is negative");
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), one = constant(f, 1);
  add_check(&b, f, PYD_OP_CHECK, op(f, PYD_OP_CMP, 64 + 5 * 256, bytes, zero, 0), 0, "too much");
  const uint32_t all[] = {constant(f, 4), one, one, constant(f, 2), bytes, bytes, bytes, zero};
  for (uint32_t i = 0; i < results; ++i) add_scalar_result(f, all[i]);
  return decode(&b);
}

static int32_t nothing(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {nothing, nothing};
static const char* const kNames[] = {"other", "kernel"};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 7}, {.constant_count = 3, .binding_count = 2}};
static const pyd_executable_t kExecutable = {
    .library = {.exports = {.count = 2, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

static pyd_status_t plan(parts_t parts, int64_t n, uint64_t scalar, bool settles) {
  pyd_program_t *program = make(parts), *contracts = make_contract(3, 6);
  static const _Alignas(64) uint8_t memory[64];
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){memory, 64}));
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  // By the ordinal in the library, which is not the program's.
  CHECK_OK(pyd_program_set_contracts(program, 0, contracts, (uint32_t[]){NONE, 0}, 2));
  if (settles) CHECK_OK(pyd_program_apply_contracts(program));
  pyd_plan_t* made = NULL;
  pyd_status_t status = pyd_plan_create(program, 0, &n, &scalar, &made);
  CHECK(pyd_ok(status) == (made != NULL));
  uint64_t other = scalar + 1;
  if (made) CHECK(pyd_plan_matches(made, &n, &other) == !(parts.is_scalar && settles));
  if (made) pyd_plan_free(made);
  pyd_program_free(program);
  pyd_program_free(contracts);
  return status;
}

static pyd_plan_t* make_plan(pyd_program_t* program, pyd_program_t* contracts, uint64_t scalar) {
  static const _Alignas(64) uint8_t memory[64];
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){memory, 64}));
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  if (contracts) CHECK_OK(pyd_program_set_contracts(program, 0, contracts, (uint32_t[]){NONE, 0}, 2));
  CHECK_OK(pyd_program_apply_contracts(program));
  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){10}, &scalar, &plan));
  return plan;
}

// What chains and results in place are decided by: the results of the contract of one dispatch of a plan.
static void check_results(parts_t parts, pyd_program_t* contracts, uint64_t scalar, uint64_t written, bool keeps_tile) {
  pyd_program_t* program = make(parts);
  pyd_plan_t* made = make_plan(program, contracts, scalar);
  pyd_plan_command_t command = made->commands[0];
  command.tile_groups = 2;
  CHECK(pyd_plan_written_bindings(made, &command) == written);
  CHECK(pyd_plan_keeps_tile(made, &command, 0, 80) == keeps_tile);
  if (contracts) {
    CHECK(!pyd_plan_keeps_tile(made, &command, 0, 81));   // no multiple of the workgroups of a tile
    CHECK(!pyd_plan_keeps_tile(made, &command, 0, 160));  // a workgroup takes less
    CHECK(!pyd_plan_keeps_tile(made, &command, 1, 0));    // the kernel does not keep to tiles of it
  }
  pyd_plan_free(made);
  pyd_program_free(program);
}

static void test_results(void) {
  const parts_t good = {.bytes = 40, .grid = 4}, empty = {.bytes = 0, .grid = 0, .is_scalar = true};
  pyd_program_t *contracts = make_contract(3, 8), *without_tiles = make_contract(3, 6);
  check_results(good, NULL, 0, UINT64_MAX, true);
  check_results(good, contracts, 0, 2, true);
  check_results(good, without_tiles, 0, 2, false);
  check_results(empty, contracts, 10, 2, true);
  check_results(empty, contracts, (uint64_t)-1, UINT64_MAX, false);  // refused by the contract, but no dispatch runs
  pyd_program_free(contracts), pyd_program_free(without_tiles);
  // A contract of more registers than are computed here.
  static builder_t b;
  fn_t* f = add_function(&b, "kernel");
  for (uint32_t i = 0; i < 3; ++i) add_scalar(&b, f, "");
  for (uint32_t i = 0; i < 254; ++i) constant(f, 40);
  for (uint32_t i = 0; i < 8; ++i) add_scalar_result(f, i);
  pyd_program_t* large = decode(&b);
  check_results(good, large, 0, UINT64_MAX, false);
  pyd_program_free(large);
}

// Each constant of a kernel that is chosen in the call is part of the key, since any contract may read it.
static void test_chosen(void) {
  const uint64_t other = 1;
  pyd_program_t* contracts = make_contract(3, 6);
  for (uint32_t is_chosen = 0; is_chosen < 2; ++is_chosen) {
    pyd_program_t* program = make((parts_t){.bytes = 40, .grid = 4, .is_chosen = is_chosen});
    pyd_plan_t* made = make_plan(program, contracts, 0);
    CHECK(pyd_plan_matches(made, (int64_t[]){10}, &other) == !is_chosen);
    pyd_plan_free(made);
    pyd_program_free(program);
  }
  pyd_program_free(contracts);
}

// What has no contract, what a contract does not speak of, and a function with commands, which is none.
static void test_edges(void) {
  static builder_t b;
  pyd_program_t *program = make((parts_t){.bytes = 40, .grid = 4}), *contracts = make_contract(3, 6);
  CHECK_OK(pyd_program_apply_contracts(program));
  CHECK(!pyd_contract_reads(&program->exports[0], 0));
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  CHECK_OK(pyd_program_set_contracts(program, 0, contracts, (uint32_t[]){NONE, 0}, 2));
  CHECK(pyd_contract_reads(&program->exports[0], 0) && !pyd_contract_reads(&program->exports[0], 3));
  fn_t* f = add_function(&b, "kernel");
  for (uint32_t i = 0; i < 3; ++i) add_scalar(&b, f, "");
  uint32_t four = constant(f, 4), t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, four, 0, 0);
  add_fill(f, 0, t, NONE, NONE, four, 4);
  for (uint32_t i = 0; i < 6; ++i) add_scalar_result(f, four);
  pyd_program_t* acting = decode(&b);
  CHECK_REFUSED(pyd_program_set_contracts(program, 0, acting, (uint32_t[]){NONE, 0}, 2), CORRUPT,
                "contract 0 of 1 is none for 3 constants and 2 bindings");
  pyd_program_free(acting);
  pyd_program_free(program);
  pyd_program_free(contracts);
}

int main(void) {
  test_edges();
  test_results();
  test_chosen();
  const parts_t good = {.bytes = 40, .grid = 4};
  CHECK_OK(plan(good, 10, 0, true));
  parts_t parts = good;
  parts.bytes = 36;
  CHECK_REFUSED(
      plan(parts, 10, 0, true), CORRUPT,
      "function 'f', command 0: @exe::@kernel, binding 0: the kernel needs 40 bytes, given 36 bytes at 0 of transient buffer");
  parts = good, parts.grid = 5;
  CHECK_REFUSED(plan(parts, 10, 0, true), CORRUPT,
                "@exe::@kernel, grid: 5 workgroups along x, the kernel was made for 4");
  parts.grid = 0, parts.bytes = 0;  // what does not run needs nothing
  CHECK_OK(plan(parts, 10, 0, true));
  parts = good, parts.writes_argument = true;
  CHECK_OK(plan(parts, 0, 0, true));  // a kernel that writes nothing
  CHECK_REFUSED(plan(parts, 10, 0, true), CORRUPT,
                "binding 1: the kernel writes argument 0 'x', which is never written");
  parts = good, parts.writes_constant = true;
  CHECK_REFUSED(plan(parts, 10, 0, true), CORRUPT, "binding 1: the kernel writes constant 0, which is never written");
  // A size that is a scalar: part of the key when contracts are applied, refused when it is not.
  parts = good, parts.is_scalar = true;
  CHECK_OK(plan(parts, 10, 10, true));
  CHECK_REFUSED(plan(parts, 10, 11, true), CORRUPT, "binding 0: the kernel needs 44 bytes, given 40 bytes");
  CHECK_REFUSED(plan(parts, 10, (uint64_t)-1, true), CORRUPT, "its constants: function 'kernel': size 0 is negative");
  CHECK_REFUSED(plan(parts, 10, UINT64_C(1) << 62, true), CORRUPT, "does not fit into 64 bits");
  CHECK_REFUSED(plan(parts, 10, 10, false), CORRUPT,
                "constant 0: sizes depend on it, and it may differ from call to call");
  // What is no contract of the export.
  pyd_program_t *program = make(good), *few = make_contract(2, 6), *short_ = make_contract(3, 5);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 4));
  CHECK_REFUSED(pyd_program_set_contracts(program, 0, few, (uint32_t[]){NONE, 0}, 2), CORRUPT,
                "@exe::@kernel: contract 0 of 1 is none for 3 constants and 2 bindings");
  CHECK_REFUSED(pyd_program_set_contracts(program, 0, short_, (uint32_t[]){NONE, 0}, 2), CORRUPT,
                "contract 0 of 1 is none");
  CHECK_REFUSED(pyd_program_set_contracts(program, 0, few, (uint32_t[]){NONE, 9}, 2), CORRUPT,
                "contract 9 of 1 is none");
  CHECK_REFUSED(pyd_program_set_contracts(program, 1, few, NULL, 0), INVALID_ARGUMENT, "executable 1 does not exist");
  CHECK_OK(
      pyd_program_set_contracts(program, 0, few, (uint32_t[]){7}, 1));  // of an export that the program does not name
  pyd_program_free(program), pyd_program_free(few), pyd_program_free(short_);
  return 0;
}
