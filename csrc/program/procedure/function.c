// The RUN step: calls a function with the tensors and scalars in slots, and stores its results in slots.
#include <stdlib.h>
#include <string.h>

#include "platform/cpu_inline.h"
#include "program/call/call.h"
#include "program/procedure/invocation.h"

// One execution of a RUN step.
typedef struct run_s {
  pyd_frame_t* frame;
  uint32_t function;  // its number in the program
  const pyd_function_t* fn;
  const uint32_t* inputs;   // by argument: its slot, with PYD_LAST_USE if this step is the last to read the slot
  const uint32_t* outputs;  // by result: the slot that gets it, or NONE: it is dropped
} run_t;

// Returns the cell of the slot from which argument |index| of the function is read.
static pyd_cell_t* input_cell(const run_t* run, uint32_t index) {
  return &run->frame->slots[run->inputs[index] & ~PYD_LAST_USE];
}

// Collects the dims of all tensor arguments and the values of all scalar arguments in the frame. Together they select
// the plan, the cached preparation of the function for these sizes and scalars.
static pyd_status_t gather_arguments(const run_t* run) {
  int64_t* dims = run->frame->dims;
  uint64_t* scalars = run->frame->scalars;
  for (uint32_t i = 0; i < run->fn->info.arg_count; ++i) {
    pyd_cell_t* cell;
    pyd_status_t status = pyd_frame_read(run->frame, run->inputs[i] & ~PYD_LAST_USE, &cell);
    if (!pyd_ok(status)) return status;
    if (!cell->tensor) {
      *scalars++ = cell->word;
      continue;
    }
    if (cell->tensor->rank) memcpy(dims, cell->tensor->dims, cell->tensor->rank * sizeof(*dims));
    dims += cell->tensor->rank;
  }
  return PYD_STATUS_OK;
}

// Clears the slots that this step reads for the last time.
static void drop_inputs(const run_t* run) {
  for (uint32_t i = 0; i < run->fn->info.arg_count; ++i) {
    if (run->inputs[i] & PYD_LAST_USE) pyd_cell_clear(input_cell(run, i));
  }
}

// Runs a function that has neither commands nor buffers, only scalar instructions, without a plan. Reads its arguments
// from the frame: |dims| of tensors and |scalars|.
static pyd_status_t run_scalar_function(const run_t* run) {
  pyd_frame_t* frame = run->frame;
  pyd_status_t status =
      pyd_function_interpret(frame->state->program, run->fn, frame->dims, frame->scalars, frame->regs);
  if (!pyd_ok(status)) return status;
  drop_inputs(run);
  for (uint32_t i = 0; i < run->fn->info.result_count; ++i) {
    if (run->outputs[i] == PYD_NONE) continue;
    pyd_cell_set_word(&frame->slots[run->outputs[i]], frame->regs[run->fn->results[i].target]);
  }
  return status;
}

// Returns whether |tensor| cannot be bound where it is stored: its address is less aligned than the plan needs, or it
// begins inside a device block, because calls on devices bind whole blocks.
static bool needs_copy(const pyd_tensor_t* tensor, uint32_t alignment) {
  if (tensor->memory.device) return tensor->offset != 0;
  return alignment > 1 && (uintptr_t)tensor->data % alignment != 0;
}

// Binds the tensor arguments to the leased call, and sets its scalars. Tensors that cannot be bound in place are
// copied; the copies are in |frame->staged|.
static pyd_status_t bind_inputs(const run_t* run, pyd_state_lease_t lease) {
  pyd_frame_t* frame = run->frame;
  memset(frame->staged, 0, run->fn->info.arg_count * sizeof(*frame->staged));
  for (uint32_t i = 0; i < run->fn->info.arg_count; ++i) {
    const pyd_tensor_t* tensor = input_cell(run, i)->tensor;
    if (!tensor) continue;
    const bool is_on_device = tensor->memory.device != NULL;
    const void* data = is_on_device ? pyd_tensor_owner(tensor)->block : tensor->data;  // devices bind whole blocks
    if (tensor->bytes && needs_copy(tensor, pyd_plan_arg_alignment(lease.entry->plan, i))) {
      pyd_tensor_t* copy;
      pyd_status_t status = pyd_tensor_copy(frame->state->memory, tensor, &copy);
      if (!pyd_ok(status)) return status;
      frame->staged[i] = copy;
      data = copy->block;
    }
    pyd_call_bind_arg(lease.call, i, data);
  }
  if (run->fn->scalar_count) pyd_call_set_scalars(lease.call, frame->scalars);
  return PYD_STATUS_OK;
}

