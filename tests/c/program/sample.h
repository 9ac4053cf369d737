// A program that uses everything once, for the tests that spoil it.
#ifndef PYD_TESTS_PROGRAM_SAMPLE_H_
#define PYD_TESTS_PROGRAM_SAMPLE_H_

#include "program/builder.h"
#include "program/procedure_builder.h"
#include "program/plan/plan.h"

static int32_t sample_kernel(const pyd_environment_t* e, const pyd_dispatch_state_t* d,
                             const pyd_workgroup_state_t* w) {
  (void)e, (void)d, (void)w;
  return 0;
}
static const pyd_dispatch_fn_t kSampleFunctions[] = {sample_kernel, sample_kernel};
static const pyd_library_export_attrs_t kSampleAttrs[] = {{.constant_count = 1, .binding_count = 3},
                                                          {.binding_count = 1}};
static const char* const kSampleNames[] = {"mul", "touch"};
static const pyd_library_header_t kSampleHeader = {.version = 6, .name = "sample"};
static const pyd_executable_t kSampleExecutable = {
    .library = {.header = &kSampleHeader,
                .exports = {.count = 2, .ptrs = kSampleFunctions, .attrs = kSampleAttrs, .names = kSampleNames}}};

// Every step once, and the tables that only procedures use.
static inline void add_sample_procedures(builder_t* b) {
  static procs_t s;
  fn_t* f = add_function(b, "count");  // i -> (i + 1, i < 3)
  add_scalar(b, f, "i");
  uint32_t i = op(f, PYD_OP_SCALAR, 0, 0, 0, 0);
  add_scalar_result(f, op(f, PYD_OP_ADD, 64, i, constant(f, 1), 0));
  add_scalar_result(f, op(f, PYD_OP_CMP, 64 | 2 << 8, i, constant(f, 3), 0));
  f = add_function(b, "ones");  // (x, n) -> x with n ones, in the memory of x when it may
  add_tensor(b, f, F32, "x", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  uint32_t out = add_result(f, F32, 1, &n, bytes);
  f->results.data[7] = 1;
  add_copy(f, 0, 0, NONE, out, NONE, bytes);
  add_fill(f, 1, out, NONE, NONE, constant(f, 0x3F800000), 4);
  uint32_t count = b->function_count - 2, ones = b->function_count - 1;
  uint32_t parameter = add_constant(b, "", 0, 16);
  b->constants.data[8 * parameter + 6] = 0;
  uint32_t text[4];
  add_string(b, "model", text), add_string(b, "w", text + 2);
  push_all(&s.sizes, 2, 4, 0);
  push_all(&s.parameters, 8, text[0], text[1], text[2], text[3], F32, 1, 0, 0);
  uint32_t state = add_global(b, &s, "state", 0, F32, 1, (int64_t[]){-1}, NONE, 0, true);
  uint32_t fixed = add_global(b, &s, "fixed", 0, F32, 1, (int64_t[]){4}, parameter, 0, false);
  uint32_t number = add_global(b, &s, "number", 1, I64, 0, NULL, NONE, 7, true);
  uint32_t check = add_check_record(b, &s, 4, "m.mlir:1:2");
  proc_t* p = add_procedure(b, &s, "init");
  uint32_t c = add_slot(p, 0, F32, 1);
  step(p, PYD_STEP_CONSTANT, c, parameter, push_all(&p->pool, 2, 4, 0), 0);
  step(p, PYD_STEP_STORE, state, c | PYD_LAST_USE, 0, 0);
  step(p, PYD_STEP_RETURN, 0, 0, 0, 0);
  push(&s.initializers, 0);
  p = add_procedure(b, &s, "loop");
  uint32_t x = add_port(b, p, 0, F32, 1, (int64_t[]){-1}), e = add_slot(p, 1, F32, 0), more = add_slot(p, 1, I64, 0);
  uint32_t k = add_slot(p, 1, I64, 0), y = add_slot(p, 0, F32, 1), v = add_slot(p, 0, F32, 2);
  step(p, PYD_STEP_SCALAR, k, 0, 0, 0);
  step(p, PYD_STEP_LOAD, y, state, 0, 0);
  uint32_t top = step(p, PYD_STEP_RUN, count, push_all(&p->pool, 3, k, k, more), 0, 0);
  step(p, PYD_STEP_RUN, ones, push_all(&p->pool, 2, x | PYD_LAST_USE, x), 0, 0);
  step(p, PYD_STEP_MOVE, push_all(&p->pool, 5, 2, x, y, y, x), 0, 0, 0);
  step(p, PYD_STEP_BRANCH, more, top, top + 4, 0);
  step(p, PYD_STEP_DIM, k, x, 0, 0);
  step(p, PYD_STEP_SCALAR, more, 1, 0, 0);
  step(p, PYD_STEP_VIEW, v, x, push_all(&p->pool, 3, NONE, k, more), 0);
  step(p, PYD_STEP_READ, e, y, push_all(&p->pool, 2, 1, more), push_all(&p->pool, 2, text[0], text[1]));
  step(p, PYD_STEP_OBSERVE, check, push_all(&p->pool, 3, 2, x, v), 0, 0);
  step(p, PYD_STEP_STORE, state, y, 0, 0);
  step(p, PYD_STEP_STORE, number, k, 0, 0);
  step(p, PYD_STEP_LOAD, y, fixed, 0, 0);
  step(p, PYD_STEP_DROP, e, 0, 0, 0);
  uint32_t end = step(p, PYD_STEP_JUMP, p->steps.count / 5 + 1, 0, 0, 0) + 1;
  (void)end;
  add_output(p, 0, F32, 1);
  add_output(p, 0, F32, 2);
  add_output(p, 1, I64, 0);
  add_output(p, 0, F32, 1);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 4, x, v | PYD_LAST_USE, more, y), 0, 0, 0);
  finish_procs(b, &s);
}

