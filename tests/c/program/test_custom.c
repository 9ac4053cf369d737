// links: base platform sched memory program process elf executable imports
// tsan: 3
// Host commands: what they are given, how they fail, and records that are wrong.
#include <pthread.h>

#include "base/scope.h"
#include "program/builder.h"
#include "pydispatch/process.h"
#include "pydispatch/submit.h"

enum { ACCESS_READ = PYD_HOST_READ, ACCESS_WRITE = PYD_HOST_WRITE };

// The words of the operands of "scale": x (read), n: i64, y (written), of [?] i8.
static const uint32_t kOperands[3][4] = {
    {0, PYD_HOST_READ, I8, 1}, {1, PYD_HOST_READ, I64, 0}, {0, PYD_HOST_WRITE, I8, 1}};

typedef struct spoil_s {
  uint32_t at, value;                             // word of the record, NONE: none
  uint32_t operand, operand_word, operand_value;  // of the declaration; operand NONE: none
  uint32_t size_reg;                              // of x; NONE: its own
  bool is_tied;                                   // y may take over the memory of x
} spoil_t;

static const spoil_t kSound = {NONE, 0, NONE, 0, 0, NONE, false};

// f(x, n) = y: host command 0 over both. |b->extra| begins at word 32 of the file.
static pyd_span_t build(spoil_t spoil) {
  static builder_t b;
  fn_t* f = add_function(&b, "main");
  const int64_t dims[] = {-1};
  add_tensor(&b, f, I8, "x", 1, dims);
  add_scalar(&b, f, "n");
  uint32_t size = op(f, PYD_OP_DIM, 0, 0, 0, 0), n = op(f, PYD_OP_SCALAR, 0, 1, 0, 0);
  uint32_t two = constant(f, 2), twice = op(f, PYD_OP_MUL, 64, size, two, 0);
  uint32_t y = add_result(f, I8, 1, &size, size);
  f->results.data[7] = spoil.is_tied;  // 1 + argument 0
  uint32_t x_size = spoil.size_reg == 2 ? twice : size;
  uint32_t at = push_all(&f->pool, 7, 0, 2, x_size, size, 2, n, n | PYD_CONSTANT_HIGH);
  push_all(&f->pool, 7, 2, 0, NONE, NONE, y, NONE, NONE);
  if (spoil.at != NONE) f->pool.data[at + spoil.at] = spoil.value;
  add_command(f, PYD_OP_CUSTOM, 0, at);
  uint32_t name[2];
  add_string(&b, "scale", name);
  uint32_t sizes = 32 + push_all(&b.extra, 2, NONE, NONE);
  uint32_t second = 32 + push_all(&b.extra, 2, NONE, NONE), operands = 32 + b.extra.count;
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t word = push_all(&b.extra, 6, kOperands[i][0], kOperands[i][1], kOperands[i][2], kOperands[i][3],
                             i ? second : sizes, 0);
    if (spoil.operand == i) b.extra.data[word + spoil.operand_word] = spoil.operand_value;
  }
  b.extra_tables[27 - 15] = 32 + push_all(&b.extra, 6, name[0], name[1], operands, 3, 0, 0);
  b.extra_tables[28 - 15] = 1;
  return encode(&b);
}

static pyd_program_t* load(spoil_t spoil) {
  pyd_span_t bytes = build(spoil);
  pyd_program_t* program = NULL;
  CHECK_OK(pyd_program_decode(bytes, &program));
  free((void*)bytes.data);
  return program;
}

static void refuse(spoil_t spoil, const char* text) {
  pyd_span_t bytes = build(spoil);
  pyd_program_t* program = NULL;
  check_refused(pyd_program_decode(bytes, &program), PYD_CODE_CORRUPT, text, __FILE__, __LINE__);
  free((void*)bytes.data);
}

static int32_t add_range(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const pyd_host_command_t* command = self;
  const pyd_host_operand_t *x = pyd_host_operand(command, 0), *n = pyd_host_operand(command, 1),
                           *y = pyd_host_operand(command, 2);
  (void)worker;
  for (uint64_t i = begin; i < end; ++i) {
    ((int8_t*)y->data)[i] = (int8_t)(((const int8_t*)x->data)[i] + (int64_t)n->word);
    if (((const int8_t*)x->data)[i] != -100) continue;
    *out_failed = i;
    command->fail(command, "found it");
    return 5;
  }
  return 0;
}

// How often each exception was released.
static int g_released[2];
static void release_raised(void* object) { ++*(int*)object; }

// Reports two failures, of which the first counts, with its exception.
static void fail_twice(const pyd_host_command_t* command) {
  memset(g_released, 0, sizeof(g_released));
  command->fail(command, "the first text");
  pyd_host_command_raised(command, &g_released[0], release_raised);
  command->fail(command, "the second text");
  pyd_host_command_raised(command, &g_released[1], release_raised);
  CHECK(g_released[0] == 0 && g_released[1] == 1);
}