// Returns the tensor of the argument to which result |index| is tied: the function may compute the result in the memory
// of that argument. Returns NULL if this step may not do so: there is no tied argument, a later step reads it, a copy
// of it is bound, or another argument is read from the same slot.
static pyd_tensor_t* last_use_of_tied(const run_t* run, uint32_t index) {
  uint32_t tied = run->fn->info.results[index].tied;  // number of an argument
  if (tied == PYD_NONE) return NULL;
  const bool is_last_use = (run->inputs[tied] & PYD_LAST_USE) != 0;
  const bool is_copied = run->frame->staged[tied] != NULL;
  if (!is_last_use || is_copied) return NULL;
  const uint32_t slot = run->inputs[tied] & ~PYD_LAST_USE;
  for (uint32_t i = 0; i < run->fn->info.arg_count; ++i) {
    const bool is_same_slot = (run->inputs[i] & ~PYD_LAST_USE) == slot;
    if (i != tied && is_same_slot) return NULL;
  }
  return input_cell(run, tied)->tensor;
}

// Returns whether result |index|, of |bytes| bytes, can reuse the block of its tied argument: nothing else refers to
// the block, and the block is large enough.
static bool can_take_over(const run_t* run, uint32_t index, uint64_t bytes) {
  const pyd_tensor_t* tensor = last_use_of_tied(run, index);
  return tensor && pyd_tensor_is_alone(tensor) && tensor->capacity >= bytes;
}

enum { kMaxRanges = 16 };  // written ranges that an update of a global in place may have; each is saved separately

// Creates result |index|, of |bytes| bytes, over the memory of its tied argument, although a global of the program has
// the same memory. A failed call must restore the old value of the global. So this is possible only if the bytes that
// the function overwrites are saved: before by a SAVE step, or here. |*out_made| is NULL if it is not possible.
static pyd_status_t update_global_in_place(const run_t* run, pyd_state_lease_t lease, uint32_t index, pyd_shape_t shape,
                                           uint64_t bytes, pyd_tensor_t** out_made) {
  uint32_t count;
  pyd_range_t ranges[kMaxRanges];
  *out_made = NULL;
  const bool stores_globals = run->frame->p->has_stores;  // only such a procedure restores globals after a failure
  pyd_tensor_t* tensor = stores_globals ? last_use_of_tied(run, index) : NULL;
  if (!tensor || tensor->bytes != bytes) return PYD_STATUS_OK;
  // First way: a SAVE step has saved the rows of the tensor that the function overwrites.
  pyd_status_t status = pyd_state_change_rows(run->frame->state, tensor, shape, out_made);
  if (!pyd_ok(status) || *out_made) return status;
  // Second way: the plan states a few written ranges of the result, and they are small enough to be saved now.
  const bool are_few = pyd_plan_find_written(lease.entry->plan, index, kMaxRanges, ranges, &count);
  return are_few ? pyd_state_change(run->frame->state, tensor, ranges, count, shape, out_made) : PYD_STATUS_OK;
}

// Creates the tensor results, in the memory of their tied arguments where possible, and binds them to the call.
static pyd_status_t make_results(const run_t* run, pyd_state_lease_t lease) {
  pyd_frame_t* frame = run->frame;
  pyd_status_t status = PYD_STATUS_OK;
  memset(frame->new_results, 0, run->fn->info.result_count * sizeof(*frame->new_results));
  for (uint32_t i = 0; i < run->fn->info.result_count && pyd_ok(status); ++i) {
    const pyd_program_value_t* type = &run->fn->info.results[i];
    if (type->kind != PYD_KIND_TENSOR) continue;
    const pyd_shape_t shape = {type->dtype, type->rank, pyd_plan_result_dims(lease.entry->plan, i)};
    uint64_t bytes = pyd_plan_result_bytes(lease.entry->plan, i);
    if (can_take_over(run, i, bytes)) {
      pyd_cell_t* cell = input_cell(run, type->tied);
      status = pyd_tensor_remake(cell->tensor, shape, &frame->new_results[i]);
      if (pyd_ok(status)) *cell = (pyd_cell_t){.is_set = false};  // remake has freed the tensor of the argument
    } else {
      status = update_global_in_place(run, lease, i, shape, bytes, &frame->new_results[i]);
      if (pyd_ok(status) && !frame->new_results[i])
        status = pyd_tensor_make(frame->state->memory, shape, bytes, &frame->new_results[i]);
    }
    if (pyd_ok(status)) pyd_call_bind_result(lease.call, i, pyd_tensor_owner(frame->new_results[i])->block);
  }
  return status;
}