static inline pyd_span_t make_sample(void) {
  static builder_t b;
  uint32_t e = add_executable(&b, "exe"), m = add_export(&b, e, 0, "mul", 1, 3),
           t1 = add_export(&b, e, 1, "touch", 0, 1);
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
  uint32_t grid_x = op(f, PYD_OP_CEILDIVS, 64, n, one, 0), variant = op(f, PYD_OP_VARIANT, 0, e, 0, 0);
  uint32_t export = op(f, PYD_OP_SELECT, 0, variant, constant(f, t1), constant(f, m));
  uint32_t f32 = op(f, PYD_OP_SITOFP, 32, op(f, PYD_OP_ADD, 64, scalar, n, 0), 64, 0);
  uint32_t wide = op(f, PYD_OP_MUL, 64, n, constant(f, 64), 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, wide, 0, 1),
           u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, bytes, 2, 3);
  uint32_t constants = add_buffer(f, PYD_BUFFER_CONSTANT, k, NONE, 0, 1);
  uint32_t r = add_result(f, F32, 2, (uint32_t[]){n, four}, bytes);
  const uint32_t grid[] = {grid_x, one, one};
  add_dispatch(f, 0, export, grid, 1, &f32, 3, (uint32_t[]){0, NONE, NONE, constants, NONE, NONE, t, NONE, NONE});
  f->insns.data[f->insns.count - 2] = 1;  // a chain of two dispatches, and 64 bytes of their transient in each tile
  f->buffers.data[6 * t + 5] = 64;
  add_dispatch(f, 1, export, grid, 1, (uint32_t[]){scalar | 1u << 31}, 3,
               (uint32_t[]){t, NONE, NONE, 0, NONE, NONE, r, NONE, NONE});
  f->insns.data[f->insns.count - 5] |= 1 << 16;
  f->insns.data[f->insns.count - 2] = 1;
  add_fill(f, 2, u, NONE, NONE, f32, 4);
  add_copy(f, 3, u, NONE, r, NONE, bytes);
  add_scalar_result(f, op(f, PYD_OP_FMATH, 32, f32, 0, 0));
  add_sample_procedures(&b);
  return encode(&b);
}

// One pool for all tries; small_pool.h bounds it.
static inline pyd_pool_t* sample_pool(void) {
  static pyd_pool_t* pool;
  if (!pool) CHECK_OK(pyd_pool_create(1 << 20, &pool));
  return pool;
}

static inline int32_t count_down(void* self) { return --*(int*)self < 0; }

