// A program that uses everything once, for the tests that spoil it.
#ifndef PYD_TESTS_PROGRAM_SAMPLE_H_
#define PYD_TESTS_PROGRAM_SAMPLE_H_

#include "program/builder.h"
#include "program/plan.h"

static int32_t sample_kernel(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 0;
}
static const pyd_dispatch_fn_t kSampleFunctions[] = {sample_kernel, sample_kernel};
static const pyd_library_export_attrs_t kSampleAttrs[] = {{.constant_count = 1, .binding_count = 3}, {.binding_count = 1}};
static const char* const kSampleNames[] = {"mul", "touch"};
static const pyd_library_header_t kSampleHeader = {.version = 6, .name = "sample"};
static const pyd_executable_t kSampleExecutable = {
    .library = {.header = &kSampleHeader,
                .exports = {.count = 2, .ptrs = kSampleFunctions, .attrs = kSampleAttrs, .names = kSampleNames}}};

static inline pyd_span_t make_sample(void) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe"), m = add_export(&b, e, 0, "mul", 1, 3), t1 = add_export(&b, e, 1, "touch", 0, 1);
  uint32_t k = add_constant(&b, "constants/0.npy", 128, 64), q = add_query(&b, "hal.dispatch", "concurrency", 2);
  fn_t* condition = add_function(&b, "condition");
  add_scalar_result(condition, op(condition, PYD_OP_QUERY, 1, q, 0, 0));
  push(&b.conditions, 0);
  push(&b.conditions, NONE);
  b.executables.data[4] = 2;
  fn_t* f = add_function(&b, "main");
  add_tensor(&b, f, F32, "a", 2, (int64_t[]){-1, 4});
  uint32_t scalar = op(f, PYD_OP_SCALAR, 0, add_scalar(&b, f, "x"), 0, 0);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), four = constant(f, 4), one = constant(f, 1);
  uint32_t bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 16), 0), limit = constant(f, 1000);
  uint32_t small = op(f, PYD_OP_CMP, 64 | 3 << 8, n, limit, 0);
  add_check(&b, f, PYD_OP_CHECK, small, 0, "too large");
  add_check(&b, f, PYD_OP_CHECK_EQ, four, four, "{a} is not {b}");
  uint32_t grid_x = op(f, PYD_OP_CEILDIVS, 64, n, four, 0), variant = op(f, PYD_OP_VARIANT, 0, e, 0, 0);
  uint32_t export = op(f, PYD_OP_SELECT, 0, variant, constant(f, t1), constant(f, m));
  uint32_t f32 = op(f, PYD_OP_SITOFP, 32, op(f, PYD_OP_ADD, 64, scalar, n, 0), 64, 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 0, 1), u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 1, 2);
  uint32_t constants = add_buffer(f, PYD_BUFFER_CONSTANT, k, NONE, 0, 2);
  uint32_t r = add_result(f, F32, 2, (uint32_t[]){n, four}, bytes);
  const uint32_t grid[] = {grid_x, one, one};
  add_dispatch(f, 0, export, grid, 1, &f32, 3, (uint32_t[]){0, NONE, NONE, constants, NONE, NONE, t, NONE, bytes});
  add_fill(f, 1, u, NONE, NONE, f32, 4);
  add_dispatch(f, 1, export, grid, 1, (uint32_t[]){scalar | 1u << 31}, 3, (uint32_t[]){t, NONE, NONE, 0, NONE, NONE, r, NONE, NONE});
  add_copy(f, 2, u, NONE, r, NONE, bytes);
  add_scalar_result(f, op(f, PYD_OP_FMATH, 32, f32, 0, 0));
  return encode(&b);
}

