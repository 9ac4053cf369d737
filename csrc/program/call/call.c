// Creation and binding of calls. Everything that is the same in all runs is written here, once. Derived constants get
// their addresses in the first run, so that creating and submitting a call do not block, and an interrupt can end the
// computation of constants.
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/carve.h"
#include "program/commands/command.h"
#include "program/derived.h"

_Static_assert(sizeof(pyd_call_command_t) == 128, "two cache lines");

// Alignment of a call's memory in bytes.
enum { kCacheLine = 64 };

// Lays out the arrays of a call from |base| on, which is aligned to a cache line, or only measures when it is NULL.
// Returns the size in bytes.
static size_t lay_out(pyd_call_t* call, const pyd_plan_t* plan, uint8_t* base) {
  const pyd_function_t* fn = plan->fn;
  pyd_carve_t block = {base, sizeof(*call), kCacheLine};
  PYD_CARVE(&block, call->commands, plan->command_count);
  PYD_CARVE(&block, call->pointers, plan->slot_count);
  PYD_CARVE(&block, call->lengths, plan->slot_count);
  PYD_CARVE(&block, call->constants, plan->constant_count);
  call->customs = pyd_carve(&block, plan->custom.commands, pyd_custom_size);
  PYD_CARVE(&block, call->operands, plan->custom.operands);
  // Without registers of its own, a call uses the registers of the plan.
  PYD_CARVE(&block, call->regs, fn->deferred_count ? fn->reg_count : 0);
  PYD_CARVE(&block, call->scalars, fn->scalar_count);
  PYD_CARVE(&block, call->is_bound, fn->buffer_count);
  call->scratch = pyd_carve(&block, call->workers, plan->local_bytes);
  // Otherwise each run acquires an arena from the pool.
  PYD_CARVE(&block, call->arena, call->is_arena_kept ? call->arena_bytes : 0);
  return block.size;
}

// Returns whether a buffer is a derived constant (one that a function computes from other constants) that is not
// computed yet.
static bool needs_derivation(const pyd_program_t* program, const pyd_buffer_t* buffer) {
  return buffer->kind == PYD_BUFFER_CONSTANT && pyd_constant_is_derived(program, buffer->index) &&
         !pyd_constant_bytes(program, buffer->index);
}

// A derived constant that is not computed yet: its size, and its number in the program.
typedef struct missing_s {
  uint64_t bytes;
  uint32_t index;
} missing_t;

// Compares by falling size; equal ones by number, so that the order does not depend on qsort.
static int by_falling_size(const void* left, const void* right) {
  const missing_t *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}

// Derives all constants that |fn| reads, the largest one first: the memory of its sources, which is dropped afterwards,
// is then needed while few other derived constants use memory.
static pyd_status_t derive_constants(const pyd_program_t* program, const pyd_function_t* fn,
                                     const pyd_interrupt_t* interrupt) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) count += needs_derivation(program, &fn->buffers[i]);
  if (!count) return PYD_STATUS_OK;
  missing_t* missing = malloc(count * sizeof(*missing));
  if (!missing) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the order of %u derivations", count);
  uint32_t filled = 0;  // another thread may have derived some since they were counted
  for (uint32_t i = 0; i < fn->buffer_count && filled < count; ++i) {
    if (!needs_derivation(program, &fn->buffers[i])) continue;
    uint32_t index = fn->buffers[i].index;
    missing[filled++] = (missing_t){program->constants[index].length, index};
  }
  qsort(missing, filled, sizeof(*missing), by_falling_size);
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < filled && pyd_ok(status); ++i) {
    status = program->derived->derive(program, missing[i].index, interrupt);
  }
  free(missing);
  return status;
}

// Returns the failure of a constant in |buffer| whose bytes at |data| are less aligned than executables need.
static pyd_status_t misaligned(const pyd_call_t* call, uint32_t buffer, const uint8_t* data) {
  uint32_t index = call->plan->fn->buffers[buffer].index;
  pyd_string_t member = call->plan->program->constants[index].member;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "constant %u ('%.*s') at address %p is not aligned to %u bytes, as the executables that read "
                         "it need",
                         index, (int)member.length, member.data, (const void*)data,
                         call->plan->buffer_alignment[buffer]);
}

