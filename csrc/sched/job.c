// Parallel jobs of callers: what a caller runs alone, when sharing pays, and waiting for the other participants.
#include "sched/internal.h"

// Runs indices [begin, end) on this thread, as worker 0, in one call of the body. Returns false when an index failed.
static bool run_chunk(const pyd_sched_job_t* job, uint64_t begin, uint64_t end, pyd_sched_failure_t* out_failure) {
  uint64_t failed = begin;
  int32_t code = job->body(job->self, /* worker */ 0, begin, end, &failed);
  if (!code) return true;
  out_failure->code = code;
  const bool is_valid = failed >= begin && failed < end;  // the body is not trusted
  out_failure->index = is_valid ? failed : begin;
  return false;
}

// Returns the cost estimate of one index in picoseconds, 0 when the job was never measured.
static uint32_t learned_cost(const pyd_sched_job_t* job) {
  return job->cost ? __atomic_load_n(&job->cost->picoseconds, __ATOMIC_RELAXED) : 0;
}

// Runs indices [begin, end) on this thread in chunks of about PYD_SCHED_ASK_TIME nanoseconds, and polls the interrupt
// between chunks. Returns false when an index failed or the job was interrupted.
static bool run_interruptible(const pyd_sched_job_t* job, uint64_t begin, uint64_t end,
                              pyd_sched_failure_t* out_failure) {
  const uint64_t known = learned_cost(job);  // picoseconds, 0: no estimate
  // Without an estimate the first chunk is one index; later chunks depend on the measured time.
  uint64_t chunk = known ? UINT64_C(1000) * PYD_SCHED_ASK_TIME / known : 1, before = pyd_cpu_nanoseconds();
  for (;;) {
    if (chunk > PYD_SCHED_ASK_INDICES) chunk = PYD_SCHED_ASK_INDICES;
    if (chunk == 0) chunk = 1;
    if (chunk > end - begin) chunk = end - begin;
    if (!run_chunk(job, begin, begin + chunk, out_failure)) return false;
    begin += chunk;
    if (begin == end) return true;
    uint64_t after = pyd_cpu_nanoseconds(), spent = pyd_cpu_elapsed(before, after);
    before = after;
    if (spent < PYD_SCHED_ASK_TIME / 2) {
      chunk *= 2;
    } else if (spent > 2 * PYD_SCHED_ASK_TIME) {
      chunk /= 2;
    }
    if (!pyd_sched_is_interrupted(job)) continue;
    *out_failure = (pyd_sched_failure_t){.code = -1, .index = begin, .is_interrupted = true};
    return false;
  }
}

// Runs indices [begin, end) on this thread, in chunks if the interrupt has to be polled meanwhile. Returns false when
// an index failed or the job was interrupted.
static bool run_range(const pyd_sched_job_t* job, uint64_t begin, uint64_t end, pyd_sched_failure_t* out_failure) {
  uint64_t count = end - begin;
  if (!job->interrupt || count == 1) return run_chunk(job, begin, end, out_failure);
  uint64_t known = learned_cost(job);
  bool is_short = known && count <= PYD_SCHED_ASK_INDICES && known * count <= UINT64_C(1000) * PYD_SCHED_ASK_TIME;
  return is_short ? run_chunk(job, begin, end, out_failure) : run_interruptible(job, begin, end, out_failure);
}

// Runs indices [begin, end) on this thread and stores their time and count in |meter|, in place of earlier ones.
// Returns false when an index failed or the job was interrupted.
static bool run_range_metered(const pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t begin, uint64_t end,
                              pyd_sched_meter_t* meter, pyd_sched_failure_t* out_failure) {
  uint64_t start = pyd_cpu_ticks();
  bool ok = run_range(job, begin, end, out_failure);
  meter->picoseconds = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks()));
  meter->indices = end - begin;
  return ok;
}

// Updates the cost estimate of the job by the measured time per index. A lower time is averaged with the old estimate.
// A higher time replaces the old estimate, but by at most four times as much, because a thread that lost its CPU
// measures far too much; the averages of the next runs remove such an outlier.
void pyd_sched_learn(const pyd_sched_job_t* job, const pyd_sched_meter_t* meter) {
  if (!job->cost || !meter->indices) return;
  uint64_t known = learned_cost(job), cost = meter->picoseconds / meter->indices;
  if (known && cost < known) {
    cost = (cost + known) / 2;
  } else if (known && cost > 4 * known) {
    cost = 4 * known;
  }
  if (cost == 0) cost = 1;  // 0 means unknown
  if (cost > UINT32_MAX) cost = UINT32_MAX;
  if (cost != known) __atomic_store_n(&job->cost->picoseconds, (uint32_t)cost, __ATOMIC_RELAXED);
}

