// links: base platform sched memory program
// with: double.c
// tsan: 3
// Submitted calls, procedures and batches: results, order, failures, and threads that submit, cancel and wait at once.
// The same while a trace is on, whose events must not look at calls that have ended.
#include <pthread.h>
#include <stdatomic.h>

#include "program/builder.h"
#include "program/procedure_builder.h"
#include "pydispatch/submit.h"

// out[x] = in[x] + 1, a workgroup for each element; fails at an element of -1.
static int32_t k_next(const pyd_environment_t* e, const pyd_dispatch_state_t* d, const pyd_workgroup_state_t* w) {
  (void)e;
  const float* in = d->binding_ptrs[0];
  uint32_t x = w->workgroup_id_x;
  if (in[x] == -1) return 5;
  ((float*)d->binding_ptrs[1])[x] = in[x] + 1;
  return 0;
}
static const pyd_dispatch_fn_t kFunctions[] = {k_next};
static const pyd_library_export_attrs_t kAttrs[] = {{.binding_count = 2}};
static const char* const kNames[] = {"next"};
static const pyd_library_header_t kHeader = {.version = 6, .name = "test"};
static const pyd_executable_t kExecutable = {
    .library = {.header = &kHeader, .exports = {.count = 1, .ptrs = kFunctions, .attrs = kAttrs, .names = kNames}}};

enum { STEPS = 3, MOST = 400 };

static pyd_trace_t* trace;

typedef struct world_s {
  pyd_program_t* program;
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_state_t* state;
} world_t;

// `count`: x -> x + STEPS, and a procedure of the same name that adds 1 to a global after it, which it returns.
static void open_world(world_t* w, uint32_t workers, uint64_t arena) {
  static builder_t b;
  static procs_t s;
  memset(&b, 0, sizeof(b));
  memset(&s, 0, sizeof(s));
  uint32_t e = add_executable(&b, "exe");
  add_export(&b, e, 0, "next", 0, 2);
  fn_t* f = add_function(&b, "count");
  add_tensor(&b, f, F32, "x", 1, (int64_t[]){-1});
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), one = constant(f, 1), bytes = op(f, PYD_OP_MUL, 64, n, constant(f, 4), 0);
  uint32_t large = op(f, PYD_OP_ADD, 64, bytes, constant(f, (int64_t)arena), 0);
  uint32_t t = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, large, 0, 1),
           u = add_buffer(f, PYD_BUFFER_TRANSIENT, 0, large, 1, 2);
  uint32_t out = add_result(f, F32, 1, &n, bytes), export = constant(f, 0);
  const uint32_t grid[] = {n, one, one};
  add_dispatch(f, 0, export, grid, 0, NULL, 2, (uint32_t[]){0, NONE, NONE, t, NONE, NONE});
  add_dispatch(f, 1, export, grid, 0, NULL, 2, (uint32_t[]){t, NONE, NONE, u, NONE, NONE});
  add_dispatch(f, 2, export, grid, 0, NULL, 2, (uint32_t[]){u, NONE, NONE, out, NONE, NONE});
  f = add_function(&b, "increase");
  add_scalar(&b, f, "i");
  add_scalar_result(f, op(f, PYD_OP_ADD, 64, op(f, PYD_OP_SCALAR, 0, 0, 0, 0), constant(f, 1), 0));
  uint32_t number = add_global(&b, &s, "number", 1, I64, 0, NULL, NONE, 0, true);
  proc_t* p = add_procedure(&b, &s, "count");
  uint32_t x = add_port(&b, p, 0, F32, 1, (int64_t[]){-1}), k = add_slot(p, 1, I64, 0);
  step(p, PYD_STEP_LOAD, k, number, 0, 0);
  step(p, PYD_STEP_RUN, 0, push_all(&p->pool, 2, x, x), 0, 0);
  step(p, PYD_STEP_RUN, 1, push_all(&p->pool, 2, k, k), 0, 0);
  step(p, PYD_STEP_STORE, number, k, 0, 0);
  add_output(p, 0, F32, 1);
  add_output(p, 1, I64, 0);
  step(p, PYD_STEP_RETURN, push_all(&p->pool, 2, x, k), 0, 0, 0);
  finish_procs(&b, &s);
  w->program = decode(&b);
  CHECK_OK(pyd_program_set_executable(w->program, 0, &kExecutable, 0, 4));
  CHECK_OK(pyd_sched_create(&(pyd_sched_options_t){.workers = workers, .spin_us = -1, .trace = trace}, &w->sched));
  CHECK_OK(pyd_pool_create(1 << 24, &w->pool));
  CHECK_OK(pyd_state_create(w->program, w->sched, w->pool, &w->state));
}

