// What the plain C tests share: a check that names its place, and a job that is sure to be published.
#ifndef TESTS_C_SCHED_CHECK_H_
#define TESTS_C_SCHED_CHECK_H_

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/sched.h"

#define CHECK(condition, ...)                                                  \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                            \
      fputc('\n', stderr);                                                     \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#endif
#ifdef UNDER_TSAN
enum { SLOWER = 10 };  // such a test is repeated as a whole instead
#else
enum { SLOWER = 1 };
#endif

// Each test runs for this many rounds, or as many as its first argument says.
static inline int rounds_of(int argc, char** argv, int usual) {
  return argc > 1 ? atoi(argv[1]) : (usual + SLOWER - 1) / SLOWER;
}

static inline pyd_sched_t* make_sched(uint32_t workers, int32_t spin_us) {
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = workers, .spin_us = spin_us};
  pyd_status_t status = pyd_sched_create(&options, &sched);
  CHECK(pyd_ok(status), "%s", pyd_status_text(status));
  return sched;
}

// Runs with a cost that is made up, so that a body of nothing is published all the same: 0 lets the scheduler find out.
static inline pyd_sched_failure_t run_job(pyd_sched_t* sched, pyd_sched_body_fn_t body, void* self, uint64_t count,
                                          uint32_t picoseconds) {
  pyd_sched_cost_t cost = {.picoseconds = picoseconds};
  pyd_sched_job_t job = {.body = body, .self = self, .count = count, .cost = &cost};
  pyd_sched_failure_t failure = {.code = -1, .index = 77};
  pyd_sched_run(sched, &job, &failure);
  return failure;
}

// 4 ms: above any wake threshold that the scheduler may have learned for waking a thread.
#define SURELY_SHARED 4000000000u

#endif  // TESTS_C_SCHED_CHECK_H_
