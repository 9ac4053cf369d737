// Calls of procedures: runs the steps one after another. A failed call stores nothing to globals.
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "program/procedure/invocation.h"
#include "program/traced.h"
#include "pydispatch/submit.h"

static bool is_interrupted(const pyd_interrupt_t* interrupt) {
  return interrupt && interrupt->is_wanted(interrupt->self) != 0;
}

// Runs the steps of a procedure, from the first one until RETURN or a failure. Polls the interrupt at backward jumps
// only: every loop has one.
static pyd_status_t run_steps(pyd_frame_t* frame) {
  const pyd_procedure_t* p = frame->p;
  uint32_t index = 0;
  pyd_status_t status = PYD_STATUS_OK;
  for (;;) {
    const pyd_step_t* step = &p->steps[index];
    uint32_t next = index + 1;
    if (step->op == PYD_STEP_RETURN) {
      status = pyd_frame_return(frame, step);
      if (pyd_ok(status)) return status;  // a failure gets the step's number below
    } else if (step->op == PYD_STEP_JUMP) {
      next = step->a;
    } else if (step->op == PYD_STEP_BRANCH) {
      pyd_cell_t* condition;
      status = pyd_frame_read(frame, step->a, &condition);
      next = condition->word & 1 ? step->b : step->c;
    } else {
      status = pyd_frame_step(frame, step);
    }
    const bool is_backward = next <= index;
    if (pyd_ok(status) && is_backward && is_interrupted(frame->interrupt)) {
      status = pyd_status_make(PYD_CODE_INTERRUPTED, "the call was interrupted");
    }
    if (!pyd_ok(status)) {
      if (pyd_status_code(status) == PYD_CODE_KERNEL) return status;  // names function and workgroup already
      return pyd_status_annotate(status, "procedure '%.*s', step %u: %s", STRING(p->info.name), index,
                                 pyd_status_text(status));
    }
    index = next;
  }
}

// Returns whether |tensor| can be handed to the caller without a copy: its block is in |memory|, and nothing else
// refers to the block. |tensor| owns the block, or is a view of another tensor, |tensor->base|, that owns the block.
static bool is_exclusive_result(const pyd_tensor_t* tensor, pyd_memory_t memory) {
  if (tensor->memory.device != memory.device) return false;
  if (memory.device && tensor->offset) return false;  // callers get whole blocks of a device
  if (pyd_tensor_is_alone(tensor)) return true;
  return pyd_tensor_is_single(tensor) && tensor->base && pyd_tensor_is_alone(tensor->base);
}

// Copies each result that shares its memory with a constant, a global, an argument or another result, so that the
// caller owns all results exclusively.
static pyd_status_t copy_shared_results(const pyd_frame_t* frame) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < frame->p->info.result_count && pyd_ok(status); ++i) {
    pyd_tensor_t *tensor = frame->invocation->results[i].tensor, *copy;
    if (!tensor || is_exclusive_result(tensor, frame->result_memory)) continue;
    status = pyd_tensor_copy(frame->result_memory, tensor, &copy);
    if (pyd_ok(status)) pyd_cell_set_tensor(&frame->invocation->results[i], copy);
  }
  return status;
}

// Creates the tensor of an argument: over |block|, device memory of the caller, if that is not NULL; else over |data|,
// host memory of the caller, or a copy of it if |memory|, where the tensors of the call are stored, is on a device.
static pyd_status_t wrap_argument(pyd_memory_t memory, pyd_shape_t shape, const void* data, void* block,
                                  pyd_tensor_t** out_tensor) {
  if (block) return pyd_tensor_wrap_block(memory, shape, block, /* data */ NULL, /* is_lent */ true, out_tensor);
  pyd_tensor_t* host_tensor;
  pyd_status_t status = pyd_tensor_wrap(shape, data, /* is_lent */ true, &host_tensor);
  *out_tensor = host_tensor;
  if (!pyd_ok(status) || !memory.device) return status;
  status = pyd_tensor_copy(memory, host_tensor, out_tensor);
  pyd_tensor_release(host_tensor);
  return status;
}

// Checks the input of tensor argument |index| against the signature, and stores it in |cell|.
static pyd_status_t set_tensor_argument(pyd_frame_t* frame, uint32_t index, const pyd_input_t* input,
                                        pyd_cell_t* cell) {
  const pyd_program_function_t* info = &frame->p->info;
  const pyd_program_value_t* type = &info->args[index];
  uint64_t bytes;
  pyd_tensor_t* tensor;
  pyd_status_t status = pyd_program_check_argument(info, index, input->dims, &bytes);
  if (!pyd_ok(status)) return status;
  const pyd_shape_t shape = {type->dtype, type->rank, input->dims};
  status = wrap_argument(frame->state->memory, shape, input->data,
                         frame->input_blocks ? frame->input_blocks[index] : NULL, &tensor);
  if (!pyd_ok(status)) {
    char who[128];
    pyd_plan_name_value("argument", index, type->name, who, sizeof(who));
    return pyd_status_annotate(status, "@%.*s: %s: %s", STRING(info->name), who, pyd_status_text(status));
  }
  pyd_cell_set_tensor(cell, tensor);
  return PYD_STATUS_OK;
}