static void close_world(world_t* w) {
  pyd_state_free(w->state);
  pyd_sched_destroy(w->sched);
  pyd_program_free(w->program);
  pyd_pool_destroy(w->pool);
}

typedef struct job_s {
  pyd_plan_t* plan;
  pyd_call_t* call;
  float in[MOST], out[MOST];
  int64_t n;
} job_t;

static void make_job(const world_t* w, job_t* job, int64_t n, float first) {
  job->n = n;
  for (int64_t i = 0; i < n; ++i) job->in[i] = first + (float)i;
  CHECK_OK(pyd_plan_create(w->program, 0, &n, NULL, &job->plan));
  CHECK_OK(pyd_call_create(job->plan, w->sched, w->pool, &job->call));
  pyd_call_bind_arg(job->call, 0, job->in);
  pyd_call_bind_result(job->call, 0, job->out);
}

static void free_job(job_t* job) {
  pyd_call_free(job->call);
  pyd_plan_free(job->plan);
}

static void check_job(const job_t* job) {
  for (int64_t i = 0; i < job->n; ++i) CHECK(job->out[i] == job->in[i] + STEPS);
}

// Without taking it over.
static void wait_for(pyd_task_t* task) { CHECK(pyd_task_wait(task, UINT64_C(60000000000), NULL) == PYD_WAIT_DONE); }

static void test_calls(uint32_t workers, uint64_t arena) {
  world_t w;
  static job_t jobs[8];
  pyd_task_t* tasks[8];
  open_world(&w, workers, arena);
  for (int i = 0; i < 8; ++i) make_job(&w, &jobs[i], 1 + 50 * i, (float)i);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 8; ++i) {
      memset(jobs[i].out, 0, sizeof(jobs[i].out));
      CHECK_OK(pyd_call_submit(jobs[i].call, &(pyd_submit_options_t){.priority = (uint32_t)i % 3}, &tasks[i]));
    }
    for (int i = 0; i < 8; ++i) {
      if (i % 2) {
        wait_for(tasks[i]);
      } else {
        CHECK(pyd_task_wait(tasks[i], PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE);
      }
      CHECK_OK(pyd_task_status(tasks[i]));
      check_job(&jobs[i]);
      pyd_task_release(tasks[i]);
    }
  }
  jobs[3].in[100] = -2;  // the second step sees -1
  CHECK_OK(pyd_call_submit(jobs[3].call, NULL, &tasks[0]));
  wait_for(tasks[0]);
  CHECK(pyd_status_code(pyd_task_status(tasks[0])) == PYD_CODE_KERNEL &&
        pyd_status_values(pyd_task_status(tasks[0]))[1] == 100);
  pyd_task_release(tasks[0]);
  for (int i = 0; i < 8; ++i) free_job(&jobs[i]);
  pyd_call_t* call;
  pyd_plan_t* plan;
  CHECK_OK(pyd_plan_create(w.program, 0, (int64_t[]){4}, NULL, &plan));
  CHECK_OK(pyd_call_create(plan, w.sched, w.pool, &call));
  CHECK_REFUSED(pyd_call_submit(call, NULL, &tasks[0]), INVALID_ARGUMENT, "@count: argument 0 'x' has no memory");
  CHECK(!tasks[0]);
  pyd_call_free(call);
  pyd_plan_free(plan);
  close_world(&w);
}

static void test_procedures(uint32_t workers) {
  world_t w;
  open_world(&w, workers, 0);
  enum { COUNT = 20 };
  static float x[50];
  pyd_task_t* tasks[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    int64_t n = 1 + i;
    CHECK_OK(pyd_procedure_submit(w.state, 0, &(pyd_input_t){x, &n, 0}, NULL, &tasks[i]));
  }
  for (int i = 0; i < COUNT; ++i) {
    wait_for(tasks[i]);
    CHECK_OK(pyd_task_status(tasks[i]));
    pyd_invocation_t* invocation = pyd_procedure_take(tasks[i]);
    pyd_value_t value;
    CHECK(pyd_invocation_result(invocation, 0, &value) && value.bytes == 4u * (1 + (unsigned)i) &&
          ((const float*)value.data)[i] == 3);
    CHECK(pyd_invocation_result(invocation, 1, &value) && value.word == (uint64_t)i + 1);  // in the order of submission
    CHECK(!pyd_procedure_take(tasks[i]));
    pyd_invocation_free(invocation);
    pyd_task_release(tasks[i]);
  }
  CHECK_REFUSED(pyd_procedure_submit(w.state, 7, NULL, NULL, &tasks[0]), INVALID_ARGUMENT,
                "procedure 7 does not exist");
  int64_t n = 3;
  CHECK_OK(pyd_procedure_submit(w.state, 0, &(pyd_input_t){x, &n, 0}, NULL, &tasks[0]));
  pyd_task_release(tasks[0]);  // it runs on
  CHECK_OK(pyd_sched_stop(w.sched));
  // What keeps the order of calls does not keep their results.
  pyd_pool_stats_t before, after;
  pyd_pool_stats(w.pool, &before);
  CHECK_OK(pyd_procedure_submit(w.state, 0, &(pyd_input_t){x, &n, 0}, NULL, &tasks[0]));
  wait_for(tasks[0]);
  pyd_task_release(tasks[0]);
  pyd_pool_stats(w.pool, &after);
  CHECK(after.live_blocks <= before.live_blocks);
  close_world(&w);
}