// Returns the picoseconds of work from which sharing a job pays. If a sleeping thread would have to be woken, this is
// the wake-up threshold, else the lower threshold for threads that spin. After much serial work in a short time the
// lower threshold is returned, too: more such jobs are expected, which the woken thread can share.
static uint64_t sharing_threshold(const pyd_sched_t* sched) {
  const bool has_spinners = atomic_load_explicit(&sched->spinners, memory_order_relaxed) != 0;
  if (!has_spinners && atomic_load_explicit(&sched->sleepers, memory_order_relaxed) != 0) {
    uint64_t wake_threshold = atomic_load_explicit(&sched->wake_threshold, memory_order_relaxed);
    if (atomic_load_explicit(&sched->serial_work, memory_order_relaxed) < PYD_SCHED_WAKING_FOR_MORE * wake_threshold)
      return wake_threshold;
  }
  return atomic_load_explicit(&sched->worth_spinning, memory_order_relaxed);
}

// Updates the wake-up threshold: the picoseconds of work of a job from which a sleeping thread is woken for it. Halves
// it after a job that sharing made faster (|has_gained|), and doubles it after a job that woke threads without a gain.
// A woken thread that joined the job is no gain by itself: if all other CPUs are busy, it shares a CPU with its waker.
static void update_wake_threshold(pyd_sched_t* sched, bool has_woken, bool has_gained) {
  const uint64_t minimum = atomic_load_explicit(&sched->worth_waking, memory_order_relaxed),
                 maximum = UINT64_C(1000) * PYD_SCHED_WORTH_WAKING_MOST;
  uint64_t old = atomic_load_explicit(&sched->wake_threshold, memory_order_relaxed), wake_threshold = old;
  if (has_gained) {
    wake_threshold = old / 2 > minimum ? old / 2 : minimum;
  } else if (has_woken) {
    wake_threshold = old * 2 < maximum ? old * 2 : maximum;
  }
  if (wake_threshold != old) atomic_store_explicit(&sched->wake_threshold, wake_threshold, memory_order_relaxed);
}

// Adds a job that ran on its caller alone, for |picoseconds|, to the recent serial work: |sched->serial_work|, the sum
// over such jobs in quick succession. Also lowers the wake-up threshold a little if it has kept this job from being
// shared: then a threshold that is too high for this machine comes down again.
static void note_serial_work(pyd_sched_t* sched, uint64_t picoseconds) {
  // The job was too short to be shared even with a spinning thread.
  if (picoseconds < atomic_load_explicit(&sched->worth_spinning, memory_order_relaxed)) return;
  uint64_t wake_threshold = atomic_load_explicit(&sched->wake_threshold, memory_order_relaxed);
  if (picoseconds > atomic_load_explicit(&sched->worth_waking, memory_order_relaxed) && wake_threshold > picoseconds) {
    atomic_store_explicit(&sched->wake_threshold, wake_threshold - wake_threshold / PYD_SCHED_WAKE_THRESHOLD_DECAY,
                          memory_order_relaxed);
  }
  uint64_t now = pyd_cpu_ticks();
  uint64_t until = atomic_load_explicit(&sched->alone_until, memory_order_relaxed);
  uint64_t sum = atomic_load_explicit(&sched->serial_work, memory_order_relaxed);
  // The sum starts again after a pause of more than half of the time for which a thread spins before it sleeps.
  uint64_t since = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(until, now));  // the pause and this job
  if (since > picoseconds + UINT64_C(1000) * PYD_SCHED_SPIN_MAX / 2) sum = 0;
  atomic_store_explicit(&sched->serial_work, sum + picoseconds, memory_order_relaxed);
  atomic_store_explicit(&sched->alone_until, now, memory_order_relaxed);
}

