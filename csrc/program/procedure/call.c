// Steps one after another. Whatever fails ends the call; nothing that it did is seen then.
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "program/procedure/invocation.h"
#include "program/traced.h"

static bool is_interrupted(const pyd_interrupt_t* interrupt) {
  return interrupt && interrupt->is_wanted(interrupt->self) != 0;
}

static pyd_status_t run_steps(pyd_frame_t* frame) {
  const pyd_procedure_t* p = frame->p;
  uint32_t at = 0;
  pyd_status_t status = PYD_STATUS_OK;
  for (;;) {
    const pyd_step_t* step = &p->steps[at];
    uint32_t next = at + 1;
    if (step->op == PYD_STEP_RETURN) {
      status = pyd_frame_return(frame, step);
      if (pyd_ok(status)) return status;
    } else if (step->op == PYD_STEP_JUMP) {
      next = step->a;
    } else if (step->op == PYD_STEP_BRANCH) {
      pyd_cell_t* condition;
      status = pyd_frame_read(frame, step->a, &condition);
      next = condition->word & 1 ? step->b : step->c;
    } else {
      status = pyd_frame_step(frame, step);
    }
    if (pyd_ok(status) && next <= at && is_interrupted(frame->interrupt)) {
      status = pyd_status_make(PYD_CODE_INTERRUPTED, "the call was interrupted");
    }
    if (!pyd_ok(status)) {
      if (pyd_status_code(status) == PYD_CODE_KERNEL) return status;  // it says where
      return pyd_status_annotate(status, "procedure '%.*s', step %u: %s", STRING(p->info.name), at,
                                 pyd_status_text(status));
    }
    at = next;
  }
}

// Whether |tensor| is the only one that uses its memory, and what callers get of it in |memory| is no more than a
// block.
static bool is_ready(const pyd_tensor_t* tensor, pyd_memory_t memory) {
  if (tensor->memory.device != memory.device || (memory.device && tensor->offset)) return false;
  return pyd_tensor_is_alone(tensor) ||
         (pyd_tensor_is_single(tensor) && tensor->base && pyd_tensor_is_alone(tensor->base));
}

// A result shares its memory with nothing else: what a constant, a global, an argument or another result has is copied.
static pyd_status_t make_results_alone(const pyd_frame_t* frame) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < frame->p->info.result_count && pyd_ok(status); ++i) {
    pyd_tensor_t *tensor = frame->invocation->results[i].tensor, *copy;
    if (!tensor || is_ready(tensor, frame->results)) continue;
    status = pyd_tensor_copy(frame->results, tensor, &copy);
    if (pyd_ok(status)) pyd_cell_set_tensor(&frame->invocation->results[i], copy);
  }
  return status;
}

// A tensor argument where the tensors of the call are: over the caller's memory, or a copy of it on the device.
static pyd_status_t take_argument(pyd_memory_t memory, pyd_shape_t shape, const void* data, void* block,
                                  pyd_tensor_t** out_tensor) {
  if (block) return pyd_tensor_wrap_block(memory, shape, block, NULL, true, out_tensor);
  pyd_tensor_t* given;
  pyd_status_t status = pyd_tensor_wrap(shape, data, true, &given);
  *out_tensor = given;
  if (!pyd_ok(status) || !memory.device) return status;
  status = pyd_tensor_copy(memory, given, out_tensor);
  pyd_tensor_release(given);
  return status;
}

static pyd_status_t set_arguments(pyd_frame_t* frame, const pyd_input_t* inputs) {
  const pyd_program_function_t* info = &frame->p->info;
  for (uint32_t i = 0; i < info->arg_count; ++i) {
    const pyd_program_value_t* type = &info->args[i];
    pyd_cell_t* cell = &frame->slots[frame->p->arg_slots[i]];
    if (type->kind == 1) {
      pyd_cell_set_word(cell, inputs[i].word);
      continue;
    }
    uint64_t bytes;
    pyd_tensor_t* tensor;
    pyd_status_t status = pyd_program_check_argument(info, i, inputs[i].dims, &bytes);
    if (!pyd_ok(status)) return status;
    const pyd_shape_t shape = {type->dtype, type->rank, inputs[i].dims};
    status =
        take_argument(frame->state->memory, shape, inputs[i].data, frame->blocks ? frame->blocks[i] : NULL, &tensor);
    if (!pyd_ok(status)) {
      char who[128];
      pyd_plan_name_value("argument", i, type->name, who, sizeof(who));
      return pyd_status_annotate(status, "@%.*s: %s: %s", STRING(info->name), who, pyd_status_text(status));
    }
    pyd_cell_set_tensor(cell, tensor);
  }
  return PYD_STATUS_OK;
}

