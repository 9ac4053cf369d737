// Steps one after another. Whatever fails ends the call; nothing that it did is seen then.
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "program/invocation.h"

typedef long long ll_t;

pyd_status_t pyd_frame_read(const pyd_frame_t* frame, uint32_t slot, pyd_cell_t** out_cell) {
  *out_cell = &frame->slots[slot];
  if ((*out_cell)->is_set) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "slot %u is read but holds nothing", slot);
}

static pyd_status_t move(pyd_frame_t* frame, const pyd_step_t* step) {
  uint32_t count = frame->p->pool[step->a];
  const uint32_t* pairs = frame->p->pool + step->a + 1;
  pyd_status_t status = PYD_STATUS_OK;
  uint32_t taken = 0;
  for (; taken < count; ++taken) {
    pyd_cell_t* cell;
    status = pyd_frame_read(frame, pairs[2 * taken + 1] & ~PYD_LAST_USE, &cell);
    if (!pyd_ok(status)) break;
    pyd_cell_share(cell, &frame->moves[taken]);
  }
  for (uint32_t i = 0; i < taken; ++i) {
    if (pairs[2 * i + 1] & PYD_LAST_USE) pyd_cell_clear(&frame->slots[pairs[2 * i + 1] & ~PYD_LAST_USE]);
  }
  for (uint32_t i = 0; i < taken; ++i) {
    pyd_cell_clear(&frame->slots[pairs[2 * i]]);
    frame->slots[pairs[2 * i]] = frame->moves[i];
    frame->moves[i] = (pyd_cell_t){NULL, 0, false};
  }
  return status;
}

static pyd_status_t refuse_index(const pyd_frame_t* frame, const pyd_step_t* step, ll_t index, uint32_t axis, ll_t size) {
  pyd_string_t where = {"", 0};
  if (step->d != PYD_NONE) {
    const uint32_t* text = frame->p->pool + step->d;
    if (text[1]) where = (pyd_string_t){(const char*)frame->state->program->strings.data + text[0], text[1]};
  }
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%.*s%sindex %lld is outside the %lld elements of axis %u", STRING(where),
                         where.length ? ": " : "", index, size, axis);
}

static pyd_status_t read_element(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_cell_t *cell, *index;
  pyd_status_t status = pyd_frame_read(frame, step->b, &cell);
  if (!pyd_ok(status)) return status;
  const pyd_tensor_t* tensor = cell->tensor;
  uint64_t at = 0;
  for (uint32_t axis = 0; axis < tensor->rank; ++axis) {
    status = pyd_frame_read(frame, frame->p->pool[step->c + 1 + axis], &index);
    if (!pyd_ok(status)) return status;
    if (index->word >= (uint64_t)tensor->dims[axis]) {
      return refuse_index(frame, step, (ll_t)index->word, axis, (ll_t)tensor->dims[axis]);
    }
    at = at * (uint64_t)tensor->dims[axis] + index->word;
  }
  pyd_cell_set_word(&frame->slots[step->a], pyd_tensor_element(tensor, at));
  return status;
}

static pyd_status_t load(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_cell_t found = {NULL, 0, false};
  if (frame->pending && frame->pending[step->b].is_set) {
    pyd_cell_share(&frame->pending[step->b], &found);
  } else {
    pyd_state_load(frame->state, step->b, &found);
  }
  if (!found.is_set) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "global '@%.*s' is loaded before anything was stored to it",
                           STRING(frame->state->program->globals[step->b].name));
  }
  pyd_cell_clear(&frame->slots[step->a]);
  frame->slots[step->a] = found;
  return PYD_STATUS_OK;
}

// |cell| for somebody who keeps it behind the call: the caller's memory is copied.
static pyd_status_t keep(const pyd_frame_t* frame, const pyd_cell_t* cell, pyd_cell_t* out) {
  if (!cell->tensor || !cell->tensor->is_lent) {
    pyd_cell_share(cell, out);
    return PYD_STATUS_OK;
  }
  pyd_tensor_t* copy;
  pyd_status_t status = pyd_tensor_copy(frame->state->pool, cell->tensor, &copy);
  if (pyd_ok(status)) *out = (pyd_cell_t){copy, 0, true};
  return status;
}

