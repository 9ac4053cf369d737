// Sets of CPUs, by the numbers that the system gives them.
#ifndef PYD_PLATFORM_CPU_SET_H_
#define PYD_PLATFORM_CPU_SET_H_

#include <stdbool.h>
#include <stdint.h>

enum { PYD_CPU_SET_CAPACITY = 4096 };  // CPUs with higher numbers are ignored

// A set of CPUs by their numbers.
typedef struct pyd_cpu_set_s {
  uint64_t words[PYD_CPU_SET_CAPACITY / 64];  // CPU n: bit n % 64 of word n / 64
} pyd_cpu_set_t;

static inline bool pyd_cpu_set_has(const pyd_cpu_set_t* set, uint32_t cpu) {
  return cpu < PYD_CPU_SET_CAPACITY && set->words[cpu / 64] >> cpu % 64 & 1;
}

static inline void pyd_cpu_set_add(pyd_cpu_set_t* set, uint32_t cpu) {
  if (cpu < PYD_CPU_SET_CAPACITY) set->words[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

// Removes the CPUs of |other| from |set|. Returns whether |set| still has any.
static inline bool pyd_cpu_set_subtract(pyd_cpu_set_t* set, const pyd_cpu_set_t* other) {
  uint64_t left = 0;
  for (int i = 0; i < PYD_CPU_SET_CAPACITY / 64; ++i) left |= set->words[i] &= ~other->words[i];
  return left != 0;
}

static inline bool pyd_cpu_set_is_equal(const pyd_cpu_set_t* a, const pyd_cpu_set_t* b) {
  uint64_t difference = 0;
  for (int i = 0; i < PYD_CPU_SET_CAPACITY / 64; ++i) difference |= a->words[i] ^ b->words[i];
  return difference == 0;
}

#endif  // PYD_PLATFORM_CPU_SET_H_
