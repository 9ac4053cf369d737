// Creation of plans, in this order: check arguments, compute registers and run checks, size buffers, create commands,
// stage misaligned bindings, form steps, lay out the arena, sort patches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/carve.h"
#include "program/plan/plan.h"

typedef long long ll_t;
typedef unsigned long long ull_t;

// Checks the sizes |dims| of tensor argument |index| against the declared ones, which are -1 where any size is allowed,
// and computes the bytes of the tensor.
pyd_status_t pyd_program_check_argument(const pyd_program_function_t* function, uint32_t index, const int64_t* dims,
                                        uint64_t* out_bytes) {
  const pyd_program_value_t* arg = &function->args[index];
  char who[128];
  for (uint32_t axis = 0; axis < arg->rank; ++axis) {
    int64_t expected = arg->dims[axis];
    if (dims[axis] >= 0 && (expected == -1 || expected == dims[axis])) continue;
    pyd_plan_name_value("argument", index, arg->name, who, sizeof(who));
    if (expected == -1) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%.*s: %s: axis %u has the negative size %lld",
                             STRING(function->name), who, axis, (ll_t)dims[axis]);
    }
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%.*s: %s: axis %u: expected %lld elements, got %lld",
                           STRING(function->name), who, axis, (ll_t)expected, (ll_t)dims[axis]);
  }
  if (pyd_tensor_bytes(arg->dtype, arg->rank, dims, out_bytes)) return PYD_STATUS_OK;
  pyd_plan_name_value("argument", index, arg->name, who, sizeof(who));
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%.*s: %s: its sizes multiply to more than 2^63 bytes",
                         STRING(function->name), who);
}

// Checks the sizes of all tensor arguments, which |dims| holds one after another, and computes the bytes of their
// buffers.
static pyd_status_t check_arguments(const pyd_function_t* fn, const int64_t* dims, uint64_t* buffer_bytes) {
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) {
    if (fn->info.args[i].kind != PYD_KIND_TENSOR) continue;
    uint64_t bytes;
    pyd_status_t status = pyd_program_check_argument(&fn->info, i, dims + fn->args[i].first_dim, &bytes);
    if (!pyd_ok(status)) return status;
    if (fn->args[i].buffer != PYD_NONE) buffer_bytes[fn->args[i].buffer] = bytes;  // NONE: only the sizes are used
  }
  return PYD_STATUS_OK;
}

// Returns the bytes of a constant in |*out_bytes|. INVALID_ARGUMENT if it is not linked.
static pyd_status_t size_constant(const pyd_plan_t* plan, uint32_t index, uint64_t* out_bytes) {
  const pyd_program_t* program = plan->program;
  *out_bytes = program->constants[index].length;
  const bool is_derived = program->constants[index].derivation != PYD_NONE;
  // A derived constant counts as linked if the program has a table for derived constants: a call computes its bytes.
  const bool is_linked = is_derived ? program->derived != NULL : program->constant_links[index].data != NULL;
  if (is_linked) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s': constant %u ('%.*s') is not linked",
                         STRING(plan->fn->info.name), index, STRING(program->constants[index].member));
}

// Computes the bytes of constant, result and transient buffers. INVALID_ARGUMENT for a constant that is not linked.
static pyd_status_t size_buffers(pyd_plan_t* plan) {
  const pyd_function_t* fn = plan->fn;
  char who[128];
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    const pyd_buffer_t* buffer = &fn->buffers[i];
    plan->buffer_alignment[i] = 1;
    if (buffer->kind == PYD_BUFFER_CONSTANT) {
      pyd_status_t status = size_constant(plan, buffer->index, &plan->buffer_bytes[i]);
      if (!pyd_ok(status)) return status;
    } else if (buffer->kind != PYD_BUFFER_ARGUMENT) {  // check_arguments() has set the bytes of arguments
      plan->buffer_bytes[i] = plan->regs[buffer->size_reg];
      if (plan->buffer_bytes[i] <= INT64_MAX) continue;
      pyd_plan_name_buffer(fn, i, who, sizeof(who));
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s': %s would have %lld bytes",
                             STRING(fn->info.name), who, (ll_t)plan->buffer_bytes[i]);
    }
  }
  return PYD_STATUS_OK;
}

// Computes the sizes of tensor result |index| and checks that its buffer is large enough.
static pyd_status_t size_result(pyd_plan_t* plan, uint32_t index) {
  const pyd_string_t name = plan->fn->info.name;
  const pyd_program_value_t* result = &plan->fn->info.results[index];
  const pyd_result_slot_t* slot = &plan->fn->results[index];
  int64_t* dims = plan->result_dims + slot->first_dim;
  for (uint32_t axis = 0; axis < result->rank; ++axis) {
    dims[axis] = (int64_t)plan->regs[slot->dims[axis]];
    if (dims[axis] >= 0) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', result %u: axis %u would have %lld elements",
                           STRING(name), index, axis, (ll_t)dims[axis]);
  }
  uint64_t bytes, buffer_bytes = plan->buffer_bytes[slot->target];
  if (!pyd_tensor_bytes(result->dtype, result->rank, dims, &bytes)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "function '%.*s', result %u: its sizes multiply to more than 2^63 bytes", STRING(name),
                           index);
  }
  if (bytes <= buffer_bytes) return PYD_STATUS_OK;
  // The caller would read past the end of the buffer.
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "function '%.*s', result %u: a buffer of %llu bytes for a tensor of %llu", STRING(name), index,
                         (ull_t)buffer_bytes, (ull_t)bytes);
}

