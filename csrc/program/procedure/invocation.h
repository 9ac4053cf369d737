// One call of a procedure.
//
// Order of the files. Each calls those above it alone:
//   tensor.c       reference-counted tensors; owns pyd_tensor_t
//   plans.c        the cache of plans and idle calls of a loaded program
//   change.c       updates of globals in place, inside the gate
//   state.c        globals and caches of a loaded program; owns pyd_state_t
//   invocation.c   slots and results of a call; owns pyd_invocation_t
//   function.c     the RUN step, which calls a function
//   steps.c        steps that are no jumps and run no function
//   call.c         the loop over steps; owns pyd_frame_t
//   submit.c       a call as a task
#ifndef PYD_PROGRAM_INVOCATION_H_
#define PYD_PROGRAM_INVOCATION_H_

#include "program/plan/plan.h"
#include "program/procedure/state.h"

// The one or two values that an OBSERVE step recorded for a check of a test.
typedef struct pyd_observation_s {
  uint32_t check;
  uint32_t count;
  pyd_cell_t cells[2];
  pyd_slot_type_t types[2];
} pyd_observation_t;

// Results of a call of a procedure, and the values that it observed for checks. They outlive the call.
struct pyd_invocation_s {
  const pyd_procedure_t* p;
  pyd_cell_t* results;
  pyd_observation_t* observations;
  uint32_t observation_count, observation_capacity;
};

// The activation record of a running call.
typedef struct pyd_frame_s {
  pyd_state_t* state;
  const pyd_procedure_t* p;
  pyd_invocation_t* invocation;
  const pyd_interrupt_t* interrupt;    // or NULL
  pyd_task_t* task;                    // of a submitted call; else NULL
  pyd_procedure_observer_t* observer;  // or NULL
  void* const* input_blocks;           // per argument: its device block, or NULL; NULL: all inputs are in host memory
  pyd_memory_t result_memory;          // where tensor results are allocated
  pyd_cell_t* slots;
  // Per global: the value that this call has stored, or its snapshot of a mutable global; NULL if it does neither.
  pyd_cell_t* local_globals;
  pyd_cell_t* moves;  // sources of the MOVE step that runs
  // Scratch arrays of the RUN step that runs:
  int64_t* dims;
  uint64_t* scalars;
  uint64_t* regs;
  pyd_tensor_t** staged;       // per argument: an aligned copy, or NULL
  pyd_tensor_t** new_results;  // per result
} pyd_frame_t;

// Returns the cell of |slot| for reading. INVALID_ARGUMENT when the slot is empty.
pyd_status_t pyd_frame_read(const pyd_frame_t* frame, uint32_t slot, pyd_cell_t** out_cell);

// steps.c: runs any step but JUMP, BRANCH and RETURN.
pyd_status_t pyd_frame_step(pyd_frame_t* frame, const pyd_step_t* step);
// Runs a RETURN step: stores the values of its slots as the results.
pyd_status_t pyd_frame_return(pyd_frame_t* frame, const pyd_step_t* step);

// function.c: runs a RUN step, which calls a function.
pyd_status_t pyd_frame_run(pyd_frame_t* frame, const pyd_step_t* step);

#endif  // PYD_PROGRAM_INVOCATION_H_