// Stores the inputs of the call, one per argument, in the slots of the arguments.
static pyd_status_t set_arguments(pyd_frame_t* frame, const pyd_input_t* inputs) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < frame->p->info.arg_count && pyd_ok(status); ++i) {
    pyd_cell_t* cell = &frame->slots[frame->p->arg_slots[i]];
    if (frame->p->info.args[i].kind == PYD_KIND_SCALAR) {
      pyd_cell_set_word(cell, inputs[i].word);
    } else {
      status = set_tensor_argument(frame, i, &inputs[i], cell);
    }
  }
  return status;
}

// Lays out the arrays of a frame in memory from |base| on. Returns their size in bytes; with |base| NULL does nothing
// else. The first |*out_cleared| bytes are arrays of cells, which the caller has to set to zero: cells become empty.
static size_t lay_out(pyd_frame_t* frame, uint8_t* base, size_t* out_cleared) {
  const pyd_procedure_t* p = frame->p;
  pyd_carve_t carve = {.base = base, .size = 0, .alignment = sizeof(uint64_t)};
  PYD_CARVE(&carve, frame->slots, p->slot_count);
  PYD_CARVE(&carve, frame->moves, p->max_moves);
  bool needs_globals = p->has_stores || p->loads_mutable;
  PYD_CARVE(&carve, frame->local_globals, needs_globals ? frame->state->program->global_count : 0);
  *out_cleared = carve.size;
  PYD_CARVE(&carve, frame->dims, p->max_dims);
  PYD_CARVE(&carve, frame->scalars, p->max_scalars);
  PYD_CARVE(&carve, frame->regs, p->max_regs);
  PYD_CARVE(&carve, frame->staged, p->max_args);
  PYD_CARVE(&carve, frame->new_results, p->max_results);
  if (!needs_globals) frame->local_globals = NULL;
  return carve.size;
}

// Runs all steps, clears the slots, so that they share no memory with results any more, and copies the results that
// still share memory with other values.
static pyd_status_t run_to_results(pyd_frame_t* frame) {
  pyd_status_t status = run_steps(frame);
  for (uint32_t i = 0; i < frame->p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
  return pyd_ok(status) ? copy_shared_results(frame) : status;
}

// Runs a procedure that stores to globals inside the gate of the state, which admits one such call at a time, and
// commits its stores if it succeeds and is not cancelled.
static pyd_status_t run_storing(pyd_frame_t* frame) {
  pyd_scope_t scope;
  pyd_status_t status = pyd_state_enter(frame->state, frame->interrupt, &scope);
  if (!pyd_ok(status)) {
    return pyd_status_annotate(status, "procedure '%.*s': %s", STRING(frame->p->info.name), pyd_status_text(status));
  }
  status = run_to_results(frame);
  if (pyd_ok(status) && frame->task && !pyd_task_commit(frame->task)) {
    status =
        pyd_status_make(PYD_CODE_INTERRUPTED, "procedure '%.*s': the call was cancelled", STRING(frame->p->info.name));
  }
  if (pyd_ok(status)) {
    pyd_state_commit(frame->state, frame->local_globals);
  } else {
    pyd_state_abandon(frame->state);
  }
  pyd_state_leave(frame->state, &scope);
  return status;
}

// Runs a call whose frame has its arrays, and clears all cells at the end. A call that stores to no global does not
// wait for other calls: it loads mutable globals from a snapshot.
static pyd_status_t run(pyd_frame_t* frame, const pyd_input_t* inputs) {
  pyd_status_t status = set_arguments(frame, inputs);
  if (pyd_ok(status) && frame->p->has_stores) {
    status = run_storing(frame);
  } else if (pyd_ok(status)) {
    if (frame->p->loads_mutable) status = pyd_state_snapshot(frame->state, frame->p, frame->local_globals);
    if (pyd_ok(status)) status = run_to_results(frame);
  }
  for (uint32_t i = 0; i < frame->p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
  for (uint32_t i = 0; frame->local_globals && i < frame->state->program->global_count; ++i)
    pyd_cell_clear(&frame->local_globals[i]);
  return status;
}

// Allocates the frame's arrays, on the stack if they fit, and the invocation, and runs the call. The caller has set the
// fields of |frame| that describe the call: state, interrupt, observer, input blocks and the memory for results.
static pyd_status_t allocate_and_run(pyd_frame_t frame, uint32_t procedure, const pyd_input_t* inputs,
                                     pyd_invocation_t** out_invocation) {
  const pyd_state_t* state = frame.state;
  _Alignas(16) uint8_t stack[4096];
  const pyd_procedure_t* p = &state->program->procedures[procedure];
  frame.p = p;
  size_t cleared, size = lay_out(&frame, NULL, &cleared);
  void* memory = size <= sizeof(stack) ? NULL : malloc(size);
  // One allocation: the invocation, and its results after it.
  pyd_invocation_t* invocation = calloc(1, sizeof(*invocation) + p->info.result_count * sizeof(pyd_cell_t));
  pyd_status_t status = PYD_STATUS_OK;
  if ((size > sizeof(stack) && !memory) || !invocation) {
    status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a call of '%.*s': %zu bytes", STRING(p->info.name),
                             size);
  } else {
    invocation->p = p;
    invocation->results = (pyd_cell_t*)(invocation + 1);
    frame.invocation = invocation;
    lay_out(&frame, memory ? memory : stack, &cleared);
    memset(frame.slots, 0, cleared);
    status = run(&frame, inputs);
  }
  free(memory);
  if (!pyd_ok(status)) {
    pyd_invocation_free(invocation);
    return status;
  }
  *out_invocation = invocation;
  return status;
}

// Runs a call of |procedure|, an index, and records it in the trace if one is on. For |frame| see allocate_and_run().
static pyd_status_t call(pyd_frame_t frame, uint32_t procedure, const pyd_input_t* inputs,
                         pyd_invocation_t** out_invocation) {
  const pyd_state_t* state = frame.state;
  *out_invocation = NULL;
  if (procedure >= state->program->procedure_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "procedure %u does not exist, the program has %u", procedure,
                           state->program->procedure_count);
  }
  pyd_trace_t* trace = pyd_sched_trace(state->sched);
  if (!pyd_trace_is_on(trace)) return allocate_and_run(frame, procedure, inputs, out_invocation);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_CALL, state->program->procedures[procedure].info.name);
  pyd_status_t status = allocate_and_run(frame, procedure, inputs, out_invocation);
  pyd_event_end(trace, &event, status);
  return status;
}

