// Thread start on every pthread system. Included only by the thread_<os>.c files.
#ifndef PYD_PLATFORM_THREAD_START_H_
#define PYD_PLATFORM_THREAD_START_H_

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "platform/thread.h"

// Arguments of a new thread, which it copies and frees.
typedef struct start_s {
  void (*entry)(void*);
  void* argument;
  char name[16];
} start_t;

// Names the calling thread for debuggers. Defined by the file that includes this one.
static void set_name(const char* name);

// The function that the system starts on a new thread. Names the thread and calls its entry. |pointer|: its start_t,
// which is freed.
static void* trampoline(void* pointer) {
  start_t start = *(start_t*)pointer;
  free(pointer);
  set_name(start.name);
  start.entry(start.argument);
  return NULL;
}

// Starts |entry|(|argument|) on a new thread that takes no signals but faults. |name|: cut to 15 bytes. Returns 0 or an
// errno value.
int pyd_thread_start(pyd_thread_t* out_thread, void (*entry)(void*), void* argument, const char* name) {
  start_t* start = malloc(sizeof(*start));
  if (!start) return ENOMEM;
  start->entry = entry;
  start->argument = argument;
  strncpy(start->name, name, sizeof(start->name) - 1);
  start->name[sizeof(start->name) - 1] = 0;
#if defined(_WIN32)  // has no signals that a thread could block
  int error = pthread_create(&out_thread->handle, NULL, trampoline, start);
#else
  // A thread inherits the signal mask of its creator. Blocking around the creation leaves no moment in which the new
  // thread takes a signal. Faults stay as they were.
  static const int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
  sigset_t blocked, before;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof(kFaults) / sizeof(*kFaults); ++i) {
    if (!sigismember(&before, kFaults[i])) sigdelset(&blocked, kFaults[i]);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, NULL);
  int error = pthread_create(&out_thread->handle, NULL, trampoline, start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
  if (error) free(start);
  return error;
}

void pyd_thread_join(pyd_thread_t* thread) { pthread_join(thread->handle, NULL); }
void pyd_thread_detach(pyd_thread_t* thread) { pthread_detach(thread->handle); }

#endif  // PYD_PLATFORM_THREAD_START_H_