// Returns whether this run of a job, of estimated |picoseconds|, should be timed, and counts the runs of short jobs.
// These are timed in every PYD_SCHED_MEASURE_EVERY-th run only, because reading the clock would cost more than the
// estimate gains. job->cost must not be NULL.
static bool is_measured(const pyd_sched_job_t* job, uint64_t picoseconds) {
  if (picoseconds >= UINT64_C(1000) * PYD_SCHED_WORTH_MEASURING) return true;
  uint32_t runs = __atomic_load_n(&job->cost->runs, __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&job->cost->runs, runs, __ATOMIC_RELAXED);
  return runs % PYD_SCHED_MEASURE_EVERY == 0;
}

// Runs a whole job, which is too short to be shared, on this thread. |expected| is its cost estimate in picoseconds.
static void run_alone(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t expected, pyd_sched_meter_t* meter,
                      pyd_sched_failure_t* out_failure) {
  if (!is_measured(job, expected)) {
    run_range(job, 0, job->count, out_failure);
    return;
  }
  run_range_metered(sched, job, 0, job->count, meter, out_failure);
  note_serial_work(sched, meter->picoseconds);
}

// Sleeps until the last participant notifies the caller, and polls the interrupt of the job meanwhile.
static void sleep_until_done(pyd_sched_slot_t* slot) {
  const pyd_sched_job_t* job = slot->job;
  bool polls = job->interrupt != NULL;
  while (polls && !pyd_event_wait_for(&slot->done, PYD_SCHED_ASK_ASLEEP)) {
    if (!pyd_sched_is_interrupted(job)) continue;
    pyd_sched_interrupt(slot);
    polls = false;  // the participants stop now: wait for them
  }
  pyd_event_wait(&slot->done);
}

// Waits until no pool thread participates in the job of |slot|: spins for PYD_SCHED_FINISH_SPIN nanoseconds, then
// sleeps.
static void wait_for_others(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  // With more workers than CPUs, a participant may need this CPU: no time to spin.
  const uint64_t limit = sched->oversubscribed ? 0 : UINT64_C(1000) * PYD_SCHED_FINISH_SPIN;
  uint64_t start = pyd_cpu_ticks();
  for (;;) {
    for (int i = 0; i < PYD_SCHED_PAUSES_PER_TICK; ++i) {
      if (!(atomic_load_explicit(&slot->state, memory_order_acquire) & PYD_SLOT_COUNT)) return;
      pyd_cpu_relax();
    }
    if (pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks())) >= limit) break;
  }
  // Sleeps more than once only if a late notification for an earlier job of this slot sets the event.
  for (;;) {
    pyd_event_reset(&slot->done);
    const uint32_t state = atomic_fetch_or_explicit(&slot->state, PYD_SLOT_WAITING, memory_order_acq_rel);
    if (!(state & PYD_SLOT_COUNT)) return;
    sleep_until_done(slot);
    if (!(atomic_load_explicit(&slot->state, memory_order_acquire) & PYD_SLOT_COUNT)) return;
  }
}

// Closes the slot to further participants and waits until those inside have left.
static void close_and_wait(pyd_sched_t* sched, pyd_sched_slot_t* slot) {
  const uint32_t state = atomic_fetch_and_explicit(&slot->state, ~PYD_SLOT_OPEN, memory_order_acquire);
  const bool has_participants = (state & PYD_SLOT_COUNT) != 0;
  if (!has_participants) return;
  const uint64_t begin = pyd_sched_trace_begin(sched);
  wait_for_others(sched, slot);
  pyd_sched_trace_end(sched, PYD_TRACE_WAIT, begin, 0);
}

// Ends the run of |count| indices of the job of |slot|, which took |picoseconds|: learns from it whether waking threads
// pays, or stores the first failure in |*out_failure|.
void pyd_sched_settle(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint32_t count, uint64_t picoseconds, bool has_woken,
                      pyd_sched_failure_t* out_failure) {
  uint64_t failure = atomic_load_explicit(&slot->failure, memory_order_relaxed);
  if (failure == PYD_SCHED_NO_FAILURE) {
    const bool has_gained =
        picoseconds < pyd_sched_multiply(slot->cost, count) / 8 * 7;  // less than 7/8 of the estimate
    // A guess says nothing about a gain, and a job that is limited to one thread cannot gain.
    if (!slot->is_guess && slot->max_participants > 1) update_wake_threshold(sched, has_woken, has_gained);
    return;
  }
  out_failure->is_interrupted = failure == PYD_SCHED_INTERRUPTED;
  out_failure->code = out_failure->is_interrupted ? -1 : (int32_t)(uint32_t)failure;  // -1: any that is not 0
  out_failure->index = out_failure->is_interrupted ? 0 : slot->base + (failure >> 32);
  // The indices that did not run are dropped, so that the next job of the slot begins with empty cells.
  for (uint32_t i = 0; i < sched->workers; ++i) pyd_range_store(&slot->cells[i].range, (pyd_range_t){0, 0});
}

