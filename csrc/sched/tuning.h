// Every constant of the task system with the measurement that chose it (bench/sched_bench.c). Times are in nanoseconds.
// Machine: AMD EPYC (family 26), 2 virtual CPUs under KVM, Linux 6.18. On it: one compare-exchange 4.7, one tick
// reading 8.8, one pause 22, a futex wake 1,400 for the waker and 800 to 2,300 until the other thread runs.
#ifndef PYD_SCHED_TUNING_H_
#define PYD_SCHED_TUNING_H_

// Jobs that may be open to the pool at one time. A job that finds none free runs on its caller.
#define PYD_SCHED_SLOTS 32
#define PYD_SCHED_MAX_WORKERS 1024

// Indices of one window; a range must fit into 32 bits with room for its end.
#define PYD_SCHED_WINDOW 0x80000000u

// What must be left to do, alone, before others are let in: while a thread spins, and while all are parked.
#define PYD_SCHED_WORTH_SPINNING 1500
#define PYD_SCHED_WORTH_WAKING 8000
// Work that should be there for each further thread that is woken.
#define PYD_SCHED_WORK_PER_HELPER 4000

// A chunk aims at this much time, never takes more than 1/DIVISOR of what its owner has left, and is not made
// shorter than MIN by that rule.
#define PYD_SCHED_CHUNK_TIME 16000
#define PYD_SCHED_CHUNK_MIN_TIME 300
#define PYD_SCHED_CHUNK_DIVISOR 8

// Passes over all ranges before a participant believes that nothing is left to steal. More than one, because a range
// is in nobody's cell for a few nanoseconds while it is being stolen.
#define PYD_SCHED_STEAL_PASSES 3

// How long an idle pool thread spins: at most MAX; it falls to MIN by halves while spinning does not pay.
#define PYD_SCHED_SPIN_MAX 100000
#define PYD_SCHED_SPIN_MIN 1000
// How long a caller spins for the last chunks of others before it parks.
#define PYD_SCHED_FINISH_SPIN 30000
// Two looks at the clock of a spinning thread this far apart mean that it lost its CPU to somebody: it parks.
#define PYD_SCHED_PREEMPTED 20000
// Pauses between two looks at the clock.
#define PYD_SCHED_PAUSES_PER_TICK 4

#endif  // PYD_SCHED_TUNING_H_