// Writes the addresses of all constants to the slots that use them. |derives|: computes missing derived constants
// first, which |interrupt| may end; otherwise they stay without an address, and |call->is_underived| is set.
pyd_status_t pyd_call_bind_constants(pyd_call_t* call, bool derives, const pyd_interrupt_t* interrupt) {
  const pyd_function_t* fn = call->plan->fn;
  const pyd_program_t* program = call->plan->program;
  call->is_underived = false;
  if (derives && !program->runner.run) {  // a runner: a device runs whole calls
    pyd_status_t status = derive_constants(program, fn, interrupt);
    call->is_underived = !pyd_ok(status);
    if (!pyd_ok(status)) return status;
  }
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    if (fn->buffers[i].kind != PYD_BUFFER_CONSTANT) continue;
    const uint32_t index = fn->buffers[i].index;
    if (program->runner.run && program->constants[index].derivation != PYD_NONE)
      continue;  // a device computes derived constants by itself
    if (needs_derivation(program, &fn->buffers[i])) {
      call->is_underived = true;
      continue;
    }
    const uint8_t* data = pyd_constant_bytes(program, index);
    if (!data) return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "constant %u is not linked", index);
    if ((uintptr_t)data % call->plan->buffer_alignment[i] && call->plan->buffer_bytes[i])
      return misaligned(call, i, data);
    pyd_call_patch(call, i, data);
  }
  return PYD_STATUS_OK;
}

// Returns a call without memory: its plan, number of workers, and the size and lifetime of its arena (the memory of all
// transients).
static pyd_call_t make_head(const pyd_plan_t* plan, pyd_sched_t* sched, pyd_pool_t* pool) {
  pyd_call_t head = {
      .plan = plan,
      .sched = sched,
      .pool = pool,
      .trace = pyd_sched_trace(sched),
      .workers = sched ? pyd_sched_workers(sched) : 1,
      .is_late_stale = false,
  };
  // After the memory of all transients, each worker has an area for the tiles of transients of which only tiles are
  // stored. The two summands are below 2^63 and 2^43, so the sum does not overflow.
  head.arena_bytes = plan->arena_bytes + plan->tile_area * head.workers;
  head.is_poisoned = pool && pyd_pool_is_poisoned(pool);
  // With a poisoned pool each run acquires a newly filled arena, so that no run sees data of an earlier one.
  const uint64_t max_kept = head.is_poisoned ? 0 : PYD_ARENA_KEPT_BYTES;
  head.is_arena_kept = head.arena_bytes <= max_kept || !pool;  // without a pool, no run could acquire it
  return head;
}

// Allocates a call that begins with |head|, with its arrays, in one aligned block. The arrays are zero, but local
// memory and the arena are uninitialized. OUT_OF_MEMORY.
static pyd_status_t allocate_call(const pyd_call_t* head, pyd_call_t** out_call) {
  const pyd_plan_t* plan = head->plan;
  uint64_t local_bytes = (uint64_t)plan->local_bytes * head->workers;
  // A quarter of the address space each, so that the sum with the other arrays does not overflow.
  bool fits = local_bytes < SIZE_MAX / 4 && (!head->is_arena_kept || head->arena_bytes < SIZE_MAX / 4);
  size_t size = 0;
  if (fits) {
    pyd_call_t measured = *head;
    size = lay_out(&measured, plan, NULL) + kCacheLine;  // the block starts at a cache line in |memory|
  }
  uint8_t* memory = fits ? pyd_allocate(&plan->allocator, size) : NULL;
  if (!memory) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY,
                           "no memory for a call of function '%.*s': %llu bytes of local memory, "
                           "%llu of transients",
                           (int)plan->fn->info.name.length, plan->fn->info.name.data, (unsigned long long)local_bytes,
                           (unsigned long long)head->arena_bytes);
  }
  uint8_t* base = (uint8_t*)(((uintptr_t)memory + kCacheLine - 1) & ~(uintptr_t)(kCacheLine - 1));
  pyd_call_t* call = *out_call = (pyd_call_t*)base;
  *call = *head;
  call->memory = memory;
  call->memory_size = size;
  lay_out(call, plan, base);
  // All arrays between the structure and |scratch|; local memory and the arena come after them.
  memset(call + 1, 0, (size_t)(call->scratch - (uint8_t*)(call + 1)));
  return PYD_STATUS_OK;
}

// Copies what is the same in all runs from the plan: constants, scalars, registers, lengths and commands. Counts the
// buffers that the caller must bind.
static void fill_from_plan(pyd_call_t* call) {
  const pyd_plan_t* plan = call->plan;
  const pyd_function_t* fn = plan->fn;
  if (plan->constant_count) memcpy(call->constants, plan->constants, plan->constant_count * sizeof(*plan->constants));
  if (fn->scalar_count) memcpy(call->scalars, plan->scalars, fn->scalar_count * sizeof(*plan->scalars));
  if (fn->deferred_count) {  // each call computes some registers; otherwise all calls share the registers of the plan
    memcpy(call->regs, plan->regs, fn->reg_count * sizeof(*plan->regs));
  } else {
    call->regs = plan->regs;
  }
  for (uint32_t i = 0; i < plan->slot_count; ++i) call->lengths[i] = plan->slots[i].length;
  for (uint32_t i = 0; i < plan->command_count; ++i) {
    const pyd_command_type_t* type = pyd_command_type(&plan->commands[i]);
    call->commands[i].plan = &plan->commands[i];
    call->commands[i].pattern = plan->commands[i].pattern;
    call->commands[i].run = type->run;
    if (type->prepare) type->prepare(call, &plan->commands[i], &call->commands[i]);
  }
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    call->unbound += fn->buffers[i].kind == PYD_BUFFER_ARGUMENT || fn->buffers[i].kind == PYD_BUFFER_RESULT;
  }
}