// Runs indices [begin, job->count) together with pool threads, one window of at most PYD_SCHED_WINDOW indices after the
// other, because participants address indices by 32 bits.
static void run_shared(pyd_sched_t* sched, pyd_sched_slot_t* slot, uint64_t begin, pyd_sched_meter_t* meter,
                       pyd_sched_failure_t* out_failure) {
  const pyd_sched_job_t* job = slot->job;
  const pyd_scope_t* outer = slot->scope;
  const pyd_scope_t scope = pyd_sched_scope_of(sched, slot);
  pyd_scope_set(sched->scopes, &scope);
  while (begin < job->count && !out_failure->code) {
    uint64_t left = job->count - begin;
    uint32_t window = left < PYD_SCHED_WINDOW ? (uint32_t)left : PYD_SCHED_WINDOW;
    slot->base = begin;
    const uint64_t start = slot->opened = pyd_cpu_ticks(), waited = meter->waited;
    bool has_woken = pyd_sched_publish(sched, slot, /* worker */ 0, window, /* state */ 0);
    do {
      pyd_sched_work(sched, slot, /* worker */ 0, meter);
      close_and_wait(sched, slot);
    } while (pyd_sched_has_leftovers(sched, slot));
    pyd_sched_hide(sched, slot);  // a participant that left early may have set the slot's bit again
    uint64_t spent = pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks())) - (meter->waited - waited);
    pyd_sched_settle(sched, slot, window, spent, has_woken, out_failure);
    begin += window;
  }
  pyd_scope_set(sched->scopes, outer);
}

// Runs the first indices of a job of unknown cost, twice as many each time, until the rest is worth sharing. Returns
// the first index that has not run (job->count when all have or one failed) and the cost of one index in picoseconds as
// measured last.
static uint64_t probe(const pyd_sched_t* sched, const pyd_sched_job_t* job, pyd_sched_meter_t* meter,
                      uint64_t* out_cost, pyd_sched_failure_t* out_failure) {
  uint64_t begin = 0, chunk = 1;
  while (begin < job->count) {
    uint64_t left = job->count - begin;
    if (left == 2) {
      chunk = 1;  // measures the last two indices one by one
    } else if (chunk > left) {
      chunk = left;
    }
    if (!run_range_metered(sched, job, begin, begin + chunk, meter, out_failure)) return job->count;
    begin += chunk;
    left -= chunk;
    *out_cost = meter->picoseconds / chunk + 1;  // not 0, which means unknown
    const bool is_worth_sharing = left > 1 && pyd_sched_multiply(*out_cost, left) >= sharing_threshold(sched);
    if (is_worth_sharing) break;
    chunk *= 2;
  }
  return begin;
}

// Returns whether a job of unknown cost should be shared before anything is measured, because it has few indices per
// worker. A job that stores no cost estimate would be shared again each time even if it is small, so its limit is one
// index per worker.
static bool is_coarse(const pyd_sched_t* sched, const pyd_sched_job_t* job) {
  const uint64_t indices_per_worker = job->cost ? PYD_SCHED_COARSE : 1;
  return job->count <= indices_per_worker * sched->workers;
}

// Runs as much of the job on this thread as is not worth sharing. Returns the first index that has not run, and the
// cost of one index in picoseconds, 0 when unknown.
static inline uint64_t run_unshared(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t* out_cost,
                                    pyd_sched_meter_t* meter, pyd_sched_failure_t* out_failure) {
  const uint64_t known = *out_cost = learned_cost(job);  // 0: not known
  if (job->count == 1 || sched->workers == 1) {
    // Without other workers the cost serves only to choose how often the interrupt is polled. It is measured once.
    if (known || !job->interrupt || !job->cost) {
      run_range(job, 0, job->count, out_failure);
    } else {
      run_range_metered(sched, job, 0, job->count, meter, out_failure);
    }
    return job->count;
  }
  if (!known && is_coarse(sched, job)) return 0;
  if (!known) return probe(sched, job, meter, out_cost, out_failure);
  if (pyd_sched_multiply(known, job->count) >= sharing_threshold(sched)) return 0;
  run_alone(sched, job, pyd_sched_multiply(known, job->count), meter, out_failure);
  return job->count;
}