static int32_t scale(void* params, void* context, void* reserved) {
  const pyd_host_command_t* command = params;
  CHECK(command->struct_size == sizeof(*command) && command->device == PYD_HOST_CPU && !reserved && !command->stream);
  CHECK(strcmp(command->name, "scale") == 0 && command->operand_count == 3);
  const pyd_host_operand_t *x = pyd_host_operand(command, 0), *n = pyd_host_operand(command, 1),
                           *y = pyd_host_operand(command, 2);
  CHECK(x->kind == PYD_HOST_TENSOR && x->access == ACCESS_READ && x->dtype == I8 && x->rank == 1 &&
        x->bytes == (uint64_t)x->sizes[0]);
  CHECK(n->kind == PYD_HOST_SCALAR && y->access == ACCESS_WRITE && y->sizes[0] == x->sizes[0]);
  if (context) __atomic_fetch_add((int*)context, 1, __ATOMIC_RELAXED);
  if (n->word == 77) return 3;
  if (n->word == 78) return pyd_host_fail(command, "78 is too much");
  if (n->word == 79 || n->word == 80) {
    fail_twice(command);
    return n->word == 79 ? 4 : 0;
  }
  return command->parallel_for(command, x->bytes, add_range, (void*)command);
}

// Calls its own program.
static const pyd_plan_t* own_plan;
static pyd_sched_t* own_sched;
static int32_t nested(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  pyd_call_t* call;
  char in[4] = "", out[4];
  CHECK_OK(pyd_call_create(own_plan, own_sched, NULL, &call));
  pyd_call_bind_arg(call, 0, in);
  pyd_call_bind_result(call, 0, out);
  pyd_status_t status = pyd_call_run(call);
  CHECK(pyd_status_code(status) == PYD_CODE_INVALID_ARGUMENT);
  int code = pyd_host_fail(params, pyd_status_text(status));
  pyd_status_free(status);
  pyd_call_free(call);
  return code;
}

typedef struct worker_s {
  const pyd_plan_t* plan;
  pyd_sched_t* sched;
} worker_t;

// One call, many runs: with other scalars, failing and not.
static void* run_many(void* self) {
  const worker_t* w = self;
  char in[512], out[512];
  pyd_call_t* call;
  CHECK_OK(pyd_call_create(w->plan, w->sched, NULL, &call));
  pyd_call_bind_arg(call, 0, in);
  pyd_call_bind_result(call, 0, out);
  for (uint64_t i = 0; i < 60; ++i) {
    for (uint32_t k = 0; k < sizeof(in); ++k) in[k] = (char)(k % 50);
    if (i % 5 == 4) in[i] = -100;
    pyd_call_set_scalars(call, (const uint64_t[]){i});
    pyd_status_t status = pyd_call_run(call);
    if (i % 5 == 4) {
      check_refused(status, PYD_CODE_COMMAND, "function 'main', command 0: host command 'scale': found it", __FILE__,
                    __LINE__);
      continue;
    }
    CHECK_OK(status);
    for (uint32_t k = 0; k < sizeof(in); ++k) CHECK(out[k] == (char)(in[k] + (char)i));
  }
  pyd_call_free(call);
  return NULL;
}

static pyd_status_t run_with(pyd_call_t* call, uint64_t n) {
  pyd_call_set_scalars(call, &n);
  return pyd_call_run(call);
}

// A failure is that of its run: it reports nothing that an earlier run has left.
static void check_failures(pyd_call_t* call) {
  pyd_status_t status = run_with(call, 79);
  CHECK(pyd_status_object(status) == &g_released[0] && g_released[0] == 0);
  check_refused(status, PYD_CODE_COMMAND, "host command 'scale': the first text", __FILE__, __LINE__);
  CHECK(g_released[0] == 1);
  CHECK_OK(run_with(call, 80));
  CHECK(g_released[0] == 0);
  CHECK_REFUSED(run_with(call, 77), COMMAND, "host command 'scale' returned 3");
  CHECK(g_released[0] == 1);
  CHECK_OK(run_with(call, 80));
  CHECK_REFUSED(run_with(call, 78), COMMAND, "host command 'scale': 78 is too much");
  CHECK_OK(run_with(call, 80));
}

