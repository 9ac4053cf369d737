// A call: a plan with bound memory, ready to run. See program.h for its use by threads.
//
// Order of the files. Each calls only files above it:
//   call.c     creation and binding of calls; owns pyd_call_t
//   chain.c    execution of chains, tile by tile
//   traced.c   execution of commands while a trace is recorded
//   run.c      execution of a call on the caller's thread
//   timed.c    execution of one command after another, with times
//   submit.c   a call as a task
//   batch.c    many calls as one task
#ifndef PYD_PROGRAM_CALL_H_
#define PYD_PROGRAM_CALL_H_

#include "base/embedded_library.h"
#include "program/plan/plan.h"

// Runs indices [begin, end) of a command. Returns 0, or the code with which index |*out_failed| of its step failed.
typedef struct pyd_call_command_s pyd_call_command_t;
typedef int32_t (*pyd_command_run_t)(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                                     uint64_t begin, uint64_t end, uint64_t* out_failed);

// One command of a call, ready to run: the arguments of its kernel or host command, in two cache lines.
struct pyd_call_command_s {
  pyd_dispatch_state_t state;       // kernels require 16-byte alignment
  pyd_workgroup_state_t workgroup;  // of workgroup (0, 0, 0) on worker 0
  pyd_dispatch_fn_t function;       // of a dispatch, else NULL
  union {
    const pyd_environment_t* environment;  // of a dispatch
    struct pyd_custom_s* custom;           // of a host command: commands/custom.c
  };
  const pyd_plan_command_t* plan;
  uint64_t pattern;  // of a fill
  pyd_command_run_t run;
  bool is_embedded;  // |function| has the calling convention of embedded code
};

// A call of a plan: addresses of its buffers, and the values that its commands receive.
struct pyd_call_s {
  const pyd_plan_t* plan;
  pyd_sched_t* sched;  // may be NULL: the caller runs everything
  pyd_pool_t* pool;    // of arenas; may be NULL: the arena is part of the call
  pyd_trace_t* trace;  // of the scheduler; may be NULL
  uint32_t workers;
  uint32_t unbound;    // number of arguments and results without an address
  bool is_late_stale;  // scalars have changed since the late values were computed
  bool is_underived;   // some derived constants are not computed yet and have no address
  bool is_arena_kept;  // the arena is part of the call
  bool is_poisoned;    // local memory is filled before each workgroup, to find kernels that read it uninitialized
  pyd_call_command_t* commands;  // by command of the plan
  void** pointers;               // by slot (a buffer range that a command uses): its address
  size_t* lengths;               // by slot: bytes
  uint32_t* constants;           // words that dispatches and host commands receive, in the order of commands
  struct pyd_custom_s* customs;  // one for each host command
  pyd_host_operand_t* operands;  // of all host commands, one after another
  uint64_t* regs;                // values of the function's registers: the plan's array, or a copy if some are late,
                                 // that is, depend on scalars outside of the plan's key
  uint64_t* scalars;             // by scalar argument
  uint8_t* is_bound;             // by buffer
  uint8_t* scratch;              // local memory, plan->local_bytes per worker
  uint8_t* arena;                // if is_arena_kept
  uint8_t* tiles;                // after the arena: plan->tile_area bytes per worker
  uint64_t arena_bytes;          // including the tiles
  void* memory;                  // the allocation, of |memory_size| bytes
  size_t memory_size;
};

// call.c: writes the address of |buffer| to every slot that uses it.
static inline void pyd_call_patch(pyd_call_t* call, uint32_t buffer, const void* data) {
  const pyd_plan_t* plan = call->plan;
  const pyd_plan_patch_t* end = plan->patches + plan->patch_first[buffer + 1];
  for (const pyd_plan_patch_t* patch = plan->patches + plan->patch_first[buffer]; patch < end; ++patch) {
    call->pointers[patch->slot] = (void*)((uintptr_t)data + patch->offset);
  }
}

// commands/custom.c, which defines pyd_custom_t.
extern const size_t pyd_custom_size;
void pyd_call_free_customs(pyd_call_t* call);
// INVALID_ARGUMENT if this thread runs inside a host command of the same program.
pyd_status_t pyd_call_refuse_nested(const pyd_call_t* call);
// run.c: runs a call like pyd_call_run(), with device blocks in place of addresses.
pyd_status_t pyd_call_run_on_device(pyd_call_t* call);

// Writes the addresses of all transient buffers for an arena at |arena|.
void pyd_call_patch_arena(pyd_call_t* call, uint8_t* arena);
// Writes the addresses of all constants. With |derives| it computes derived constants first; otherwise it skips those
// that are not computed yet and sets |is_underived|.
pyd_status_t pyd_call_bind_constants(pyd_call_t* call, bool derives, const pyd_interrupt_t* interrupt);

#endif  // PYD_PROGRAM_CALL_H_
