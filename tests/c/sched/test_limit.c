// Jobs with a limit: never more threads than that, all indices once, jobs inside them included; of callers and of
// tasks.
//
// links: base platform sched
// tsan: 10
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "sched/task.h"

enum { WORKERS = 4, COUNT = 64 };

static _Thread_local const pyd_scope_t* innermost;
static const pyd_scope_t* get_scope(void) { return innermost; }
static void set_scope(const pyd_scope_t* scope) { innermost = scope; }

static pyd_sched_t* make_scoped(void) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = WORKERS, .spin_us = -1, .scopes = {get_scope, set_scope}};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return sched;
}

typedef struct load_s {
  pyd_sched_t* sched;
  uint64_t nested;                     // indices of a job that each index runs
  _Atomic int inside, most, expected;  // expected: threads that an index waits for
  _Atomic uint32_t times[COUNT];
  pyd_sched_cost_t cost;
  bool is_shared;
} load_t;

static void note(load_t* load) {
  int inside = ++load->inside, most = load->most;
  while (inside > most && !atomic_compare_exchange_weak(&load->most, &most, inside)) {
  }
  for (int i = 0; i < 100 || load->most < load->expected; ++i) pyd_cpu_relax();
  --load->inside;
}

static int32_t count_body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end, (void)out_failed;
  note(self);
  return 0;
}

static int32_t body(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  load_t* load = self;
  (void)worker, (void)out_failed;
  for (uint64_t i = begin; i < end; ++i) {
    ++load->times[i];
    if (load->nested) {
      run_job(load->sched, count_body, load, load->nested, SURELY_SHARED);
    } else {
      note(load);
    }
  }
  return 0;
}

static void check_load(load_t* load, int limit) {
  CHECK(load->most <= limit, "%d threads at once, at most %d are allowed", load->most, limit);
  for (int i = 0; i < COUNT; ++i) CHECK(load->times[i] == 1, "index %d: %u times", i, load->times[i]);
}

static void test_caller(uint32_t limit, uint32_t outer_limit, uint64_t nested, int expected) {
  load_t load = {.sched = make_scoped(), .nested = nested, .expected = expected};
  const pyd_scope_t outer = {.workers = outer_limit}, scope = {.outer = &outer, .workers = limit};
  const uint32_t least = outer_limit && outer_limit < limit ? outer_limit : limit;
  set_scope(&scope);
  CHECK(run_job(load.sched, body, &load, COUNT, SURELY_SHARED).code == 0, "%u", limit);
  CHECK(get_scope() == &scope, "the scope of the caller is another one");
  set_scope(NULL);
  check_load(&load, (int)least);
  pyd_sched_destroy(load.sched);
}

static bool advance(void* self, pyd_task_t* task, uint32_t worker, pyd_status_t* out_status) {
  load_t* load = *(load_t**)self;
  (void)out_status;
  if (load->is_shared) return true;
  load->is_shared = true;
  load->cost.picoseconds = SURELY_SHARED;
  return pyd_task_share(task, &(pyd_sched_job_t){.body = body, .self = load, .count = COUNT, .cost = &load->cost},
                        worker);
}

static pyd_status_t run_whole(void* self, const pyd_interrupt_t* interrupt) {
  load_t* load = *(load_t**)self;
  (void)interrupt;
  run_job(load->sched, body, load, COUNT, SURELY_SHARED);
  return PYD_STATUS_OK;
}

// |is_run_here|: by the thread that waits for it.
static void test_tasks(uint32_t limit, uint64_t nested, int expected, bool is_run_here) {
  static const pyd_task_kind_t kKind = {.advance = advance, .run = run_whole};
  enum { TASKS = 8 };
  pyd_sched_t* sched = make_scoped();
  static load_t loads[TASKS];
  pyd_task_t* tasks[TASKS];
  for (int i = 0; i < TASKS; ++i) {
    loads[i] = (load_t){.sched = sched, .nested = nested, .expected = expected};
    CHECK(pyd_ok(pyd_task_create(sched, &kKind, sizeof(load_t*), &tasks[i])), "task");
    *(load_t**)pyd_task_payload(tasks[i]) = &loads[i];
    pyd_submit_options_t options = {.priority = PYD_PRIORITY_NORMAL, .workers = limit};
    CHECK(pyd_ok(pyd_task_submit(tasks[i], &options)), "submit");
  }
  for (int i = 0; i < TASKS; ++i) {
    pyd_task_wait(tasks[i], is_run_here ? PYD_WAIT_FOREVER : UINT64_C(60000000000), NULL);
    CHECK(pyd_ok(pyd_task_status(tasks[i])), "%s", pyd_status_text(pyd_task_status(tasks[i])));
    check_load(&loads[i], (int)limit);
    pyd_task_release(tasks[i]);
  }
  pyd_sched_destroy(sched);
}

// Others call without a limit meanwhile.
static void* call_often(void* argument) {
  for (int i = 0; i < 200 / SLOWER; ++i) {
    load_t own = {.sched = argument};
    run_job(own.sched, body, &own, COUNT, SURELY_SHARED);
    check_load(&own, WORKERS + 4);
  }
  return NULL;
}

static void* call_often_limited(void* argument) {
  const pyd_scope_t scope = {.workers = 2};
  set_scope(&scope);
  for (int i = 0; i < 200 / SLOWER; ++i) {
    load_t own = {.sched = argument};
    run_job(own.sched, body, &own, COUNT, SURELY_SHARED);
    check_load(&own, 2);
  }
  set_scope(NULL);
  return NULL;
}

static void test_among_others(void) {
  pyd_sched_t* sched = make_scoped();
  pthread_t threads[6];
  for (int i = 0; i < 6; ++i) pthread_create(&threads[i], NULL, i % 2 ? call_often : call_often_limited, sched);
  for (int i = 0; i < 6; ++i) pthread_join(threads[i], NULL);
  CHECK(sched->open == 0, "a job is shown that has ended: %x", sched->open);
  pyd_sched_destroy(sched);
}

int main(void) {
  for (uint32_t limit = 1; limit <= WORKERS; ++limit) {
    test_caller(limit, 0, 0, (int)limit);  // as many as that do come
    test_caller(limit, 2, 0, 0);
    test_caller(limit, 0, 5, 0);
    for (int is_run_here = 0; is_run_here < 2; ++is_run_here) {
      test_tasks(limit, 0, 0, is_run_here);
      test_tasks(limit, 3, 0, is_run_here);
    }
  }
  test_among_others();
  puts("limit: ok");
  return 0;
}
