// Derived constants, which a function of the program computes from other constants when a call first reads them. That
// function is itself run as a call: the pointer |derive| lets calls reach derived.c, which is a layer above them.
#ifndef PYD_PROGRAM_DERIVED_H_
#define PYD_PROGRAM_DERIVED_H_

#include <stdatomic.h>

#include "program/gate.h"
#include "program/internal.h"

// Memory of derived constants, which are consecutive in a few large blocks: smaller ones would not consist of huge
// pages, and memory of small pages is read at three quarters of the rate.
typedef struct constant_memory_s {
  uint32_t block_count;  // in |blocks| of pyd_derived_t
  uint8_t* free_memory;  // the largest unused end of a block
  size_t free_bytes;     // its size
} constant_memory_t;

// The constants that a program computes from other constants, each when a call first needs it.
struct pyd_derived_s {
  // Computes constant |index| of |program|, and before it the constants that it is derived from, unless another thread
  // has.
  pyd_status_t (*derive)(const pyd_program_t* program, uint32_t index, const pyd_interrupt_t* interrupt);
  pyd_sched_t* sched;  // may be NULL: derivations run on the thread of the call
  pyd_pool_t* pool;
  pyd_gate_t gate;  // one thread derives at a time
  // Of the derivations that have succeeded. It changes together with |data|, and not during a fork: the child of a fork
  // loses the derivation that runs, with its memory.
  constant_memory_t memory;
  // From the pool, at most one for each constant; guarded by |gate|. Those from memory.block_count on belong to the
  // derivation that runs.
  uint8_t** blocks;
  uint32_t constant_count;
  _Atomic(uint8_t*) data[];  // bytes by constant; NULL until it is derived, always NULL for other constants
};

// Returns whether constant |index| is computed by a derivation.
static inline bool pyd_constant_is_derived(const pyd_program_t* program, uint32_t index) {
  return program->derived && program->constants[index].derivation != PYD_NONE;
}

// Returns the address of the bytes of a constant; NULL while it is not linked or not derived.
static inline const uint8_t* pyd_constant_bytes(const pyd_program_t* program, uint32_t index) {
  if (!pyd_constant_is_derived(program, index)) return program->constant_links[index].data;
  return atomic_load_explicit(&program->derived->data[index], memory_order_acquire);
}

#endif  // PYD_PROGRAM_DERIVED_H_