// Computes the sizes of all tensor results and checks that their buffers are large enough.
static pyd_status_t size_results(pyd_plan_t* plan) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < plan->fn->info.result_count && pyd_ok(status); ++i) {
    if (plan->fn->info.results[i].kind == PYD_KIND_TENSOR) status = size_result(plan, i);
  }
  return status;
}

// Returns whether a buffer is a transient that is stored whole, rather than only the tiles that a chain works on.
static bool is_in_arena(const pyd_plan_t* plan, uint32_t buffer) {
  return plan->fn->buffers[buffer].kind == PYD_BUFFER_TRANSIENT && !plan->buffer_tile_bytes[buffer];
}

// Adds the staging buffer at the end of the arena, whose size is a multiple of 64 bytes. OUT_OF_MEMORY.
static pyd_status_t place_stage(pyd_plan_t* plan) {
  if (!plan->stage_bytes) return PYD_STATUS_OK;
  plan->stage_offset = plan->arena_bytes;
  if (__builtin_add_overflow(plan->arena_bytes, plan->stage_bytes, &plan->arena_bytes) ||
      plan->arena_bytes > INT64_MAX) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "transient buffers need more than 2^63 bytes");
  }
  return PYD_STATUS_OK;
}

// Lays out the transient buffers in the arena, the block of memory that a call allocates, with the staging buffer at
// its end.
static pyd_status_t place_transients(pyd_plan_t* plan) {
  const pyd_function_t* fn = plan->fn;
  pyd_arena_block_t* blocks = malloc(((size_t)fn->buffer_count + 1) * sizeof(*blocks));
  if (!blocks) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to place %u buffers", fn->buffer_count);
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    const pyd_buffer_t* buffer = &fn->buffers[i];
    blocks[i] = (pyd_arena_block_t){plan->buffer_bytes[i], buffer->first, buffer->last, 0};
  }
  pyd_status_t status = pyd_plan_place_tiles(plan, blocks);  // before the arena: it extends the lifetimes of blocks
  uint32_t count = 0;  // blocks of the arena, which are moved to the front of |blocks|
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    if (is_in_arena(plan, i)) blocks[count++] = blocks[i];
  }
  if (pyd_ok(status)) status = pyd_arena_place(blocks, count, &plan->arena_bytes);
  count = 0;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    if (is_in_arena(plan, i)) plan->buffer_offset[i] = blocks[count++].offset;
  }
  free(blocks);
  return pyd_ok(status) ? place_stage(plan) : status;
}

// Sorts the slots by buffer (counting sort), so that binding a buffer patches its own slots only: those of buffer b
// become the patches from number patch_first[b] to patch_first[b + 1].
static void sort_patches(pyd_plan_t* plan) {
  uint32_t* first = plan->patch_first;
  for (uint32_t i = 0; i < plan->slot_count; ++i) ++first[plan->slots[i].buffer + 1];  // slots of the buffer
  uint32_t buffers = plan->fn->buffer_count + 1;
  for (uint32_t i = 0; i < buffers; ++i) first[i + 1] += first[i];
  // This loop uses first[b] as a cursor, which ends at the end of buffer b, the start of buffer b + 1. The last loop
  // moves each value to the entry of that buffer.
  for (uint32_t i = 0; i < plan->slot_count; ++i) {
    const pyd_plan_slot_t* slot = &plan->slots[i];
    plan->patches[first[slot->buffer]++] = (pyd_plan_patch_t){slot->offset, i};
  }
  for (uint32_t i = buffers; i > 0; --i) first[i] = first[i - 1];
  first[0] = 0;
}

// Groups the commands into steps, each of which runs as one job. A chain (commands that run interleaved, tile by tile)
// is a step; otherwise all commands of a region (between two barriers) are. An empty command joins the step before it,
// if that is no chain, and adds no index to the job.
static pyd_status_t form_steps(pyd_plan_t* plan) {
  pyd_plan_step_t* step = NULL;
  for (uint32_t i = 0; i < plan->command_count; ++i) {
    pyd_plan_command_t* command = &plan->commands[i];
    if (pyd_plan_form_chain(plan, i, &plan->steps[plan->step_count])) {
      i += plan->steps[plan->step_count++].command_count - 1;  // the loop adds 1
      step = NULL;
      continue;
    }
    if (command->count == 0) {
      command->start = step ? step->total : 0;
      if (step) ++step->command_count;
      continue;
    }
    const bool begins_step = !step || plan->commands[step->first_command].region != command->region;
    if (begins_step) {
      step = &plan->steps[plan->step_count++];
      *step = (pyd_plan_step_t){.first_command = i};
    }
    command->start = step->total;
    ++step->command_count;
    if (__builtin_add_overflow(step->total, command->count, &step->total)) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s': region %u has more than 2^64 workgroups",
                             STRING(plan->fn->info.name), command->region);
    }
  }
  return PYD_STATUS_OK;
}