// The arrays of a frame from |base| on; measures when it is NULL. What is named first is cleared.
static size_t lay_out(pyd_frame_t* frame, uint8_t* base, size_t* out_cleared) {
  const pyd_procedure_t* p = frame->p;
  pyd_carve_t block = {base, 0, sizeof(uint64_t)};
  PYD_CARVE(&block, frame->slots, p->slot_count);
  PYD_CARVE(&block, frame->moves, p->max_moves);
  bool has_own = p->has_stores || p->loads_mutable;
  PYD_CARVE(&block, frame->own, has_own ? frame->state->program->global_count : 0);
  *out_cleared = block.size;
  PYD_CARVE(&block, frame->dims, p->max_dims);
  PYD_CARVE(&block, frame->scalars, p->max_scalars);
  PYD_CARVE(&block, frame->regs, p->max_regs);
  PYD_CARVE(&block, frame->staged, p->max_args);
  PYD_CARVE(&block, frame->made, p->max_results);
  if (!has_own) frame->own = NULL;
  return block.size;
}

// All steps, and results that are the caller's alone.
static pyd_status_t run_whole(pyd_frame_t* frame) {
  pyd_status_t status = run_steps(frame);
  for (uint32_t i = 0; i < frame->p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
  return pyd_ok(status) ? make_results_alone(frame) : status;
}

// Calls that store come one after another.
static pyd_status_t run_storing(pyd_frame_t* frame) {
  pyd_scope_t scope;
  pyd_status_t status = pyd_state_enter(frame->state, frame->interrupt, &scope);
  if (!pyd_ok(status)) {
    return pyd_status_annotate(status, "procedure '%.*s': %s", STRING(frame->p->info.name), pyd_status_text(status));
  }
  status = run_whole(frame);
  if (pyd_ok(status)) {
    pyd_state_commit(frame->state, frame->own);
  } else {
    pyd_state_abandon(frame->state);
  }
  pyd_state_leave(frame->state, &scope);
  return status;
}

// With the frame in memory.
static pyd_status_t run(pyd_frame_t* frame, const pyd_input_t* inputs) {
  pyd_status_t status = set_arguments(frame, inputs);
  if (pyd_ok(status) && frame->p->has_stores) {
    status = run_storing(frame);
  } else if (pyd_ok(status)) {
    if (frame->p->loads_mutable) status = pyd_state_snapshot(frame->state, frame->p, frame->own);
    if (pyd_ok(status)) status = run_whole(frame);
  }
  for (uint32_t i = 0; i < frame->p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
  for (uint32_t i = 0; frame->own && i < frame->state->program->global_count; ++i) pyd_cell_clear(&frame->own[i]);
  return status;
}

// |frame| says the state, the interrupt, the blocks and where results are to be.
static pyd_status_t call_one(pyd_frame_t frame, uint32_t procedure, const pyd_input_t* inputs,
                             pyd_invocation_t** out_invocation) {
  const pyd_state_t* state = frame.state;
  _Alignas(16) uint8_t stack[4096];
  const pyd_procedure_t* p = &state->program->procedures[procedure];
  frame.p = p;
  size_t cleared, size = lay_out(&frame, NULL, &cleared);
  void* memory = size <= sizeof(stack) ? NULL : malloc(size);
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

static pyd_status_t call(pyd_frame_t frame, uint32_t procedure, const pyd_input_t* inputs,
                         pyd_invocation_t** out_invocation) {
  const pyd_state_t* state = frame.state;
  *out_invocation = NULL;
  if (procedure >= state->program->procedure_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "procedure %u does not exist, the program has %u", procedure,
                           state->program->procedure_count);
  }
  pyd_trace_t* trace = pyd_sched_trace(state->sched);
  if (!pyd_trace_is_on(trace)) return call_one(frame, procedure, inputs, out_invocation);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_CALL, state->program->procedures[procedure].info.name);
  pyd_status_t status = call_one(frame, procedure, inputs, out_invocation);
  pyd_event_end(trace, &event, status);
  return status;
}

pyd_status_t pyd_procedure_call(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                const pyd_interrupt_t* interrupt, pyd_invocation_t** out_invocation) {
  const pyd_memory_t process = {.pool = state->memory.pool};
  return call((pyd_frame_t){.state = state, .interrupt = interrupt, .results = process}, procedure, inputs,
              out_invocation);
}

pyd_status_t pyd_procedure_call_on_device(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                          void* const* blocks, const pyd_interrupt_t* interrupt,
                                          pyd_invocation_t** out_invocation) {
  return call((pyd_frame_t){.state = state, .interrupt = interrupt, .blocks = blocks, .results = state->memory},
              procedure, inputs, out_invocation);
}

pyd_status_t pyd_procedure_call_timed(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                      const pyd_interrupt_t* interrupt, pyd_procedure_observer_t* observer,
                                      pyd_invocation_t** out_invocation) {
  const pyd_memory_t process = {.pool = state->memory.pool};
  return call((pyd_frame_t){.state = state, .interrupt = interrupt, .results = process, .observer = observer},
              procedure, inputs, out_invocation);
}

pyd_status_t pyd_state_initialize(pyd_state_t* state, const pyd_interrupt_t* interrupt) {
  const pyd_program_t* program = state->program;
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < program->initializer_count && pyd_ok(status); ++i) {
    pyd_invocation_t* invocation;
    status = pyd_procedure_call(state, program->initializers[i], NULL, interrupt, &invocation);
    pyd_invocation_free(invocation);
  }
  return status;
}