static void check_runs(void) {
  pyd_sched_t* sched;
  const pyd_sched_options_t options = {
      .workers = 3, .spin_us = -1, .scopes = {pyd_process_scope_get, pyd_process_scope_set}};
  CHECK_OK(pyd_sched_create(&options, &sched));
  pyd_program_t* program = load(kSound);
  pyd_plan_t* plan = NULL;
  const int64_t dims[] = {512};
  uint64_t n = 1;
  int calls = 0;
  CHECK_REFUSED(pyd_plan_create(program, 0, dims, &n, &plan), INVALID_ARGUMENT, "host command 'scale' is not linked");
  CHECK_REFUSED(pyd_program_set_command(program, 1, scale, NULL), INVALID_ARGUMENT, "host command 1");
  CHECK_OK(pyd_program_set_command(program, 0, scale, &calls));
  CHECK_OK(pyd_plan_create(program, 0, dims, &n, &plan));
  char text[128];
  CHECK_OK(pyd_plan_describe(plan, 0, text, sizeof(text)));
  CHECK(strcmp(text, "region 0: host command 'scale' with 3 operands") == 0);
  worker_t worker = {plan, sched};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, run_many, &worker) == 0);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  CHECK(calls == 180);
  worker.sched = NULL;  // the caller alone
  run_many(&worker);
  pyd_call_t* call;
  char in[512] = "", out[512];
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  pyd_call_bind_arg(call, 0, in);
  pyd_call_bind_result(call, 0, out);
  pyd_call_set_scalars(call, (const uint64_t[]){77});
  CHECK_REFUSED(pyd_call_run(call), COMMAND, "host command 'scale' returned 3");
  pyd_call_set_scalars(call, (const uint64_t[]){78});
  pyd_status_t status = pyd_call_run(call);
  CHECK(pyd_status_values(status)[4] == 1 && strcmp(pyd_status_name(status, PYD_STATUS_SYMBOL, 0), "scale") == 0);
  check_refused(status, PYD_CODE_COMMAND, "78 is too much", __FILE__, __LINE__);
  check_failures(call);
  pyd_call_free(call);
  CHECK(g_released[0] == 1 && g_released[1] == 1);  // also without a report
  // A batch would run the command on threads of the pool.
  CHECK(pyd_function_may_block(program, 0));
  pyd_batch_item_t item = {.plan = plan, .args = (void* const[]){in, NULL}, .scalars = &n, .results = (void*[]){out}};
  pyd_task_t* task;
  CHECK_REFUSED(pyd_batch_submit(sched, NULL, &item, 1, NULL, NULL, &task), INVALID_ARGUMENT,
                "item 0: 'main' has host commands, which may sleep; submit its calls one by one");
  CHECK(!task);
  pyd_plan_free(plan);
  CHECK_OK(pyd_program_set_command(program, 0, nested, NULL));
  CHECK_OK(pyd_plan_create(program, 0, (const int64_t[]){4}, &n, &plan));
  own_plan = plan, own_sched = sched;
  CHECK_OK(pyd_call_create(plan, sched, NULL, &call));
  pyd_call_bind_arg(call, 0, in);
  pyd_call_bind_result(call, 0, out);
  CHECK_REFUSED(pyd_call_run(call), COMMAND, "was called by a host command of its own program");
  pyd_call_free(call);
  pyd_plan_free(plan);
  pyd_program_free(program);
  pyd_sched_destroy(sched);
}

static void check_records(void) {
  const struct {
    uint32_t at, value;
    const char* text;
  } words[] = {
      {0, 1, "host command 1, the program has 1"},
      {1, 1, "takes 2 sizes, 2 constants and 2 tensors"},
      {1, 1u << 31, "takes 2 sizes"},
      {2, 9, "register 9, the function has 4"},
      {3, NONE, "register 4294967295"},
      {4, 0, "takes 2 sizes, 2 constants"},
      {4, NONE, "takes 2 sizes"},
      {5, 12, "register 12"},
      {6, NONE, "register 2147483647"},
      {7, 3, "takes 2 sizes, 2 constants and 2 tensors"},
      {8, 7, "buffer 7"},
      {9, 44, "register 44"},
      {10, 44, "register 44"},
      {11, 0, "buffer 0 is an argument and cannot be written"},
  };
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); ++i) {
    spoil_t spoil = kSound;
    spoil.at = words[i].at, spoil.value = words[i].value;
    refuse(spoil, words[i].text);
  }
  const struct {
    uint32_t operand, word, value;
    const char* text;
  } operands[] = {
      {0, 0, 2, "operand 0: kind 2"},
      {0, 1, 0, "operand 0: a tensor with access 0"},
      {2, 1, 4, "a tensor with access 4"},
      {1, 1, 2, "operand 1: a scalar with access 2"},
      {0, 2, 0, "an element type of 0 bits"},
      {0, 3, 33, "rank 33"},
      {0, 4, 1u << 30, "sizes"},
      {1, 3, 1, "operand 1: kind 1 with rank 1"},
      {1, 0, 0, "lie outside the pool"},
  };
  for (size_t i = 0; i < sizeof(operands) / sizeof(*operands); ++i) {
    spoil_t spoil = kSound;
    spoil.operand = operands[i].operand, spoil.operand_word = operands[i].word, spoil.operand_value = operands[i].value;
    refuse(spoil, operands[i].text);
  }
  // The command writes y while it reads x.
  spoil_t spoil = kSound;
  spoil.is_tied = true;
  refuse(spoil, "result 0 cannot take over the memory of argument 0: region 0 writes the result, region 0 reads the");
  // A tensor that is said to be larger than its buffer.
  spoil = kSound;
  spoil.size_reg = 2;
  pyd_program_t* program = load(spoil);
  pyd_plan_t* plan;
  uint64_t n = 0;
  CHECK_OK(pyd_program_set_command(program, 0, scale, NULL));
  CHECK_REFUSED(pyd_plan_create(program, 0, (const int64_t[]){4}, &n, &plan), INVALID_ARGUMENT,
                "host command 'scale', operand 0: 4 bytes at offset 0 are no such tensor");
  pyd_program_free(program);
}

int main(void) {
  check_runs();
  check_records();
  return 0;
}
