// Pool threads block the signals that another thread can handle, and none of those that a fault of their own raises: a
// crash in a kernel reaches the handler of the program.
//
// links: base platform sched
#include <pthread.h>
#include <signal.h>

#include "check.h"

typedef struct masks_s {
  pthread_t caller;
  _Atomic int here;
  sigset_t pool;
} masks_t;

// Ends when a pool thread takes part.
static int32_t read_mask(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)begin, (void)end, (void)out_failed;
  masks_t* masks = self;
  if (worker) {
    pthread_sigmask(SIG_SETMASK, NULL, &masks->pool);
    masks->here = 1;
  }
  while (!masks->here) {
  }
  return 0;
}

int main(void) {
  static const int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
  static const int kOthers[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGHUP};
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  sigaddset(&before, SIGTRAP);  // a program that blocks one by itself
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pyd_sched_t* sched = make_sched(2, 0);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  masks_t masks = {.here = 0};
  run_job(sched, read_mask, &masks, 2, SURELY_SHARED);
  for (size_t i = 0; i < sizeof(kFaults) / sizeof(*kFaults); ++i) {
    CHECK(sigismember(&masks.pool, kFaults[i]) == (kFaults[i] == SIGTRAP), "signal %d", kFaults[i]);
    CHECK(sigismember(&before, kFaults[i]) == sigismember(&after, kFaults[i]), "the caller's mask changed: %d",
          kFaults[i]);
  }
  for (size_t i = 0; i < sizeof(kOthers) / sizeof(*kOthers); ++i) {
    CHECK(sigismember(&masks.pool, kOthers[i]), "signal %d", kOthers[i]);
    CHECK(!sigismember(&after, kOthers[i]), "the caller's mask changed: %d", kOthers[i]);
  }
  pyd_sched_destroy(sched);
  puts("signals: ok");
  return 0;
}
