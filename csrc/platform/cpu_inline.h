// Instructions that C cannot express: a pause in a spin loop, a cheap clock, the rounding and denormal mode. On x86-64
// by built-in functions of the compiler: immintrin.h takes most of the time to compile a file.
#ifndef PYD_PLATFORM_CPU_INLINE_H_
#define PYD_PLATFORM_CPU_INLINE_H_

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// Bytes of a cache line: data of different threads is this far apart.
#define PYD_CPU_CACHE_LINE 64

// Hints to the core that this is a spin loop.
static inline void pyd_cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // yield is a no-op on most cores; isb waits a few dozen cycles
#elif defined(__riscv)
  __asm__ volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");  // pause, a hint everywhere
#endif
}

// Returns the time of the monotonic clock.
static inline uint64_t pyd_cpu_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Returns a counter with a constant rate, the cheapest to read that the machine has. Readings of one thread may go back
// by a little when it moves to another core; take differences with pyd_cpu_elapsed.
static inline uint64_t pyd_cpu_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return pyd_cpu_nanoseconds();
#endif
}

// Returns the ticks between two readings; 0 if they went back.
static inline uint64_t pyd_cpu_elapsed(uint64_t from, uint64_t to) { return to > from ? to - from : 0; }

#if defined(__x86_64__)
// Reads the tick counter and the clock (|*out_ns|) at about the same time, and returns the ticks. Tries it 8 times and
// takes the fastest reading, since the thread may be preempted between reading one and the other.
static inline uint64_t pyd_cpu_ticks_at(uint64_t* out_ns) {
  uint64_t ticks = 0, least_duration = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    uint64_t before = pyd_cpu_ticks(), ns = pyd_cpu_nanoseconds(), after = pyd_cpu_ticks();
    if (after < before) continue;  // the thread has moved to another core
    if (after - before >= least_duration) continue;
    least_duration = after - before;
    ticks = before;
    *out_ns = ns;
  }
  return ticks;
}
#endif

// Fixed-point scale of picoseconds per tick.
#define PYD_CPU_TICK_SCALE 256u
// Picoseconds per tick of a clock that counts nanoseconds, scaled.
#define PYD_CPU_TICK_OF_NANOSECONDS (1000u * PYD_CPU_TICK_SCALE)
// Time for which ticks are counted against nanoseconds. A shorter one is less exact, a longer one delays the start.
#define PYD_CPU_CALIBRATION_NS 20000u

// Returns picoseconds per tick, times PYD_CPU_TICK_SCALE. Takes PYD_CPU_CALIBRATION_NS on x86-64.
static inline uint64_t pyd_cpu_measure_tick(void) {
#if defined(__aarch64__)
  uint64_t frequency;
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  return frequency ? (1000000000000u * PYD_CPU_TICK_SCALE) / frequency : PYD_CPU_TICK_OF_NANOSECONDS;
#elif defined(__x86_64__)
  uint64_t from_ns = 0, to_ns = 0, from = pyd_cpu_ticks_at(&from_ns);
  while (pyd_cpu_nanoseconds() - from_ns < PYD_CPU_CALIBRATION_NS) pyd_cpu_relax();
  uint64_t ticks = pyd_cpu_elapsed(from, pyd_cpu_ticks_at(&to_ns));
  bool is_measured = ticks && to_ns > from_ns;  // false if the counter does not run
  return is_measured ? (to_ns - from_ns) * PYD_CPU_TICK_OF_NANOSECONDS / ticks : PYD_CPU_TICK_OF_NANOSECONDS;
#else
  return PYD_CPU_TICK_OF_NANOSECONDS;
#endif
}

#define PYD_MXCSR_EXCEPTIONS 0x3Fu  // sticky exception flags of MXCSR
#define PYD_MXCSR_MODE 0xFFC0u      // exception masks, rounding, and the treatment of denormals

// Returns the rounding and denormal mode of this thread, as its control register has it. A job runs on every thread
// with the mode of its caller.
static inline uint64_t pyd_cpu_fp_mode(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & PYD_MXCSR_MODE;
#elif defined(__aarch64__)
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
#elif defined(__riscv_flen)
  uint64_t mode;
  __asm__ volatile("frrm %0" : "=r"(mode));
  return mode;
#else
  return 0;
#endif
}

// Sets the mode of this thread to one that pyd_cpu_fp_mode returned. Exception flags stay as they are.
static inline void pyd_cpu_set_fp_mode(uint64_t mode) {
  if (mode == pyd_cpu_fp_mode()) return;  // writing the register is slow, and nearly never needed
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & PYD_MXCSR_EXCEPTIONS) | (uint32_t)mode);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(mode));
#elif defined(__riscv_flen)
  __asm__ volatile("fsrm %0" ::"r"(mode));
#endif
}

#endif  // PYD_PLATFORM_CPU_INLINE_H_
