// links: base platform sched process
// tsan: 3
// Order and sides of fork handlers; announced code stays a whole list while threads add and remove around forks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "after_fork.h"
#include "process/lock.h"
#include "pydispatch/process.h"

static char seen[64];
static void note(void* self, char phase) {
  size_t used = strlen(seen);
  seen[used] = phase, seen[used + 1] = *(char*)self;
}
static void prepare(void* self) { note(self, '<'); }
static void parent(void* self) { note(self, '>'); }
static void child(void* self) { note(self, 'c'); }

// Forks; true when parent and child saw what was expected.
static bool fork_sees(const char* in_parent, const char* in_child) {
  memset(seen, 0, sizeof(seen));
  pid_t pid = fork();
  if (pid == 0) _exit(strcmp(seen, in_child) != 0);
  int status = 0;
  waitpid(pid, &status, 0);
  bool good = strcmp(seen, in_parent) == 0 && status == 0;
  if (!good) fprintf(stderr, "saw \"%s\", expected \"%s\"; child status %d\n", seen, in_parent, status);
  return good;
}

static bool check_order(void) {
  static char a = 'a', b = 'b', d = 'd';
  pyd_process_atfork_remove(&a);  // unknown: ignored
  pyd_status_free(pyd_process_atfork_add(&a, prepare, parent, child));
  pyd_status_free(pyd_process_atfork_add(&b, prepare, NULL, child));
  pyd_status_free(pyd_process_atfork_add(&d, prepare, parent, NULL));
  pyd_status_t twice = pyd_process_atfork_add(&b, prepare, NULL, NULL);
  bool good = pyd_status_code(twice) == PYD_CODE_INVALID_ARGUMENT;
  pyd_status_free(twice);
  good &= fork_sees("<d<b<a>a>d", "<d<b<acacb");
  pyd_process_atfork_remove(&b);
  good &= fork_sees("<d<a>a>d", "<d<aca");
  pyd_process_atfork_remove(&a);
  good &= fork_sees("<d>d", "<d");
  pyd_process_atfork_remove(&d);
  pyd_status_free(pyd_process_atfork_add(&a, NULL, parent, child));
  good &= fork_sees(">a", "ca");
  pyd_process_atfork_remove(&a);
  return good && fork_sees("", "");
}

static bool announce_some(int times) {
  pyd_process_symbol_t symbol = {"name with space", &seen, 4, true};
  pyd_process_code_info_t info = {"test", &seen, sizeof(seen), 62, &symbol, 1};
  for (int i = 0; i < times; ++i) {
    pyd_process_code_t* codes[3];
    for (int j = 0; j < 3; ++j) {
      pyd_status_t st = pyd_process_code_register(&info, false, &codes[j]);
      if (!pyd_ok(st)) return pyd_status_free(st), false;
    }
    static const int kOrder[] = {1, 0, 2};
    for (int j = 0; j < 3; ++j) pyd_process_code_unregister(codes[kOrder[j]]);
  }
  pyd_process_code_unregister(NULL);
  return true;
}

static void* announce_many(void* unused) {
  (void)unused;
  return announce_some(2000) ? NULL : "failed";
}

// Shows in a child that nothing is locked.
static bool use_in_child(void) {
  if (CHILD_MAY_ALLOCATE) return announce_some(3);
  pyd_status_t st = pyd_process_lock();
  if (!pyd_ok(st)) return false;
  pyd_process_unlock();
  return true;
}

// A child forked while other threads hold the lock half of the time can take it at once.
static bool check_threads(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, announce_many, NULL);
  bool good = true;
  for (int i = 0; i < 20; ++i) {
    pid_t pid = fork();
    if (pid == 0) {
      alarm(300);
      // Not _exit: TSAN would report the parent's threads as leaked in the child.
      syscall(SYS_exit_group, use_in_child() ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    good &= status == 0;
  }
  for (int i = 0; i < 3; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    good &= result == NULL;
  }
  return good;
}

int main(void) {
  bool order = check_order(), threads = check_threads();
  if (!order || !threads) fprintf(stderr, "order %d, threads %d\n", order, threads);
  return order && threads ? 0 : 1;
}
