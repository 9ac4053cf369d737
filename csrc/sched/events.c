// Events of the task system: the functions that record them in a trace, while one is on.
#include "sched/internal.h"

pyd_trace_t* pyd_sched_trace(const pyd_sched_t* sched) { return sched ? sched->trace : NULL; }

// Records an event of the calling thread from |begin|, in ticks, until now: pyd_trace_record() sets the end. |count|:
// the number of threads that were woken for PYD_TRACE_WAKE, else 0.
void pyd_sched_trace_end(const pyd_sched_t* sched, pyd_trace_kind_t kind, uint64_t begin, uint32_t count) {
  if (!begin) return;  // 0: no trace was recorded when the event began, or there is no event
  const pyd_trace_event_t event = {.begin = begin, .count = count, .kind = (uint8_t)kind};
  pyd_trace_record(sched->trace, &event, NULL, 0);
}

// Ends the idle time of the calling thread |self|, and records it as a trace event.
void pyd_sched_trace_idle(pyd_sched_thread_t* self) {
  const pyd_sched_t* sched = self->sched;
  const uint64_t begin = atomic_load_explicit(&self->idle_since, memory_order_relaxed);  // ticks
  atomic_store_explicit(&self->idle_since, 0, memory_order_relaxed);
  if (pyd_trace_is_on(sched->trace)) pyd_sched_trace_end(sched, PYD_TRACE_IDLE, begin, 0);
}

// Records the worker number of a thread that leaves the pool, as it may have exited when the trace ends.
void pyd_sched_trace_exit(const pyd_sched_thread_t* self) {
  const pyd_sched_t* sched = self->sched;
  if (pyd_trace_is_on(sched->trace)) pyd_trace_label(sched->trace, pyd_trace_this_thread(), self->worker);
}

// Acquires a compute permit, and records the time that the thread waited as a trace event. |is_for_tasks|: the thread
// is going to run a queued task. Returns false if |interrupt|, which may be NULL, ended the wait; the permit must be
// released in this case, too.
bool pyd_sched_permit_take(pyd_sched_t* sched, uint32_t priority, bool is_for_tasks, const pyd_interrupt_t* interrupt) {
  // 0 records no event: with a free permit the thread is not going to wait.
  const uint64_t begin = pyd_permit_is_free(sched->permits) ? 0 : pyd_sched_trace_begin(sched);
  const bool is_uninterrupted = pyd_permit_take(sched->permits, priority, is_for_tasks ? sched : NULL, interrupt);
  pyd_sched_trace_end(sched, PYD_TRACE_WAIT, begin, 0);
  return is_uninterrupted;
}

// Records the worker number of each pool thread and, for each idle thread, the time since it became idle. Must be
// called after the trace was stopped, as other threads must not record events meanwhile.
void pyd_sched_trace_threads(pyd_sched_t* sched) {
  if (!sched->trace) return;
  pthread_mutex_lock(&sched->lifecycle);
  const uint32_t count =
      sched->options.are_lent ? sched->workers : atomic_load_explicit(&sched->started, memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    pyd_sched_thread_t* self = &sched->threads[i];
    if (sched->options.are_lent && !self->is_taken) continue;  // an entry without a donated thread
    const uint64_t thread = (uint64_t)(uintptr_t)self->thread.handle;
    const pyd_trace_event_t event = {.begin = atomic_load_explicit(&self->idle_since, memory_order_relaxed),
                                     .end = pyd_cpu_ticks(),
                                     .kind = PYD_TRACE_IDLE};
    const bool is_idle = event.begin != 0;
    if (is_idle) pyd_trace_record_for(sched->trace, thread, &event, NULL, 0);
    pyd_trace_label(sched->trace, thread, self->worker);
  }
  pthread_mutex_unlock(&sched->lifecycle);
}