// Decodes |bytes|, plans every function for small sizes and, when a plan comes of it and nothing in it is large, runs it
// over memory of exactly the sizes that it asks for. Returns whether it was accepted.
static inline bool try_program(pyd_span_t bytes, bool is_linked) {
  pyd_program_t* program = NULL;
  pyd_status_t status = pyd_program_decode(bytes, &program);
  if (!pyd_ok(status)) {
    CHECK(pyd_status_text(status)[0] && program == NULL);
    pyd_status_free(status);
    return false;
  }
  _Alignas(64) static const uint8_t constants[4096];
  for (uint32_t i = 0; i < pyd_program_constant_count(program) && i < 64; ++i) {
    uint64_t length = pyd_program_constant(program, i)->length;
    if (length <= sizeof(constants)) CHECK_OK(pyd_program_set_constant(program, i, (pyd_span_t){constants, length}));
  }
  for (uint32_t i = 0; is_linked && i < pyd_program_executable_count(program) && i < 64; ++i) {
    pyd_status_free(pyd_program_set_executable(program, i, &kSampleExecutable, 0, 4));
  }
  for (uint32_t i = 0; i < pyd_program_function_count(program) && i < 16; ++i) {
    const pyd_program_function_t* fn = pyd_program_function(program, i);
    int64_t* dims = calloc(fn->dims_count + 1, sizeof(*dims));
    uint64_t* scalars = calloc(fn->arg_count + 1, sizeof(*scalars));
    uint64_t* results = calloc(fn->result_count + 1, sizeof(*results));
    uint32_t at = 0;
    for (uint32_t a = 0; a < fn->arg_count; ++a) {
      scalars[a] = a + 3;
      for (uint32_t k = 0; k < fn->args[a].rank; ++k, ++at) dims[at] = fn->args[a].dims[k] < 0 ? 2 : fn->args[a].dims[k];
    }
    pyd_status_free(pyd_program_evaluate(program, i, scalars, results));
    pyd_plan_t* plan = NULL;
    pyd_call_t* call = NULL;
    status = pyd_plan_create(program, i, dims, scalars, &plan);
    bool runs = pyd_ok(status) && pyd_plan_arena_bytes(plan) < 1 << 20;
    pyd_status_free(status);
    if (plan) {
      char text[200];
      CHECK(pyd_plan_matches(plan, dims, scalars));
      pyd_plan_hash(program, i, dims, scalars);
      for (uint32_t c = 0; c < pyd_plan_command_count(plan); ++c) CHECK_OK(pyd_plan_describe(plan, c, text, sizeof(text)));
    }
    uint64_t total = 0;
    for (uint32_t a = 0; a < fn->arg_count; ++a) {
      uint64_t elements = 1;
      uint32_t first = 0;
      for (uint32_t k = 0; k < a; ++k) first += fn->args[k].rank;
      for (uint32_t k = 0; k < fn->args[a].rank; ++k) elements = elements > 1 << 20 ? elements : elements * (uint64_t)dims[first + k];
      total += elements > 1 << 20 ? 1 << 20 : elements * (((fn->args[a].dtype & 0xFFFFFF) + 7) / 8);
    }
    for (uint32_t k = 0; runs && k < fn->result_count; ++k) {
      runs = pyd_plan_result_bytes(plan, k) < 1 << 20;
      total += pyd_plan_result_bytes(plan, k);
    }
    for (uint32_t c = 0; runs && c < plan->step_count; ++c) runs = plan->steps[c].total < 100000;
    runs = runs && total < 1 << 20 && fn->arg_count < 64 && fn->result_count < 64 && plan->local_bytes == 0;
    if (runs) {
      void* memory[128];
      uint32_t count = 0;
      CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
      for (at = 0; at < fn->arg_count; ++at) {
        uint32_t buffer = plan->fn->args[at].buffer;
        bool is_tensor = fn->args[at].kind == 0 && buffer != NONE;
        memory[count] = calloc(1, (is_tensor ? plan->buffer_bytes[buffer] : 0) + !is_tensor);
        pyd_call_bind_arg(call, at, memory[count++]);
      }
      for (at = 0; at < fn->result_count; ++at) {
        memory[count] = calloc(1, pyd_plan_result_bytes(plan, at));
        pyd_call_bind_result(call, at, memory[count++]);
      }
      pyd_status_free(pyd_call_run(call));
      for (at = 0; at < fn->arg_count; ++at) ++scalars[at];
      pyd_call_set_scalars(call, scalars);
      pyd_status_free(pyd_call_run(call));
      for (at = 0; at < fn->result_count; ++at) pyd_call_scalar_result(call, at);
      for (at = 0; at < count; ++at) free(memory[at]);
    }
    pyd_call_free(call);
    pyd_plan_free(plan);
    free(dims), free(scalars), free(results);
  }
  pyd_program_free(program);
  return true;
}

#endif  // PYD_TESTS_PROGRAM_SAMPLE_H_
