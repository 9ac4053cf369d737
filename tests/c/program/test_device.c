// links: base platform sched memory program
// with: double.c
// tsan: 3
// Plans as data, and calls that a runner of the test's own runs from that data alone, from several threads.
#include <pthread.h>
#include <stdatomic.h>

#include "program/builder.h"
#include "pydispatch/program_device.h"

enum { THREADS = 4, RUNS = 200 };

// f(a, x): t = k(a; n, x); r = fill x; s = t; scalar x / y
static pyd_program_t* make(void) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe");
  add_export(&b, e, 3, "k", 2, 2);
  uint32_t k = add_constant(&b, "c.bin", 0, 64);
  fn_t* f = add_function(&b, "f");
  add_tensor(&b, f, F32, "a", 1, (int64_t[]){-1});
  uint32_t x = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "x"), 0, 0),
           y = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "y"), 0, 0);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0), one = constant(f, 1);
  uint32_t quotient = op(f, PYD_OP_DIVS, 64, x, y, 0), export = constant(f, 0), none = constant(f, 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 2),
           c = add_buffer(f, PYD_BUFFER_CONSTANT, k, NONE, 2, 2);
  uint32_t r = add_result(f, F32, 1, &n, bytes), s = add_result(f, F32, 1, &n, bytes);
  add_scalar_result(f, quotient);
  const uint32_t grid[] = {op(f, PYD_OP_CEILDIVS, 64, n, constant(f, 64), 0), one, one}, empty[] = {none, one, one};
  add_dispatch(f, 0, export, grid, 2, (uint32_t[]){n, x}, 2, (uint32_t[]){0, NONE, NONE, t, NONE, NONE});
  add_fill(f, 1, r, NONE, NONE, x, 4);
  add_copy(f, 2, t, NONE, s, NONE, bytes);
  add_dispatch(f, 2, export, empty, 2, (uint32_t[]){n, n}, 2, (uint32_t[]){c, NONE, NONE, t, NONE, NONE});
  return decode(&b);
}

typedef struct {
  atomic_int runs;
  bool fails;
} runner_t;

// A device: everything it knows of a call comes from the functions of the header.
static pyd_status_t run(void* self, pyd_call_t* call) {
  runner_t* runner = self;
  atomic_fetch_add(&runner->runs, 1);
  if (runner->fails) return pyd_status_make(PYD_CODE_UNAVAILABLE, "the device is gone");
  const pyd_plan_t* plan = pyd_call_plan(call);
  const uint32_t* constants = pyd_call_constants(call);
  uint8_t* memory[8];
  uint32_t buffers = pyd_plan_buffer_count(plan);
  CHECK(buffers == 5);
  for (uint32_t i = 0; i < buffers; ++i) {
    pyd_buffer_info_t info;
    pyd_plan_buffer(plan, i, &info);
    bool is_own = info.kind == PYD_BUFFER_TRANSIENT || info.kind == PYD_BUFFER_CONSTANT;
    memory[i] = is_own ? calloc(1, info.bytes + 1) : pyd_call_buffer(call, i);
  }
  for (uint32_t i = 0; i < pyd_plan_command_count(plan); ++i) {
    pyd_command_info_t command;
    pyd_command_slot_t slot[2] = {{0}};
    pyd_plan_command(plan, i, &command);
    if (command.is_empty) continue;
    for (uint32_t k = 0; k < command.slot_count; ++k) pyd_plan_command_slot(plan, i, k, &slot[k]);
    uint8_t *first = memory[slot[0].buffer] + slot[0].offset, *second = memory[slot[1].buffer] + slot[1].offset;
    if (command.kind == PYD_COMMAND_FILL) {
      uint64_t pattern = pyd_call_pattern(call, i);
      CHECK(command.pattern_bytes == 4 && slot[0].length % 4 == 0);
      for (uint64_t at = 0; at < slot[0].length; at += 4) memcpy(first + at, &pattern, 4);
    } else if (command.kind == PYD_COMMAND_COPY) {
      CHECK(slot[0].length == slot[1].length);
      memcpy(second, first, slot[0].length);
    } else {
      CHECK(command.executable == 0 && command.export == 0 && command.ordinal == 3 && command.constant_count == 2);
      CHECK(command.name.length == 1 && command.name.data[0] == 'k' && command.grid[1] == 1 && command.grid[2] == 1);
      const uint32_t* own = constants + command.first_constant;
      CHECK(command.grid[0] == (own[0] + 63) / 64 && slot[0].length == own[0] * 4u);
      const float* in = (const float*)(const void*)first;
      float* out = (float*)(void*)second;
      for (uint32_t k = 0; k < own[0]; ++k) out[k] = in[k] + (float)own[1];
    }
  }
  for (uint32_t i = 0; i < buffers; ++i) {
    pyd_buffer_info_t info;
    pyd_plan_buffer(plan, i, &info);
    if (info.kind == PYD_BUFFER_TRANSIENT || info.kind == PYD_BUFFER_CONSTANT) free(memory[i]);
  }
  return PYD_STATUS_OK;
}