static pyd_status_t store(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_global_t* global = &frame->state->program->globals[step->a];
  uint32_t slot = step->b & ~PYD_LAST_USE;
  pyd_cell_t *cell, kept = {NULL, 0, false};
  pyd_status_t status = pyd_frame_read(frame, slot, &cell);
  if (!pyd_ok(status)) return status;
  for (uint32_t axis = 0; cell->tensor && axis < global->type.rank; ++axis) {
    if (global->type.dims[axis] == -1 || global->type.dims[axis] == cell->tensor->dims[axis]) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "global '@%.*s': axis %u: expected %lld elements, got %lld",
                           STRING(global->name), axis, (ll_t)global->type.dims[axis], (ll_t)cell->tensor->dims[axis]);
  }
  status = keep(frame, cell, &kept);
  if (!pyd_ok(status)) return status;
  pyd_cell_clear(&frame->pending[step->a]);
  frame->pending[step->a] = kept;
  if (step->b & PYD_LAST_USE) pyd_cell_clear(cell);
  return status;
}

static pyd_status_t observe(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_invocation_t* invocation = frame->invocation;
  if (invocation->observation_count == invocation->observation_capacity) {
    uint64_t capacity = invocation->observation_capacity ? 2 * (uint64_t)invocation->observation_capacity : 8;
    bool fits = capacity < UINT32_MAX && capacity < SIZE_MAX / sizeof(pyd_observation_t);
    void* grown = fits ? realloc(invocation->observations, (size_t)capacity * sizeof(pyd_observation_t)) : NULL;
    if (!grown) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %llu checks", (unsigned long long)capacity);
    invocation->observations = grown;
    invocation->observation_capacity = (uint32_t)capacity;
  }
  pyd_observation_t made = {.check = step->a, .count = frame->p->pool[step->b]};
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < made.count && pyd_ok(status); ++i) {
    uint32_t slot = frame->p->pool[step->b + 1 + i];
    pyd_cell_t* cell;
    made.types[i] = frame->p->slots[slot];
    status = pyd_frame_read(frame, slot, &cell);
    if (pyd_ok(status)) status = keep(frame, cell, &made.cells[i]);
  }
  if (pyd_ok(status)) {
    invocation->observations[invocation->observation_count++] = made;
  } else {
    for (uint32_t i = 0; i < made.count; ++i) pyd_cell_clear(&made.cells[i]);
  }
  return status;
}

static pyd_status_t make_constant(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_slot_type_t* type = &frame->p->slots[step->a];
  const uint8_t* data = frame->state->program->constant_links[step->b].data;
  if (!data) return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "constant %u is not linked", step->b);
  int64_t dims[PYD_PROGRAM_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; ++i) {
    const uint32_t* words = frame->p->pool + step->c + 2 * i;
    dims[i] = (int64_t)(words[0] | (uint64_t)words[1] << 32);
  }
  pyd_tensor_t* tensor;
  pyd_status_t status = pyd_tensor_wrap(type->dtype, type->rank, dims, data, false, &tensor);
  if (pyd_ok(status)) pyd_cell_set_tensor(&frame->slots[step->a], tensor);
  return status;
}

static pyd_status_t view(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_slot_type_t* type = &frame->p->slots[step->a];
  const uint32_t* words = frame->p->pool + step->c;
  pyd_cell_t *source, *cell;
  uint64_t offset = 0;
  int64_t dims[PYD_PROGRAM_MAX_RANK];
  pyd_status_t status = pyd_frame_read(frame, step->b & ~PYD_LAST_USE, &source);
  if (pyd_ok(status) && words[0] != PYD_NONE) {
    status = pyd_frame_read(frame, words[0], &cell);
    offset = cell->word;
  }
  for (uint32_t i = 0; i < type->rank && pyd_ok(status); ++i) {
    status = pyd_frame_read(frame, words[1 + i], &cell);
    dims[i] = (int64_t)cell->word;
  }
  pyd_tensor_t* tensor;
  if (pyd_ok(status)) {
    status = pyd_tensor_view(source->tensor, offset, words[0] == PYD_NONE, type->dtype, type->rank, dims, &tensor);
  }
  if (!pyd_ok(status)) return status;
  if (step->b & PYD_LAST_USE) pyd_cell_clear(source);
  pyd_cell_set_tensor(&frame->slots[step->a], tensor);
  return status;
}

