// Threads and one-shot events. One implementation per system: thread_linux.c (futex), thread_generic.c (pthread
// condition variables). Building the generic one on Linux takes PYD_PLATFORM_GENERIC in every file.
#ifndef PYD_PLATFORM_THREAD_H_
#define PYD_PLATFORM_THREAD_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// A thread of the system.
typedef struct pyd_thread_s {
  pthread_t handle;
} pyd_thread_t;

// Starts |entry|(|argument|) on a new thread with every signal blocked that another thread could take instead, so that
// the program's handlers keep running on its own threads. Signals of faults stay as they are: a crash reaches the
// handler of the program. |name| (at most 15 bytes) shows in debuggers. Returns 0 or an errno value.
int pyd_thread_start(pyd_thread_t* out_thread, void (*entry)(void*), void* argument, const char* name);
void pyd_thread_join(pyd_thread_t* thread);
// Detaches a thread: the system frees it when it ends.
void pyd_thread_detach(pyd_thread_t* thread);

static inline pyd_thread_t pyd_thread_self(void) { return (pyd_thread_t){pthread_self()}; }

// One-shot event for one waiting thread: a flag that stays set until pyd_event_reset(). Any thread may set it, before,
// during and after the wait, with pyd_event_claim(), and wakes the waiter with pyd_event_notify().
typedef struct pyd_event_s {
  _Atomic uint32_t is_set;
#if !defined(__linux__) || defined(PYD_PLATFORM_GENERIC)
  pthread_mutex_t mutex;
  pthread_cond_t condition;
#endif
} pyd_event_t;

// The event is clear afterwards.
void pyd_event_init(pyd_event_t* event);
// No thread may be waiting. In the child of a fork an event that had waiters in the parent is re-initialised, not
// deinitialised.
void pyd_event_deinit(pyd_event_t* event);

// Clears the event. A reset that overwrites a set acquires what was written before that set. Sequentially consistent.
static inline void pyd_event_reset(pyd_event_t* event) {
  atomic_exchange_explicit(&event->is_set, 0, memory_order_seq_cst);
}

static inline bool pyd_event_is_set(const pyd_event_t* event) {
  return atomic_load_explicit(&event->is_set, memory_order_seq_cst) != 0;
}

// Sets the event and returns whether it was clear. Wakes no thread: exactly one of several setters receives true, and
// has to call pyd_event_notify(). Sequentially consistent, also if it returns false.
static inline bool pyd_event_claim(pyd_event_t* event) {
  if (pyd_event_is_set(event)) return false;  // without a write, which would take the cache line from other threads
  return atomic_exchange_explicit(&event->is_set, 1, memory_order_seq_cst) == 0;
}

// Wakes the waiter of an event that this thread has claimed: pyd_event_claim() returned true. The event must outlive
// the call.
void pyd_event_notify(pyd_event_t* event);
// Returns when the event is set. Acquires what the setter wrote.
void pyd_event_wait(pyd_event_t* event);
// Waits for about |nanoseconds| at most, less than a second. Returns whether the event is set.
bool pyd_event_wait_for(pyd_event_t* event, uint32_t nanoseconds);

#endif  // PYD_PLATFORM_THREAD_H_
