// Procedures: functions of a host program with control flow, values that are read back, globals and checks.
//
//   program ─ link ─ state ─ initialize ─ call ─ invocation: results and values observed by checks
//
// A state holds what one loaded program keeps between calls: globals, and plans of the functions that procedures run.
// It may be used from any thread; calls of procedures that store to globals are serialized; other calls do not wait,
// and see the globals as they were when the calls began. An invocation belongs to one thread at a time.
#ifndef PYDISPATCH_PROCEDURE_H_
#define PYDISPATCH_PROCEDURE_H_

#include "pydispatch/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_state_s pyd_state_t;
typedef struct pyd_invocation_s pyd_invocation_t;

// |program| is linked, constants included; it, the scheduler (may be NULL) and the pool outlive the state, and the pool
// outlives the invocations. Globals have their initial values.
pyd_status_t pyd_state_create(const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool,
                              pyd_state_t** out_state);
// Runs the initializers, in order, and stops at the first that fails. To be called once, before any call.
// |interrupt| may be NULL.
pyd_status_t pyd_state_initialize(pyd_state_t* state, const pyd_interrupt_t* interrupt);
// No call may be running.
void pyd_state_free(pyd_state_t* state);
// Handlers of a fork: |prepare| in the parent, then |done| in the parent and |child| in the child, where calls of other
// threads have ended without storing anything.
void pyd_state_fork_prepare(pyd_state_t* state);
void pyd_state_fork_done(pyd_state_t* state);
void pyd_state_fork_child(pyd_state_t* state);

// An argument. The memory is only read, and only during the call.
typedef struct pyd_input_s {
  const void* data;     // of a tensor: its elements, dense and in row-major order
  const int64_t* dims;  // of a tensor: sizes in elements, as many as its rank
  uint64_t word;        // of a scalar: a sign-extended integer, or the bits of a float
} pyd_input_t;

// A result, or a value that a check observed. Valid until the invocation is freed; the data of a result whose block
// pyd_invocation_take has returned, until the caller releases that block.
typedef struct pyd_value_s {
  uint32_t kind;   // PYD_KIND_TENSOR or PYD_KIND_SCALAR
  uint32_t dtype;  // numerical type << 24 | bits, as in docs/program.md
  // Of a tensor; 0 or NULL for a scalar:
  uint32_t rank;
  const int64_t* dims;  // sizes in elements, as many as the rank
  const void* data;     // elements, dense and in row-major order; may be NULL when they are on a device
  uint64_t bytes;       // of the elements
  // Of a scalar: a sign-extended integer, or the bits of a float.
  uint64_t word;
} pyd_value_t;

// Runs |procedure| and returns when it has ended. INVALID_ARGUMENT for mismatched sizes, bad indices, empty slots
// and globals, and for a recursive call of a procedure that stores to globals (from a kernel that the running one
// dispatched, on any thread of a scheduler); KERNEL and OUT_OF_MEMORY as pyd_call_run. |interrupt|, which may be NULL,
// is called at every backward jump, while the call waits for another one to leave the globals, and within its functions
// as pyd_call_run_until does. After a failure every global is unchanged.
pyd_status_t pyd_procedure_call(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                const pyd_interrupt_t* interrupt, pyd_invocation_t** out_invocation);
// Like pyd_procedure_call, for a program whose memory is on a device. |blocks|: per argument, the device block of a
// tensor, or NULL to use the data of the input. Tensor results stay in device blocks, which pyd_invocation_take
// returns.
pyd_status_t pyd_procedure_call_on_device(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                          void* const* blocks, const pyd_interrupt_t* interrupt,
                                          pyd_invocation_t** out_invocation);
// Observer of a timed procedure: |ran| is called on the thread of the call for each function that has run, with its
// plan and the time of each command. The total duration of these calls is added to |nanoseconds|.
typedef struct pyd_procedure_observer_s {
  void (*ran)(void* self, const pyd_plan_t* plan, const pyd_command_time_t* times);
  void* self;
  uint64_t nanoseconds;
} pyd_procedure_observer_t;
// Runs as pyd_procedure_call, but one command after another, as pyd_call_run_timed does. UNSUPPORTED where that is.
pyd_status_t pyd_procedure_call_timed(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                      const pyd_interrupt_t* interrupt, pyd_procedure_observer_t* observer,
                                      pyd_invocation_t** out_invocation);
void pyd_invocation_free(pyd_invocation_t* invocation);

// False when |index| is too large.
bool pyd_invocation_result(const pyd_invocation_t* invocation, uint32_t index, pyd_value_t* out_value);
// Transfers ownership of the block of a tensor result, of the pool or of the device, to the caller; NULL when there is
// none. Nothing else uses the memory. The result is at the beginning of a block of the device.
void* pyd_invocation_take(pyd_invocation_t* invocation, uint32_t index);

uint32_t pyd_invocation_observation_count(const pyd_invocation_t* invocation);
// The index of the check, and how many values it observed. False when |index| is too large.
bool pyd_invocation_observation(const pyd_invocation_t* invocation, uint32_t index, uint32_t* out_check,
                                uint32_t* out_count);
bool pyd_invocation_observed(const pyd_invocation_t* invocation, uint32_t index, uint32_t value,
                             pyd_value_t* out_value);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PROCEDURE_H_