static pyd_status_t finish(pyd_frame_t* frame, const pyd_step_t* step) {
  const uint32_t* slots = frame->p->pool + step->a;
  pyd_cell_t* results = frame->invocation->results;
  for (uint32_t i = 0; i < frame->p->info.result_count; ++i) {
    pyd_cell_t* cell;
    pyd_status_t status = pyd_frame_read(frame, slots[i] & ~PYD_LAST_USE, &cell);
    if (!pyd_ok(status)) return status;
    pyd_cell_share(cell, &results[i]);
  }
  return PYD_STATUS_OK;
}

static bool is_interrupted(const pyd_interrupt_t* interrupt) {
  return interrupt && interrupt->is_wanted(interrupt->self) != 0;
}

static pyd_status_t run_step(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_cell_t* cell;
  pyd_status_t status = PYD_STATUS_OK;
  switch ((pyd_step_op_t)step->op) {
    case PYD_STEP_RUN: return pyd_frame_run(frame, step);
    case PYD_STEP_MOVE: return move(frame, step);
    case PYD_STEP_READ: return read_element(frame, step);
    case PYD_STEP_LOAD: return load(frame, step);
    case PYD_STEP_STORE: return store(frame, step);
    case PYD_STEP_OBSERVE: return observe(frame, step);
    case PYD_STEP_CONSTANT: return make_constant(frame, step);
    case PYD_STEP_VIEW: return view(frame, step);
    case PYD_STEP_SCALAR:
      pyd_cell_set_word(&frame->slots[step->a], step->b | (uint64_t)step->c << 32);
      return status;
    case PYD_STEP_DIM:
      status = pyd_frame_read(frame, step->b, &cell);
      if (pyd_ok(status)) pyd_cell_set_word(&frame->slots[step->a], (uint64_t)cell->tensor->dims[step->c]);
      return status;
    case PYD_STEP_DROP:
      pyd_cell_clear(&frame->slots[step->a]);
      return status;
    case PYD_STEP_JUMP:
    case PYD_STEP_BRANCH:
    case PYD_STEP_RETURN: break;  // are the loop's
  }
  return status;
}

static pyd_status_t run_steps(pyd_frame_t* frame) {
  const pyd_procedure_t* p = frame->p;
  uint32_t at = 0;
  pyd_status_t status = PYD_STATUS_OK;
  for (;;) {
    const pyd_step_t* step = &p->steps[at];
    uint32_t next = at + 1;
    if (step->op == PYD_STEP_RETURN) {
      status = finish(frame, step);
      if (pyd_ok(status)) return status;
    } else if (step->op == PYD_STEP_JUMP) {
      next = step->a;
    } else if (step->op == PYD_STEP_BRANCH) {
      pyd_cell_t* condition;
      status = pyd_frame_read(frame, step->a, &condition);
      next = condition->word & 1 ? step->b : step->c;
    } else {
      status = run_step(frame, step);
    }
    if (pyd_ok(status) && next <= at && is_interrupted(frame->interrupt)) {
      status = pyd_status_make(PYD_CODE_INTERRUPTED, "the call was interrupted");
    }
    if (!pyd_ok(status)) {
      if (pyd_status_code(status) == PYD_CODE_KERNEL) return status;  // it says where
      return pyd_status_annotate(status, "procedure '%.*s', step %u: %s", STRING(p->info.name), at, pyd_status_text(status));
    }
    at = next;
  }
}