static void test_batches(uint32_t workers, bool waits) {
  world_t w;
  open_world(&w, workers, 0);
  enum { COUNT = 300 };
  static float in[COUNT][8], out[COUNT][8];
  static void *args[COUNT], *results[COUNT];
  static pyd_batch_item_t items[COUNT];
  pyd_plan_t* plans[3];
  pyd_sched_cost_t cost = {0};
  for (int64_t n = 0; n < 3; ++n) CHECK_OK(pyd_plan_create(w.program, 0, (int64_t[]){n + 3}, NULL, &plans[n]));
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < COUNT; ++i) {
      for (int k = 0; k < 8; ++k) in[i][k] = (float)(i + k);
      args[i] = in[i];
      results[i] = out[i];
      items[i] = (pyd_batch_item_t){.plan = plans[i % 3], .args = &args[i], .results = &results[i]};
    }
    if (round == 5) in[7][1] = -1, in[200][0] = -3;
    pyd_task_t* task;
    CHECK_OK(pyd_batch_submit(w.sched, w.pool, items, COUNT, &cost, NULL, &task));
    if (waits) {
      wait_for(task);
    } else {
      CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, NULL) == PYD_WAIT_DONE);
    }
    for (int i = 0; i < COUNT; ++i) {
      bool fails = round == 5 && (i == 7 || i == 200);
      CHECK(items[i].has_run && pyd_status_code(items[i].status) == (fails ? PYD_CODE_KERNEL : 0));
      for (int k = 0; k < i % 3 + 3 && !fails; ++k) CHECK(out[i][k] == in[i][k] + STEPS);
    }
    CHECK(pyd_status_code(pyd_task_status(task)) == (round == 5 ? PYD_CODE_KERNEL : 0));
    pyd_task_release(task);
  }
  for (int i = 0; i < 3; ++i) pyd_plan_free(plans[i]);
  close_world(&w);
}

// Items with scalars, each with its own; an item without them is refused, since a worker's call would have earlier
// ones.
static void test_scalars_of_batch(uint32_t workers) {
  world_t w;
  open_world(&w, workers, 0);
  enum { COUNT = 50 };
  static uint64_t in[COUNT], out[COUNT];
  pyd_batch_item_t items[COUNT];
  pyd_plan_t* plan;
  pyd_task_t* task;
  CHECK(!pyd_function_may_block(w.program, 1));
  CHECK_OK(pyd_plan_create(w.program, 1, NULL, &in[0], &plan));
  for (uint64_t i = 0; i < COUNT; ++i) {
    in[i] = 10 * i;
    items[i] = (pyd_batch_item_t){.plan = plan, .scalars = &in[i], .out_scalars = &out[i]};
  }
  CHECK_OK(pyd_batch_submit(w.sched, w.pool, items, COUNT, NULL, NULL, &task));
  wait_for(task);
  CHECK_OK(pyd_task_status(task));
  pyd_task_release(task);
  for (uint64_t i = 0; i < COUNT; ++i) {
    CHECK(items[i].has_run && out[i] == 10 * i + 1);
    items[i].has_run = false;
  }
  items[7].scalars = NULL;
  CHECK_REFUSED(pyd_batch_submit(w.sched, w.pool, items, COUNT, NULL, NULL, &task), INVALID_ARGUMENT,
                "item 7: no values for the 1 scalar arguments of 'increase'");
  CHECK(!task && !items[0].has_run);
  pyd_plan_free(plan);
  close_world(&w);
}