// Runs every procedure on small inputs, for a bounded number of jumps. Without executables: what is left are fills and
// copies, whose sizes |pool| bounds.
static inline void try_procedures(pyd_program_t* program, pyd_pool_t* pool) {
  pyd_state_t* state = NULL;
  pyd_status_t status = pyd_state_create(program, NULL, pool, &state);
  pyd_status_free(status);
  if (!state) return;
  _Alignas(64) static const uint8_t memory[4096];
  for (uint32_t i = 0; i < pyd_program_procedure_count(program) && i < 16; ++i) {
    const pyd_program_function_t* info = pyd_program_procedure(program, i);
    pyd_input_t* inputs = calloc((size_t)info->arg_count + 1, sizeof(*inputs));
    int64_t* dims = calloc((size_t)info->dims_count + 1, sizeof(*dims));
    uint32_t at = 0;
    bool fits = inputs && dims;
    for (uint32_t a = 0; a < info->arg_count && fits; ++a) {
      uint64_t bytes = ((info->args[a].dtype & 0xFFFFFF) + 7) / 8;
      inputs[a] = (pyd_input_t){memory, dims + at, a + 1};
      for (uint32_t k = 0; k < info->args[a].rank; ++k, ++at) {
        dims[at] = info->args[a].dims[k] < 0 ? 2 : info->args[a].dims[k];
        fits = fits && dims[at] <= 4096 && (bytes *= (uint64_t)dims[at]) <= sizeof(memory);
      }
    }
    for (uint32_t n = 0; n < 2 && fits; ++n) {
      int left = 20;
      const pyd_interrupt_t interrupt = {count_down, &left};
      pyd_invocation_t* invocation = NULL;
      pyd_value_t value;
      status = pyd_procedure_call(state, i, inputs, &interrupt, &invocation);
      CHECK(pyd_ok(status) == (invocation != NULL));
      pyd_status_free(status);
      if (!invocation) continue;
      uint8_t sum = 0;
      for (uint32_t r = 0; pyd_invocation_result(invocation, r, &value); ++r) {
        for (uint64_t byte = 0; value.kind == 0 && byte < value.bytes; ++byte)
          sum ^= ((const uint8_t*)value.data)[byte];
        pyd_pool_release(pool, pyd_invocation_take(invocation, r));
      }
      for (uint32_t o = 0; o < pyd_invocation_observation_count(invocation); ++o) {
        for (uint32_t k = 0; pyd_invocation_observed(invocation, o, k, &value); ++k) {
          for (uint64_t byte = 0; value.kind == 0 && byte < value.bytes; ++byte)
            sum ^= ((const uint8_t*)value.data)[byte];
        }
      }
      *(volatile uint8_t*)&left = sum;
      pyd_invocation_free(invocation);
    }
    free(inputs), free(dims);
  }
  pyd_state_free(state);
}

// Decodes |bytes|, plans every function for small sizes and, when a plan comes of it and nothing in it is large, runs
// it over memory of exactly the sizes that it asks for. Returns whether it was accepted.
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
  pyd_program_set_chains(program, (pyd_chain_options_t){300, 1});  // of the sample two tiles fit, one at a time
  if (!is_linked) try_procedures(program, sample_pool());
  for (uint32_t i = 0; i < pyd_program_function_count(program) && i < 16; ++i) {
    const pyd_program_function_t* fn = pyd_program_function(program, i);
    int64_t* dims = calloc(fn->dims_count + 1, sizeof(*dims));
    uint64_t* scalars = calloc(fn->arg_count + 1, sizeof(*scalars));
    uint64_t* results = calloc(fn->result_count + 1, sizeof(*results));
    uint32_t at = 0;
    for (uint32_t a = 0; a < fn->arg_count; ++a) {
      scalars[a] = a + 3;
      for (uint32_t k = 0; k < fn->args[a].rank; ++k, ++at)
        dims[at] = fn->args[a].dims[k] < 0 ? 2 : fn->args[a].dims[k];
    }
    pyd_status_free(pyd_program_evaluate(program, i, scalars, results));
    pyd_plan_t* plan = NULL;
    pyd_call_t* call = NULL;
    status = pyd_plan_create(program, i, dims, scalars, &plan);
    bool runs = pyd_ok(status) && pyd_plan_arena_bytes(plan) < 1 << 20 && plan->tile_area < 1 << 20;
    pyd_status_free(status);
    if (plan) {
      char text[200];
      CHECK(pyd_plan_matches(plan, dims, scalars));
      pyd_plan_hash(program, i, dims, scalars);
      for (uint32_t c = 0; c < pyd_plan_command_count(plan); ++c)
        CHECK_OK(pyd_plan_describe(plan, c, text, sizeof(text)));
    }
    uint64_t total = 0;
    for (uint32_t a = 0; a < fn->arg_count; ++a) {
      uint64_t elements = 1;
      uint32_t first = 0;
      for (uint32_t k = 0; k < a; ++k) first += fn->args[k].rank;
      for (uint32_t k = 0; k < fn->args[a].rank; ++k)
        elements = elements > 1 << 20 ? elements : elements * (uint64_t)dims[first + k];
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
