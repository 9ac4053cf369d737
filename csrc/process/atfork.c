// Handlers of objects for fork(): those before it run in the reverse order of registration, those after it in order.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "process/lock.h"

// Handlers of fork() for one object, in a list in the order of registration. |self|: the object, which all are called
// with; it also identifies the entry. A handler may be NULL.
typedef struct entry_s {
  struct entry_s* previous;
  struct entry_s* next;
  void* self;
  pyd_process_atfork_fn_t prepare, parent, child;
} entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of the list, and of all state of the process: lock.h
// Runs install() once.
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;  // errno value of install(); 0: the handlers are installed
// The list of handlers; NULL when it is empty.
static entry_t* first;
static entry_t* last;

#if defined(_WIN32)  // has no fork

static void install(void) {}

#else

// Runs before fork() in the parent: the handlers, last registered first. Keeps the list locked over the fork, so that
// the child gets it in a valid state; on_parent() and on_child() unlock it.
static void on_prepare(void) {
  pthread_mutex_lock(&lock);
  for (entry_t* entry = last; entry; entry = entry->previous) {
    if (entry->prepare) entry->prepare(entry->self);
  }
}

// Runs after fork() in the parent: the handlers in the order of their registration. Then unlocks the list.
static void on_parent(void) {
  for (entry_t* entry = first; entry; entry = entry->next) {
    if (entry->parent) entry->parent(entry->self);
  }
  pthread_mutex_unlock(&lock);
}

// Runs after fork() in the child: the handlers in the order of their registration. Then unlocks the list.
static void on_child(void) {
  for (entry_t* entry = first; entry; entry = entry->next) {
    if (entry->child) entry->child(entry->self);
  }
  pthread_mutex_unlock(&lock);
}

static void install(void) { install_error = pthread_atfork(on_prepare, on_parent, on_child); }

#endif

// Locks the state of the process. Before that, the first call installs the handlers of fork(), without which a child
// could inherit a locked mutex.
pyd_status_t pyd_process_lock(void) {
  pthread_once(&once, install);
  if (install_error) {
    return pyd_status_make(PYD_CODE_SYSTEM, "cannot install fork handlers: %s", strerror(install_error));
  }
  pthread_mutex_lock(&lock);
  return PYD_STATUS_OK;
}

void pyd_process_unlock(void) { pthread_mutex_unlock(&lock); }

// Returns the handlers of |self|; NULL when it has none. The caller holds the lock.
static entry_t* find(const void* self) {
  entry_t* entry = first;
  while (entry && entry->self != self) entry = entry->next;
  return entry;
}

// Adds the handlers of |self| to the end of the list. INVALID_ARGUMENT if it has some already.
pyd_status_t pyd_process_atfork_add(void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
                                    pyd_process_atfork_fn_t child) {
  entry_t* entry = malloc(sizeof(*entry));  // NULL after it is in the list
  if (!entry)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a fork handler (%zu bytes)", sizeof(*entry));
  pyd_status_t st = pyd_process_lock();
  if (pyd_ok(st)) {
    if (find(self)) {
      st = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%p already has fork handlers; remove them first", self);
    } else {
      *entry =
          (entry_t){.previous = last, .next = NULL, .self = self, .prepare = prepare, .parent = parent, .child = child};
      if (last) {
        last->next = entry;
      } else {
        first = entry;
      }
      last = entry;
      entry = NULL;
    }
    pyd_process_unlock();
  }
  free(entry);
  return st;
}

// Removes the fork handlers of |self|, and waits until none of them runs.
void pyd_process_atfork_remove(void* self) {
  pthread_mutex_lock(&lock);
  entry_t* entry = find(self);
  if (entry) {  // unlinks it from the doubly linked list from |first| to |last|
    if (entry->previous) {
      entry->previous->next = entry->next;
    } else {
      first = entry->next;
    }
    if (entry->next) {
      entry->next->previous = entry->previous;
    } else {
      last = entry->previous;
    }
  }
  pthread_mutex_unlock(&lock);
  free(entry);
}