// Lays out the plan and its arrays in one allocation at |base|. Returns its size in bytes; with |base| NULL does
// nothing else. Counts are below 2^32, so that sums of them do not overflow.
static size_t lay_out(pyd_plan_t* plan, const pyd_function_t* fn, uint8_t* base) {
  pyd_carve_t block = {.base = base, .size = sizeof(*plan), .alignment = 16};
  // Each staged binding adds two copies, of two slots each. The staging buffer counts as one buffer more.
  size_t staged = pyd_plan_stage_count(fn);
  size_t commands = fn->command_count + 2 * staged, slots = fn->slot_count + 4 * staged;
  PYD_CARVE(&block, plan->dims, fn->info.dims_count);
  PYD_CARVE(&block, plan->scalars, fn->scalar_count);
  PYD_CARVE(&block, plan->regs, fn->reg_count);
  PYD_CARVE(&block, plan->result_dims, fn->result_dims_count);
  PYD_CARVE(&block, plan->buffer_bytes, fn->buffer_count);
  PYD_CARVE(&block, plan->buffer_offset, fn->buffer_count);
  PYD_CARVE(&block, plan->buffer_alignment, fn->buffer_count);
  PYD_CARVE(&block, plan->buffer_tile_bytes, (size_t)fn->buffer_count + 1);
  PYD_CARVE(&block, plan->patch_first, (size_t)fn->buffer_count + 2);
  PYD_CARVE(&block, plan->patches, slots);
  PYD_CARVE(&block, plan->slots, slots);
  PYD_CARVE(&block, plan->constants, fn->constant_count);
  PYD_CARVE(&block, plan->deferred, fn->deferred_value_count);
  PYD_CARVE(&block, plan->sizes, fn->custom.sizes);
  PYD_CARVE(&block, plan->commands, commands);
  PYD_CARVE(&block, plan->steps, commands);
  PYD_CARVE(&block, plan->costs, commands);
  return block.size;
}

// Allocates a plan of |fn| in one block with its arrays, which are zero but for copies of |dims| and |scalars|.
static pyd_status_t allocate(const pyd_program_t* program, const pyd_function_t* fn, const int64_t* dims,
                             const uint64_t* scalars, pyd_plan_t** out_plan) {
  pyd_plan_t measure;
  const size_t size = lay_out(&measure, fn, /* base */ NULL);
  pyd_plan_t* plan = *out_plan = pyd_allocate_zeroed(&program->allocator, size);
  if (!plan) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a plan of function '%.*s'", STRING(fn->info.name));
  }
  lay_out(plan, fn, (uint8_t*)plan);
  plan->size = size;
  plan->allocator = program->allocator;
  plan->program = program;
  plan->fn = fn;
  if (fn->info.dims_count) memcpy(plan->dims, dims, fn->info.dims_count * sizeof(*dims));
  if (fn->scalar_count) memcpy(plan->scalars, scalars, fn->scalar_count * sizeof(*scalars));
  return PYD_STATUS_OK;
}

// Creates the plan of function number |function| for tensor arguments with the sizes |dims|, one after another, and the
// scalar arguments |scalars|.
pyd_status_t pyd_plan_create(const pyd_program_t* program, uint32_t function, const int64_t* dims,
                             const uint64_t* scalars, pyd_plan_t** out_plan) {
  *out_plan = NULL;
  if (function >= program->function_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function %u does not exist, the program has %u", function,
                           program->function_count);
  }
  const pyd_function_t* fn = &program->functions[function];
  pyd_plan_t* plan;
  pyd_status_t status = allocate(program, fn, dims, scalars, &plan);
  if (pyd_ok(status)) status = check_arguments(fn, plan->dims, plan->buffer_bytes);
  if (pyd_ok(status)) status = pyd_function_interpret(program, fn, plan->dims, plan->scalars, plan->regs);
  if (pyd_ok(status)) status = size_buffers(plan);
  if (pyd_ok(status)) status = size_results(plan);
  if (pyd_ok(status)) status = pyd_plan_add_commands(plan);
  if (pyd_ok(status)) status = pyd_plan_stage(plan);
  if (pyd_ok(status)) status = form_steps(plan);
  if (pyd_ok(status)) status = place_transients(plan);
  if (pyd_ok(status)) sort_patches(plan);
  if (pyd_ok(status)) pyd_plan_expect_costs(plan);
  if (!pyd_ok(status)) {
    pyd_plan_free(plan);
    return status;
  }
  *out_plan = plan;
  return PYD_STATUS_OK;
}

// Frees a plan, of which no call exists any more.
void pyd_plan_free(pyd_plan_t* plan) {
  if (!plan) return;
  const pyd_allocator_t allocator = plan->allocator;
  pyd_deallocate(&allocator, plan, plan->size);
}