// Runs as much of the job on this thread as is not worth sharing. Returns the first index that has not run.
uint64_t pyd_sched_begin(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t* out_cost, pyd_sched_meter_t* meter,
                         pyd_sched_failure_t* out_failure) {
  return run_unshared(sched, job, out_cost, meter, out_failure);
}

// Runs indices [begin, job->count) on this thread, and measures them.
void pyd_sched_run_rest(const pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t begin, pyd_sched_meter_t* meter,
                        pyd_sched_failure_t* out_failure) {
  run_range_metered(sched, job, begin, job->count, meter, out_failure);
}

// Acquires a compute permit (which limits how many threads compute at once) for a caller with |picoseconds| of work,
// unless the work is too short for a permit, or the thread holds one through an outer job. Returns whether it acquired
// a permit; then |*scope| has become the thread's innermost scope.
static bool acquire_permit(pyd_sched_t* sched, uint64_t picoseconds, pyd_scope_t* scope) {
  if (picoseconds < UINT64_C(1000) * PYD_SCHED_PERMIT_WORK_NS || !sched->scopes.get) return false;
  if (pyd_permit_is_held(sched->scopes)) return false;
  pyd_permit_take_as_caller(sched->permits);
  *scope =
      (pyd_scope_t){.outer = pyd_scope_now(sched->scopes), .owner = sched->permits, .permit = PYD_SCOPE_PERMIT_HELD};
  pyd_scope_set(sched->scopes, scope);
  return true;
}

// Runs indices [begin, job->count) together with pool threads, or alone if no slot is free. |cost|: measured
// picoseconds per index, 0 if unknown. |meter|: receives the measurements that update the job's cost estimate.
static void run_rest(pyd_sched_t* sched, const pyd_sched_job_t* job, uint64_t begin, uint64_t cost, bool has_permit,
                     pyd_sched_meter_t* meter, pyd_sched_failure_t* out_failure) {
  pyd_sched_slot_t* slot = pyd_sched_acquire_slot(sched, job, cost, /* task */ NULL);
  *meter = (pyd_sched_meter_t){0};  // |cost| has the earlier measurement
  if (!slot) {
    run_range_metered(sched, job, begin, job->count, meter, out_failure);
    return;
  }
  slot->has_permit = has_permit;
  const uint64_t start = cost ? 0 : pyd_cpu_ticks();
  run_shared(sched, slot, begin, meter, out_failure);
  pyd_sched_release_slot(sched, slot);
  // Other threads may have run all indices, so that this thread has measured none. Then the measurement is |cost| for
  // one index or, without it, the total time for all indices.
  if (!meter->indices && !learned_cost(job)) {
    const uint64_t spent = cost ? cost : pyd_sched_picoseconds(sched, pyd_cpu_elapsed(start, pyd_cpu_ticks()));
    *meter = (pyd_sched_meter_t){.indices = cost ? 1 : job->count, .picoseconds = spent};
  }
}

// Runs all indices of a job, on this thread and, if the job is long enough, on pool threads. The first indices of a job
// of unknown cost are measured without a permit; a permit is acquired for the rest if that is long enough. Returns
// after the last index, or with |*out_failure| after a failure or an interrupt.
void pyd_sched_run(pyd_sched_t* sched, const pyd_sched_job_t* job, pyd_sched_failure_t* out_failure) {
  *out_failure = (pyd_sched_failure_t){0};
  if (job->count == 0) return;
  pyd_sched_meter_t meter = {0};
  pyd_scope_t scope;
  bool has_permit = acquire_permit(sched, pyd_sched_multiply(learned_cost(job), job->count), &scope);
  uint64_t cost = 0, begin = run_unshared(sched, job, &cost, &meter, out_failure);
  if (begin < job->count && !has_permit) {
    has_permit = acquire_permit(sched, pyd_sched_multiply(cost ? cost : PYD_SCHED_GUESS, job->count - begin), &scope);
  }
  if (begin < job->count) run_rest(sched, job, begin, cost, has_permit, &meter, out_failure);
  if (!out_failure->code) pyd_sched_learn(job, &meter);
  if (!has_permit) return;
  pyd_scope_set(sched->scopes, scope.outer);
  pyd_permit_release_as_caller(sched->permits);
}