static void calls(const pyd_plan_t* plan, int64_t n, uint32_t runs) {
  pyd_call_t* call = NULL;
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  float *a = malloc((size_t)n * 4 + 1), *r = malloc((size_t)n * 4 + 1), *s = malloc((size_t)n * 4 + 1);
  for (int64_t i = 0; i < n; ++i) a[i] = (float)i;
  pyd_call_bind_arg(call, 0, a);
  pyd_call_bind_result(call, 0, r);
  pyd_call_bind_result(call, 1, s);
  for (uint32_t x = 1; x <= runs; ++x) {
    pyd_call_set_scalars(call, (uint64_t[]){x, 3});
    CHECK_OK(pyd_call_run(call));
    CHECK(pyd_call_scalar_result(call, 2) == x / 3);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits;
      memcpy(&bits, r + i, 4);
      CHECK(bits == x && s[i] == (float)i + (float)x);
    }
  }
  pyd_call_set_scalars(call, (uint64_t[]){1, 0});
  CHECK_REFUSED(pyd_call_run(call), INVALID_ARGUMENT, "divi");
  pyd_call_free(call);
  free(a), free(r), free(s);
}

static void* in_thread(void* plan) {
  calls(plan, 100, RUNS);
  return NULL;
}

static void test_linking(void) {
  pyd_program_t* program = make();
  CHECK(pyd_program_export_count(program) == 1);
  pyd_export_info_t info;
  pyd_program_export(program, 0, &info);
  CHECK(info.executable == 0 && info.ordinal == 3 && info.constant_count == 2 && info.binding_count == 2);
  CHECK(info.name.length == 1 && info.name.data[0] == 'k');
  CHECK_REFUSED(pyd_program_set_device_executable(program, 1, 0, 16), INVALID_ARGUMENT,
                "executable 1 does not exist, the program has 1");
  const uint32_t wrong[] = {0, 3, 48, 128, 1u << 31, UINT32_MAX};
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK_REFUSED(pyd_program_set_device_executable(program, 0, 0, wrong[i]), UNSUPPORTED, "powers of two up to 64");
  }
  CHECK(pyd_program_constant_bytes(program, 0).size == 0);
  CHECK(pyd_program_constant_bytes(program, 1).data == NULL && pyd_program_constant_bytes(program, NONE).size == 0);
  pyd_program_free(program);
}

static void test_plan_and_calls(void) {
  static const _Alignas(64) uint8_t kConstant[64] = {7};
  pyd_program_t* program = make();
  CHECK_OK(pyd_program_set_device_executable(program, 0, 5, 64));
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){kConstant, sizeof(kConstant)}));
  CHECK(pyd_program_constant_bytes(program, 0).data == kConstant);
  pyd_plan_t* plan = NULL;
  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){100}, (uint64_t[]){5, 2}, &plan));
  CHECK(pyd_plan_function(plan) == 0 && pyd_plan_dims(plan)[0] == 100 &&
        pyd_plan_function_info(plan)->result_count == 3);
  uint32_t count = 0;
  const uint64_t* scalars = pyd_plan_scalars(plan, &count);
  CHECK(count == 2 && scalars[0] == 5 && scalars[1] == 2);
  CHECK(pyd_plan_has_deferred(plan) && pyd_plan_constant_count(plan) == 4 && pyd_plan_command_count(plan) == 4);
  CHECK(pyd_plan_constants(plan)[0] == 100 && pyd_plan_constants(plan)[1] == 5);

  uint32_t constants[4];
  uint64_t patterns[4], results[3];
  CHECK_OK(pyd_plan_compute(plan, (uint64_t[]){9, 4}, constants, patterns, results));
  CHECK(constants[0] == 100 && constants[1] == 9 && constants[2] == 100 && constants[3] == 100);
  CHECK(patterns[0] == 0 && patterns[1] == 9 && patterns[2] == 0 && results[0] == 0 && results[2] == 2);
  CHECK_REFUSED(pyd_plan_compute(plan, (uint64_t[]){9, 0}, constants, patterns, results), INVALID_ARGUMENT, "divi");

  // Without a runner there is nobody to run it, and the process lives on.
  pyd_call_t* call = NULL;
  float a[100] = {0}, r[100], s[100];
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  pyd_call_bind_arg(call, 0, a);
  pyd_call_bind_result(call, 0, r);
  pyd_call_bind_result(call, 1, s);
  CHECK_REFUSED(pyd_call_run(call), KERNEL, "k");
  pyd_call_free(call);

  runner_t runner = {0};
  pyd_program_set_runner(program, (pyd_runner_t){run, &runner});
  calls(plan, 100, 5);
  CHECK(runner.runs == 5);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, in_thread, plan) == 0);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  CHECK(runner.runs == 5 + THREADS * RUNS);
  pyd_plan_free(plan);

  const int64_t sizes[] = {0, 1, 64, 65, 5000};
  for (uint32_t i = 0; i < 5; ++i) {
    CHECK_OK(pyd_plan_create(program, 0, &sizes[i], (uint64_t[]){1, 1}, &plan));
    calls(plan, sizes[i], 2);
    pyd_plan_free(plan);
  }

  CHECK_OK(pyd_plan_create(program, 0, (int64_t[]){100}, (uint64_t[]){1, 1}, &plan));
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  pyd_call_bind_arg(call, 0, a);
  pyd_call_bind_result(call, 0, r);
  CHECK_REFUSED(pyd_call_run(call), INVALID_ARGUMENT, "has no memory");
  pyd_call_bind_result(call, 1, s);
  runner.fails = true;
  CHECK_REFUSED(pyd_call_run(call), UNAVAILABLE, "the device is gone");
  runner.fails = false;
  CHECK_OK(pyd_call_run(call));
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
}

int main(void) {
  test_linking();
  test_plan_and_calls();
  return 0;
}