// Stores the results of the call in their slots, and releases results without a slot. Entries of |new_results| that are
// NULL belong to scalar results, which are read from the call.
static void set_outputs(const run_t* run, pyd_state_lease_t lease) {
  for (uint32_t i = 0; i < run->fn->info.result_count; ++i) {
    pyd_tensor_t* result = run->frame->new_results[i];
    run->frame->new_results[i] = NULL;
    if (run->outputs[i] == PYD_NONE) {
      pyd_tensor_release(result);
    } else if (result) {
      pyd_cell_set_tensor(&run->frame->slots[run->outputs[i]], result);
    } else {
      pyd_cell_set_word(&run->frame->slots[run->outputs[i]], pyd_call_scalar_result(lease.call, i));
    }
  }
}

// Runs the call with a time for each command and reports the times to the observer. Sums the time of the observer
// itself separately, so that callers can subtract it from the time of the call.
static pyd_status_t run_timed(const pyd_frame_t* frame, pyd_state_lease_t lease) {
  const pyd_plan_t* plan = lease.entry->plan;
  // One more than needed, as calloc may return NULL for no bytes.
  pyd_command_time_t* times = calloc((size_t)plan->command_count + 1, sizeof(*times));
  if (!times) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the times of %u commands", plan->command_count);
  }
  pyd_status_t status = pyd_call_run_timed(lease.call, frame->interrupt, times);
  if (pyd_ok(status)) {
    uint64_t begin = pyd_cpu_nanoseconds();
    frame->observer->ran(frame->observer->self, plan, times);
    frame->observer->nanoseconds += pyd_cpu_nanoseconds() - begin;
  }
  free(times);
  return status;
}

// Runs the leased call: timed for an observer, on the device that has the tensors, or in this process.
static pyd_status_t run_call(const pyd_frame_t* frame, pyd_state_lease_t lease) {
  if (frame->observer) return run_timed(frame, lease);
  if (frame->state->memory.device) return pyd_call_run_on_device(lease.call);
  return pyd_call_run_until(lease.call, frame->interrupt);
}

// Runs a RUN step, which calls function number |step->a|. The slots of the arguments, then those of the results, are in
// the pool from |step->b| on.
pyd_status_t pyd_frame_run(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_function_t* fn = &frame->state->program->functions[step->a];
  const uint32_t* inputs = frame->p->pool + step->b;
  const run_t run = {
      .frame = frame, .function = step->a, .fn = fn, .inputs = inputs, .outputs = inputs + fn->info.arg_count};
  pyd_status_t status = gather_arguments(&run);
  if (!pyd_ok(status)) return status;
  if (fn->command_count == 0 && fn->buffer_count == 0) return run_scalar_function(&run);
  pyd_state_lease_t lease;
  status = pyd_state_lease(frame->state, run.function, frame->dims, frame->scalars, &lease);
  if (!pyd_ok(status)) return status;
  // Released below, also if bind_inputs() fails before make_results() creates them.
  memset(frame->new_results, 0, fn->info.result_count * sizeof(*frame->new_results));
  status = bind_inputs(&run, lease);
  if (pyd_ok(status)) status = make_results(&run, lease);
  if (pyd_ok(status)) status = run_call(frame, lease);
  if (pyd_ok(status)) {
    drop_inputs(&run);
    set_outputs(&run, lease);
  }
  for (uint32_t i = 0; i < fn->info.arg_count; ++i) pyd_tensor_release(frame->staged[i]);
  for (uint32_t i = 0; i < fn->info.result_count; ++i) pyd_tensor_release(frame->new_results[i]);
  pyd_state_return(frame->state, lease);
  return status;
}