// Creates a call of |plan|. |sched| and |pool| may be NULL: the caller's thread runs everything; the call owns the
// memory of transients.
pyd_status_t pyd_call_create(const pyd_plan_t* plan, pyd_sched_t* sched, pyd_pool_t* pool, pyd_call_t** out_call) {
  *out_call = NULL;
  const pyd_call_t head = make_head(plan, sched, pool);
  pyd_call_t* call = NULL;
  pyd_status_t status = allocate_call(&head, &call);
  if (!pyd_ok(status)) return status;
  fill_from_plan(call);
  status = pyd_call_bind_constants(call, /* derives */ false, NULL);
  if (call->is_arena_kept) pyd_call_patch_arena(call, call->arena);
  if (!pyd_ok(status)) {
    pyd_call_free(call);
    return status;
  }
  *out_call = call;
  return PYD_STATUS_OK;
}

// Frees a call; its plan remains.
void pyd_call_free(pyd_call_t* call) {
  if (!call) return;
  if (call->plan->custom.commands) pyd_call_free_customs(call);
  pyd_deallocate(&call->plan->allocator, call->memory, call->memory_size);
}

// Sets the address of the arena, the memory of all transients: writes the addresses of the transients and of the
// staging buffer to the slots (buffer ranges of commands) that use them, and sets |call->tiles|. |arena|:
// |call->arena_bytes| bytes, |call->arena| or a block of the pool.
void pyd_call_patch_arena(pyd_call_t* call, uint8_t* arena) {
  const pyd_function_t* fn = call->plan->fn;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    // chain.c binds transients of which only tiles are stored.
    if (fn->buffers[i].kind != PYD_BUFFER_TRANSIENT || call->plan->buffer_tile_bytes[i]) continue;
    pyd_call_patch(call, i, arena + call->plan->buffer_offset[i]);
  }
  // The staging buffer, which holds aligned copies of bindings, has the number after those of the function's buffers.
  pyd_call_patch(call, fn->buffer_count, arena + call->plan->stage_offset);
  call->tiles = arena + call->plan->arena_bytes;
}

// Sets the address of an argument's or result's buffer, and counts it as bound at the first time.
static void bind(pyd_call_t* call, uint32_t buffer, const void* data) {
  call->unbound -= !call->is_bound[buffer];
  call->is_bound[buffer] = 1;
  pyd_call_patch(call, buffer, data);
}

// Binds the memory of a tensor argument, which the call borrows until another one is bound. Ignores scalars, unknown
// arguments, and arguments that no command uses, which have no buffer.
void pyd_call_bind_arg(pyd_call_t* call, uint32_t arg, const void* data) {
  const pyd_function_t* fn = call->plan->fn;
  if (arg >= fn->info.arg_count || fn->info.args[arg].kind != PYD_KIND_TENSOR || fn->args[arg].buffer == PYD_NONE)
    return;
  bind(call, fn->args[arg].buffer, data);
}

// Binds the memory of a tensor result. Ignores scalars and unknown results.
void pyd_call_bind_result(pyd_call_t* call, uint32_t result, void* data) {
  const pyd_function_t* fn = call->plan->fn;
  if (result >= fn->info.result_count || fn->info.results[result].kind != PYD_KIND_TENSOR) return;
  bind(call, fn->results[result].target, data);
}

// Forgets the memory of a tensor result: runs fail until memory is bound to it again. Ignores scalars and unknown
// results.
void pyd_call_unbind_result(pyd_call_t* call, uint32_t result) {
  const pyd_function_t* fn = call->plan->fn;
  if (result >= fn->info.result_count || fn->info.results[result].kind != PYD_KIND_TENSOR) return;
  uint8_t* is_bound = &call->is_bound[fn->results[result].target];
  call->unbound += *is_bound;
  *is_bound = 0;
}

// Sets the scalar arguments of later runs: copies one 64-bit word for each. Scalars in the plan's key, the values that
// the plan was specialized for, must be equal to the plan's.
void pyd_call_set_scalars(pyd_call_t* call, const uint64_t* scalars) {
  const pyd_function_t* fn = call->plan->fn;
  if (!fn->deferred_count) return;  // scalars in the plan's key do not change, and nothing depends on others
  memcpy(call->scalars, scalars, fn->scalar_count * sizeof(*scalars));
  call->is_late_stale = true;
}

// Returns the bits of scalar result |result| of the last run; 0 if there is no such scalar.
uint64_t pyd_call_scalar_result(const pyd_call_t* call, uint32_t result) {
  const pyd_function_t* fn = call->plan->fn;
  if (result >= fn->info.result_count || fn->info.results[result].kind != PYD_KIND_SCALAR) return 0;
  return call->regs[fn->results[result].target];
}