// A result belongs to nobody else: what a constant, a global, an argument or another result has is copied.
static pyd_status_t make_results_alone(const pyd_frame_t* frame) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < frame->p->info.result_count && pyd_ok(status); ++i) {
    pyd_tensor_t *tensor = frame->invocation->results[i].tensor, *copy;
    if (!tensor || pyd_tensor_is_alone(tensor)) continue;
    if (pyd_tensor_is_single(tensor) && tensor->base && pyd_tensor_is_alone(tensor->base)) continue;
    status = pyd_tensor_copy(frame->state->pool, tensor, &copy);
    if (pyd_ok(status)) pyd_cell_set_tensor(&frame->invocation->results[i], copy);
  }
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
    status = pyd_tensor_wrap(type->dtype, type->rank, inputs[i].dims, inputs[i].data, true, &tensor);
    if (!pyd_ok(status)) {
      char who[128];
      pyd_plan_name_value("argument", i, type->name, who, sizeof(who));
      return pyd_status_annotate(status, "@%.*s: %s: %s", STRING(info->name), who, pyd_status_text(status));
    }
    pyd_cell_set_tensor(cell, tensor);
  }
  return PYD_STATUS_OK;
}

// The arrays of a frame behind |base|; measures when it is NULL. What is named first is cleared.
static size_t lay_out(pyd_frame_t* frame, uint8_t* base, size_t* out_cleared) {
  const pyd_procedure_t* p = frame->p;
  pyd_carve_t block = {base, 0, sizeof(uint64_t)};
  PYD_CARVE(&block, frame->slots, p->slot_count);
  PYD_CARVE(&block, frame->moves, p->max_moves);
  PYD_CARVE(&block, frame->pending, p->has_stores ? frame->state->program->global_count : 0);
  *out_cleared = block.size;
  PYD_CARVE(&block, frame->dims, p->max_dims);
  PYD_CARVE(&block, frame->scalars, p->max_scalars);
  PYD_CARVE(&block, frame->regs, p->max_regs);
  PYD_CARVE(&block, frame->staged, p->max_args);
  PYD_CARVE(&block, frame->made, p->max_results);
  if (!p->has_stores) frame->pending = NULL;
  return block.size;
}

// With the frame in |memory|.
static pyd_status_t run(pyd_frame_t* frame, const pyd_input_t* inputs) {
  pyd_state_t* state = frame->state;
  const pyd_procedure_t* p = frame->p;
  pyd_status_t status = set_arguments(frame, inputs);
  if (pyd_ok(status) && p->needs_gate) {
    pyd_scope_t scope;
    status = pyd_state_enter(state, frame->interrupt, &scope);
    status = pyd_status_annotate(status, "procedure '%.*s': %s", STRING(p->info.name), pyd_status_text(status));
    if (pyd_ok(status)) {
      status = run_steps(frame);
      for (uint32_t i = 0; i < p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
      if (pyd_ok(status)) status = make_results_alone(frame);
      if (pyd_ok(status) && frame->pending) pyd_state_commit(state, frame->pending);
      pyd_state_leave(state, &scope);
    }
  } else if (pyd_ok(status)) {
    status = run_steps(frame);
    for (uint32_t i = 0; i < p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
    if (pyd_ok(status)) status = make_results_alone(frame);
  }
  for (uint32_t i = 0; i < p->slot_count; ++i) pyd_cell_clear(&frame->slots[i]);
  for (uint32_t i = 0; frame->pending && i < state->program->global_count; ++i) pyd_cell_clear(&frame->pending[i]);
  return status;
}

pyd_status_t pyd_procedure_call(pyd_state_t* state, uint32_t procedure, const pyd_input_t* inputs,
                                const pyd_interrupt_t* interrupt, pyd_invocation_t** out_invocation) {
  *out_invocation = NULL;
  if (procedure >= state->program->procedure_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "procedure %u does not exist, the program has %u", procedure,
                           state->program->procedure_count);
  }
  _Alignas(16) uint8_t stack[4096];
  const pyd_procedure_t* p = &state->program->procedures[procedure];
  pyd_frame_t frame = {.state = state, .p = p, .interrupt = interrupt};
  size_t cleared, size = lay_out(&frame, NULL, &cleared);
  void* memory = size <= sizeof(stack) ? NULL : malloc(size);
  pyd_invocation_t* invocation = calloc(1, sizeof(*invocation) + p->info.result_count * sizeof(pyd_cell_t));
  pyd_status_t status = PYD_STATUS_OK;
  if ((size > sizeof(stack) && !memory) || !invocation) {
    status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a call of '%.*s': %zu bytes", STRING(p->info.name), size);
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