pyd_status_t pyd_procedure_call(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                const pyd_interrupt_t* interrupt, pyd_invocation_t** out_invocation) {
  return pyd_procedure_call_task(state, procedure, inputs, interrupt, /* task */ NULL, out_invocation);
}

// Calls a procedure, in |task| if that is not NULL; its results are in memory of this process.
pyd_status_t pyd_procedure_call_task(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                     const pyd_interrupt_t* interrupt, pyd_task_t* task,
                                     pyd_invocation_t** out_invocation) {
  const pyd_memory_t host_memory = {.pool = state->memory.pool};  // no device: results are in memory of this process
  return call((pyd_frame_t){.state = state, .interrupt = interrupt, .task = task, .result_memory = host_memory},
              procedure, inputs, out_invocation);
}

// Calls a procedure with arguments and results on a device. |blocks|: for each argument its device block, or NULL if it
// is in memory of this process. Results stay in the memory of the device.
pyd_status_t pyd_procedure_call_on_device(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                          void* const* blocks, const pyd_interrupt_t* interrupt,
                                          pyd_invocation_t** out_invocation) {
  return call(
      (pyd_frame_t){.state = state, .interrupt = interrupt, .input_blocks = blocks, .result_memory = state->memory},
      procedure, inputs, out_invocation);
}

// Calls a procedure, and reports the time of each command to |observer|; its results are in memory of this process.
pyd_status_t pyd_procedure_call_timed(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                      const pyd_interrupt_t* interrupt, pyd_procedure_observer_t* observer,
                                      pyd_invocation_t** out_invocation) {
  const pyd_memory_t host_memory = {.pool = state->memory.pool};  // no device: results are in memory of this process
  return call((pyd_frame_t){.state = state, .interrupt = interrupt, .result_memory = host_memory, .observer = observer},
              procedure, inputs, out_invocation);
}

// Runs the initializers of the program, procedures that set globals, in order, and stops at the first that fails.
pyd_status_t pyd_state_initialize(pyd_state_t* state, const pyd_interrupt_t* interrupt) {
  const pyd_program_t* program = state->program;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->initializer_count && pyd_ok(status); ++i) {
    pyd_invocation_t* invocation;
    status = pyd_procedure_call(state, program->initializers[i], /* inputs */ NULL, interrupt, &invocation);
    pyd_invocation_free(invocation);
  }
  return status;
}