// The interrupt of a thread that waits is asked on that thread, also for the items that others run.
static pthread_t asker;
static int32_t ask_here(void* asked) {
  CHECK(pthread_equal(asker, pthread_self()));
  ++*(int*)asked;
  return 0;
}
static void test_interrupt_of_batch(uint32_t workers) {
  world_t w;
  open_world(&w, workers, 0);
  enum { COUNT = 40, N = 3000 };
  static float in[N], out[COUNT][N];
  void *args[] = {in}, *results[COUNT];
  pyd_batch_item_t items[COUNT];
  pyd_plan_t* plan;
  pyd_sched_cost_t cost = {0};
  int asked = 0;
  asker = pthread_self();
  CHECK_OK(pyd_plan_create(w.program, 0, (int64_t[]){N}, NULL, &plan));
  for (int i = 0; i < COUNT; ++i) {
    results[i] = out[i];
    items[i] = (pyd_batch_item_t){.plan = plan, .args = args, .results = &results[i]};
  }
  pyd_task_t* task;
  const pyd_interrupt_t interrupt = {ask_here, &asked};
  CHECK_OK(pyd_batch_submit(w.sched, w.pool, items, COUNT, &cost, NULL, &task));
  CHECK(pyd_task_wait(task, PYD_WAIT_FOREVER, &interrupt) == PYD_WAIT_DONE);
  CHECK_OK(pyd_task_status(task));
  pyd_task_release(task);
  pyd_plan_free(plan);
  close_world(&w);
}

// ---- threads

static atomic_int is_over;

static void* use(void* arg) {
  world_t* w = arg;
  static atomic_uint seeds;
  unsigned random = 77u * (1 + atomic_fetch_add(&seeds, 1));
  job_t* jobs = calloc(4, sizeof(*jobs));
  for (int i = 0; i < 4; ++i) make_job(w, &jobs[i], 1 + 130 * i, (float)i);
  while (!atomic_load(&is_over)) {
    pyd_task_t* tasks[5] = {NULL};
    for (int i = 0; i < 4; ++i) {
      pyd_submit_options_t options = {.priority = 1};
      if (i && tasks[i - 1]) options.after = &tasks[i - 1], options.after_count = 1;
      pyd_status_free(pyd_call_submit(jobs[i].call, &options, &tasks[i]));  // refused while it is being closed
    }
    int64_t n = 5;
    pyd_status_free(pyd_procedure_submit(w->state, 0, &(pyd_input_t){jobs[0].in, &n, 0}, NULL, &tasks[4]));
    random = random * 1103515245u + 12345u;
    if (random >> 16 & 1 && tasks[2]) pyd_task_cancel(tasks[2]);
    if (random >> 17 & 1 && tasks[4]) pyd_task_cancel(tasks[4]);
    for (int i = 0; i < 5; ++i) {
      if (!tasks[i]) continue;
      CHECK(pyd_task_wait(tasks[i], random >> 19 & 1 ? PYD_WAIT_FOREVER : UINT64_C(60000000000), NULL) ==
            PYD_WAIT_DONE);
      if (i < 4 && pyd_ok(pyd_task_status(tasks[i]))) check_job(&jobs[i]);
      pyd_task_release(tasks[i]);
    }
  }
  for (int i = 0; i < 4; ++i) free_job(&jobs[i]);
  free(jobs);
  return NULL;
}

static void test_threads(uint32_t workers, int rounds) {
  world_t w;
  open_world(&w, workers, 0);
  atomic_store(&is_over, 0);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, use, &w) == 0);
  for (int i = 0; i < rounds; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    CHECK_OK(pyd_sched_stop(w.sched));
  }
  atomic_store(&is_over, 1);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  close_world(&w);
}

static void test_all(uint32_t workers) {
  test_calls(workers, 0);
  test_calls(workers, 2 << 20);  // more than a call keeps
  test_procedures(workers);
  test_interrupt_of_batch(workers);
  test_batches(workers, true);
  test_batches(workers, false);
  test_scalars_of_batch(workers);
  test_threads(workers, 10);
}

// Events of a kind with the name of what they are of.
static uint32_t count_events(pyd_trace_kind_t kind, const char* name) {
  static pyd_trace_event_t events[1024];
  uint32_t found = 0;
  for (uint32_t track = 0; track < pyd_trace_track_count(trace); ++track) {
    const uint64_t count = pyd_trace_read(trace, track, events, 1024);
    for (uint64_t i = 0; i < count; ++i) {
      found += events[i].kind == kind && events[i].name_length == strlen(name) &&
               !memcmp(events[i].name, name, strlen(name));
    }
  }
  return found;
}

int main(void) {
  CHECK_OK(pyd_trace_create(&trace));
  for (uint32_t workers = 1; workers <= 3; ++workers) test_all(workers);
  CHECK(count_events(PYD_TRACE_CALL, "count") == 0);
  CHECK_OK(pyd_trace_start(trace, 1024, 64));
  test_all(3);
  CHECK(count_events(PYD_TRACE_CALL, "count") && count_events(PYD_TRACE_SUBMIT, "count") &&
        count_events(PYD_TRACE_RUN, "next"));
  pyd_trace_destroy(trace);
  return 0;
}
