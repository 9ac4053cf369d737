// Every constant of the task system with the measurement that chose it (bench/sched, bench/core). Times are in
// nanoseconds. Machine: AMD EPYC (family 26), 2 virtual CPUs under KVM, Linux 6.18. On it: one compare-exchange 4.7,
// one tick reading 8.8, one pause 22, a futex wake 1,400 for the waker and 800 to 2,300 until the other thread runs.
//
// The delay until another thread joins a job depends on the machine most. It is measured at run time, by worker 1 in
// each job that it finds while it is idle (delay.h). WORTH_SPINNING and WORTH_WAKING are the initial values and the
// minima.
#ifndef PYD_SCHED_TUNING_H_
#define PYD_SCHED_TUNING_H_

// Jobs that may be open to the pool at one time. A job that finds no free slot runs on its caller.
#define PYD_SCHED_SLOTS 32
#define PYD_SCHED_MAX_WORKERS 1024

// The interrupt is polled after ASK_INDICES indices, or after ASK_TIME where the clock is read anyway: reading the
// clock costs 25, polling as much again. ASK_ASLEEP is the interval while the caller sleeps until other threads are
// done.
#define PYD_SCHED_ASK_INDICES 1024
#define PYD_SCHED_ASK_TIME 1000000
#define PYD_SCHED_ASK_ASLEEP 50000000

// Indices of one window; a range must fit into 32 bits with room for its end.
#define PYD_SCHED_WINDOW 0x80000000u

// Assumed cost of an index, in picoseconds, when a job of unknown cost is shared at once. It is the time of a chunk, so
// that the first chunks have one index each, and each index is worth waking a thread.
#define PYD_SCHED_GUESS (UINT64_C(1000) * PYD_SCHED_CHUNK_TIME)
// Indices per worker up to which a job of unknown cost is shared before anything is measured: running one index alone
// to measure it would make such a job longer by a tenth or more.
#define PYD_SCHED_COARSE 10

// The least remaining work worth sharing while a thread spins. Joining costs 400 (1,700 on a busy
// machine): jobs of 2,000 ran at 0.84 to 1.16 of the speed alone, of 4,000 at 1.4 to 1.8.
#define PYD_SCHED_WORTH_SPINNING 2500
#define PYD_SCHED_DELAYS_WORTH_SPINNING 6
// The least remaining work worth sharing while all threads are parked: waking one costs the caller 1,400, and it begins
// after 5,400. On a machine whose other CPUs are taken it costs 4,500 and gains nothing (jobs of 8,000 ran at 0.6 to
// 0.7 of the speed alone). So the wake threshold is learned: it doubles when a job gained less than an eighth, up to
// MOST, halves when one gained more, and sinks by 1/64 with each job that it kept from waking.
#define PYD_SCHED_WORTH_WAKING 8000
#define PYD_SCHED_DELAYS_WORTH_WAKING 2
#define PYD_SCHED_WORTH_WAKING_MOST 512000
#define PYD_SCHED_WAKE_THRESHOLD_DECAY 64
// The work of consecutive jobs between the two thresholds is summed: from this many times the wake threshold on, a
// thread is woken for the next job. Without it jobs of 4,000 in a row were never shared (speed 1.0); with it they are
// (1.4 to 1.8).
#define PYD_SCHED_WAKING_FOR_MORE 5
// A job shorter than WORTH_MEASURING is measured in one of MEASURE_EVERY runs only: two readings of the clock would
// take half as long as such a job.
#define PYD_SCHED_WORTH_MEASURING 700
#define PYD_SCHED_MEASURE_EVERY 16
// Each measured delay moves the estimate by 1/64 upwards or 3/64 downwards, whatever its length. So a quarter of all
// delays are shorter than the estimate, and it is right even if half of the measured threads have been preempted.
#define PYD_SCHED_DELAY_STEP 64
#define PYD_SCHED_DELAY_MOST 8
// Each further thread needs 1/PART_PER_HELPER of the work that justifies waking the first one.
#define PYD_SCHED_PART_PER_HELPER 2

// A chunk aims at this much time, never exceeds 1/DIVISOR of its owner's remaining range, and is not made
// shorter than MIN by that rule.
#define PYD_SCHED_CHUNK_TIME 16000
#define PYD_SCHED_CHUNK_MIN_TIME 300
#define PYD_SCHED_CHUNK_DIVISOR 8

// A participant checks this often whether it shares its CPU with another one. Shorter: the check, which takes 10, costs
// more than 1 in 10,000; longer: two threads share a CPU for longer before one moves away.
#define PYD_SCHED_PLACEMENT_CHECK_NS 200000
// A thread that has slept for longer is moved away from its waker, which costs the waker 8,000 (AMD EPYC Zen 4).
// Longer: the first calls after a pause run on one CPU; shorter: wakes of threads that have just parked cost more.
#define PYD_SCHED_PLACEMENT_SLEEP_NS 20000

// Passes over all ranges before a participant that found nothing, but saw thefts under way, lets other threads run.
#define PYD_SCHED_STEAL_PASSES 3

// A job of less work takes no permit. Without one a pool thread may compute on the CPU of this thread until the system
// takes it away, after slices of about 3,000,000 on Linux (base_slice_ns), so that fewer than 1 in 100 of jobs this
// long meet the end of a slice.
#define PYD_SCHED_PERMIT_WORK_NS 20000
// A participant in a job lets a thread that waits for a permit have one after as much work: 100 times what two
// handovers, of 5,000 each, cost.
#define PYD_SCHED_PERMIT_SLICE_NS 1000000
// Without a handover for this long, no holder of a permit has come to the end of a chunk: workgroups are that long, or
// they wait for something. Ten slices. Shorter: more threads than CPUs compute; longer: workgroups that wait for other
// calls wait longer.
#define PYD_SCHED_PERMIT_TIMEOUT_NS 10000000

// Threads of a scheduler for tasks that may sleep (blocking.c). More such tasks wait in the queue.
#define PYD_SCHED_BLOCKING_THREADS 64

// Time for which an idle pool thread spins: at most MAX; it falls to MIN by halves while spinning does not pay.
#define PYD_SCHED_SPIN_MAX 100000
#define PYD_SCHED_SPIN_MIN 1000
// Time for which a caller spins for the last chunks of others before it parks.
#define PYD_SCHED_FINISH_SPIN 30000
// Time for which a thread that waits for a task spins before it parks: about the cost of parking and a wake-up.
#define PYD_SCHED_WAIT_SPIN 5000
// Two clock reads of a spinning thread this far apart mean that it was preempted: it parks.
#define PYD_SCHED_PREEMPTED 20000
// Pauses between two looks at the clock.
#define PYD_SCHED_PAUSES_PER_TICK 4

#endif  // PYD_SCHED_TUNING_H_
