// A call: the memory that kernels of one execution are handed. See program.h for who may use it.
//
// Order of the files. Each calls those above it alone:
//   call.c     making and filling a call; owns pyd_call_t
//   chain.c    running dispatches tile by tile
//   traced.c   running commands while a trace is on
//   run.c      running a call on the caller's thread
//   timed.c    running a call one command after another, with times
//   submit.c   a call as a task
//   batch.c    many calls as one task
#ifndef PYD_PROGRAM_CALL_H_
#define PYD_PROGRAM_CALL_H_

#include "base/embedded_library.h"
#include "program/plan/plan.h"

// Runs indices [begin, end) of a command. Not 0: the code with which index |*out_failed| of its step failed.
typedef struct pyd_call_command_s pyd_call_command_t;
typedef int32_t (*pyd_command_run_t)(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                                     uint64_t begin, uint64_t end, uint64_t* out_failed);

// What running one command touches, in two cache lines.
struct pyd_call_command_s {
  pyd_dispatch_state_t state;       // kernels want it 16-byte aligned
  pyd_workgroup_state_t workgroup;  // of workgroup (0, 0, 0) on worker 0
  pyd_dispatch_fn_t function;       // of a dispatch, else NULL
  union {
    const pyd_environment_t* environment;  // of a dispatch
    struct pyd_custom_s* custom;           // of a host command: commands/custom.c
  };
  const pyd_plan_command_t* plan;
  uint64_t pattern;
  pyd_command_run_t run;
  bool is_embedded;  // see base/embedded_library.h
};

struct pyd_call_s {
  const pyd_plan_t* plan;
  pyd_sched_t* sched;  // may be NULL: the caller runs everything
  pyd_pool_t* pool;
  pyd_trace_t* trace;  // of the scheduler; may be NULL
  uint32_t workers;
  uint32_t unbound;    // arguments and results without an address
  bool is_late_stale;  // late values wait to be computed
  bool is_underived;   // constants that were not derived yet have no address
  bool is_arena_kept;
  bool is_poisoned;  // workgroups get local memory that is filled
  pyd_call_command_t* commands;
  void** pointers;  // by slot
  size_t* lengths;  // by slot
  uint32_t* constants;
  struct pyd_custom_s* customs;  // one for each host command
  pyd_host_operand_t* operands;  // of all of them
  uint64_t* regs;                // the plan's own when nothing is late
  uint64_t* scalars;
  uint8_t* is_bound;     // by buffer
  uint8_t* scratch;      // local memory, plan->local_bytes per worker
  uint8_t* arena;        // when kept
  uint8_t* tiles;        // behind the arena: plan->tile_area per worker
  uint64_t arena_bytes;  // with the tiles
  void* memory;          // what was allocated: |memory_size| bytes
  size_t memory_size;
};

// call.c: gives |buffer| an address in every slot that names it.
static inline void pyd_call_patch(pyd_call_t* call, uint32_t buffer, const void* data) {
  const pyd_plan_t* plan = call->plan;
  const pyd_plan_patch_t* end = plan->patches + plan->patch_first[buffer + 1];
  for (const pyd_plan_patch_t* patch = plan->patches + plan->patch_first[buffer]; patch < end; ++patch) {
    call->pointers[patch->slot] = (void*)((uintptr_t)data + patch->offset);
  }
}

// commands/custom.c, which alone knows what a pyd_custom_t is.
extern const size_t pyd_custom_size;
void pyd_call_free_customs(pyd_call_t* call);
// INVALID_ARGUMENT when a host command of the same program is what this thread works for.
pyd_status_t pyd_call_refuse_nested(const pyd_call_t* call);
// run.c: as pyd_call_run, with blocks of the device in place of addresses.
pyd_status_t pyd_call_run_on_device(pyd_call_t* call);

void pyd_call_patch_arena(pyd_call_t* call, uint8_t* arena);
// Gives the constants their addresses. Those that were not derived yet are derived first with |derives|, else left out:
// |is_underived|.
pyd_status_t pyd_call_bind_constants(pyd_call_t* call, bool derives, const pyd_interrupt_t* interrupt);

#endif  // PYD_PROGRAM_CALL_H_
