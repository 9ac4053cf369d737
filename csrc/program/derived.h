// Derived constants as calls read them. Their functions are run by derived.c, which is above calls: a call reaches it
// through |derive|.
#ifndef PYD_PROGRAM_DERIVED_H_
#define PYD_PROGRAM_DERIVED_H_

#include <stdatomic.h>

#include "program/gate.h"
#include "program/internal.h"

struct pyd_derived_s {
  // Computes constant |index| of |program|, unless another thread has; what it needs comes first.
  pyd_status_t (*derive)(const pyd_program_t* program, uint32_t index, const pyd_interrupt_t* interrupt);
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_gate_t gate;  // of whoever derives
  uint32_t constant_count;
  _Atomic(uint8_t*) blocks[];  // by constant; NULL until derived, and of others always
};

static inline bool pyd_constant_is_derived(const pyd_program_t* program, uint32_t index) {
  return program->derived && program->constants[index].derivation != PYD_NONE;
}

// The bytes of a constant; NULL when it was not linked or not derived yet.
static inline const uint8_t* pyd_constant_bytes(const pyd_program_t* program, uint32_t index) {
  if (!pyd_constant_is_derived(program, index)) return program->constant_links[index].data;
  return atomic_load_explicit(&program->derived->blocks[index], memory_order_acquire);
}

#endif  // PYD_PROGRAM_DERIVED_H_
