// What a test may do in the child of a process that has other threads.
#ifndef TESTS_C_AFTER_FORK_H_
#define TESTS_C_AFTER_FORK_H_

#include <stdbool.h>

// Whether the child may allocate memory and start threads. Not under the address sanitizer and gcc's thread sanitizer:
// if another thread held a lock inside the runtime of the sanitizer at the fork, the child waits for it for ever. Seen
// with gcc 12: free() in a child of tests/c/sched/test_fork.c.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool CHILD_MAY_ALLOCATE = false;
#else
static const bool CHILD_MAY_ALLOCATE = true;
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The thread sanitizer of clang ends a child that starts threads unless it is told not to.
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "die_after_fork=0"; }
#endif
#endif

#endif  // TESTS_C_AFTER_FORK_H_
