// One call of a procedure.
//
// Order of the files. Each calls those above it alone:
//   tensor.c       memory with sizes, shared by count; owns pyd_tensor_t
//   plans.c        plans and calls that a loaded program keeps
//   change.c       updates of globals in place, inside the gate
//   state.c        what a loaded program keeps between calls; owns pyd_state_t
//   invocation.c   slots and results of a call; owns pyd_invocation_t
//   function.c     the step that runs a function
//   steps.c        the other steps, apart from jumps
//   call.c         steps one after another; owns pyd_frame_t
//   submit.c       a call as a task
#ifndef PYD_PROGRAM_INVOCATION_H_
#define PYD_PROGRAM_INVOCATION_H_

#include "program/plan/plan.h"
#include "program/procedure/state.h"

typedef struct pyd_observation_s {
  uint32_t check;
  uint32_t count;
  pyd_cell_t cells[2];
  pyd_slot_type_t types[2];
} pyd_observation_t;

struct pyd_invocation_s {
  const pyd_procedure_t* p;
  pyd_cell_t* results;
  pyd_observation_t* observations;
  uint32_t observation_count, observation_capacity;
};

// What lives as long as the call runs.
typedef struct pyd_frame_s {
  pyd_state_t* state;
  const pyd_procedure_t* p;
  pyd_invocation_t* invocation;
  const pyd_interrupt_t* interrupt;    // or NULL
  pyd_procedure_observer_t* observer;  // or NULL
  void* const* blocks;                 // per argument: the caller's memory on the device, or NULL; NULL: there is none
  pyd_memory_t results;                // where tensor results are to be
  pyd_cell_t* slots;
  pyd_cell_t* own;  // by global: what this call has stored, or has taken a snapshot of; NULL in a procedure without
  pyd_cell_t* moves;
  // Of the function that runs:
  int64_t* dims;
  uint64_t* scalars;
  uint64_t* regs;
  pyd_tensor_t** staged;  // per argument: a copy where the call can take it, or NULL
  pyd_tensor_t** made;    // per result
} pyd_frame_t;

// The cell of a slot that is read. INVALID_ARGUMENT when it holds nothing.
pyd_status_t pyd_frame_read(const pyd_frame_t* frame, uint32_t slot, pyd_cell_t** out_cell);

// steps.c: every step but JUMP and BRANCH, and RETURN: the values in its slots become the results.
pyd_status_t pyd_frame_step(pyd_frame_t* frame, const pyd_step_t* step);
pyd_status_t pyd_frame_return(pyd_frame_t* frame, const pyd_step_t* step);

// function.c: the RUN step.
pyd_status_t pyd_frame_run(pyd_frame_t* frame, const pyd_step_t* step);

#endif  // PYD_PROGRAM_INVOCATION_H_
