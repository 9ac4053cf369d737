// The steps of procedures, apart from RUN and from those that choose the next step.
#include <stdlib.h>
#include <string.h>

#include "program/procedure/invocation.h"

typedef long long ll_t;

// MOVE: copies values between slots in parallel, given by pairs of a target and a source. All sources are read before
// any target is written, as a target may be the source of a later pair.
static pyd_status_t move(pyd_frame_t* frame, const pyd_step_t* step) {
  uint32_t count = frame->p->pool[step->a];
  const uint32_t* pairs = frame->p->pool + step->a + 1;
  pyd_status_t status = PYD_STATUS_OK;
  uint32_t read_count = 0;  // sources that were read; less than |count| after a failure
  for (; read_count < count; ++read_count) {
    pyd_cell_t* cell;
    status = pyd_frame_read(frame, pairs[2 * read_count + 1] & ~PYD_LAST_USE, &cell);
    if (!pyd_ok(status)) break;
    pyd_cell_share(cell, &frame->moves[read_count]);
  }
  // Sources that are not used again are cleared before targets are written: a slot may be both.
  for (uint32_t i = 0; i < read_count; ++i) {
    if (pairs[2 * i + 1] & PYD_LAST_USE) pyd_cell_clear(&frame->slots[pairs[2 * i + 1] & ~PYD_LAST_USE]);
  }
  for (uint32_t i = 0; i < read_count; ++i) {
    pyd_cell_clear(&frame->slots[pairs[2 * i]]);
    frame->slots[pairs[2 * i]] = frame->moves[i];
    frame->moves[i] = (pyd_cell_t){NULL, 0, false};
  }
  return status;
}

// Returns the status for an element index that is out of range, with the location of the read in the source, if known:
// pool word d is the byte offset of its text in the strings of the program, the next word its length.
static pyd_status_t refuse_index(const pyd_frame_t* frame, const pyd_step_t* step, ll_t index, uint32_t axis,
                                 ll_t size) {
  pyd_string_t where = {"", 0};
  if (step->d != PYD_NONE) {
    const uint32_t* text = frame->p->pool + step->d;
    if (text[1]) where = (pyd_string_t){(const char*)frame->state->program->strings.data + text[0], text[1]};
  }
  pyd_status_t status =
      pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%.*s%sindex %lld is outside the %lld elements of axis %u",
                      STRING(where), where.length ? ": " : "", index, size, axis);
  return where.length ? pyd_status_add_name(status, PYD_STATUS_LOCATION, where.data, where.length) : status;
}

// READ: stores an element of tensor slot b in scalar slot a. Pool word c is the number of its indices, the rank of the
// tensor; the words after it are a scalar slot for each index. INVALID_ARGUMENT if an index is out of range.
static pyd_status_t read_element(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_cell_t *cell, *index;
  pyd_status_t status = pyd_frame_read(frame, step->b, &cell);
  if (!pyd_ok(status)) return status;
  const pyd_tensor_t* tensor = cell->tensor;
  uint64_t position = 0;  // of the element in row-major order
  for (uint32_t axis = 0; axis < tensor->rank; ++axis) {
    status = pyd_frame_read(frame, frame->p->pool[step->c + 1 + axis], &index);
    if (!pyd_ok(status)) return status;
    if (index->word >= (uint64_t)tensor->dims[axis]) {  // also a negative index
      return refuse_index(frame, step, (ll_t)index->word, axis, (ll_t)tensor->dims[axis]);
    }
    position = position * (uint64_t)tensor->dims[axis] + index->word;
  }
  uint64_t word = 0;
  status = pyd_tensor_element(tensor, position, &word);
  if (pyd_ok(status)) pyd_cell_set_word(&frame->slots[step->a], word);
  return status;
}

// LOAD: stores global b in slot a, as this call sees it: the value that it has stored, the snapshot's value, or else
// the committed one.
static pyd_status_t load(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_cell_t value = {NULL, 0, false};
  // |local_globals|: in a procedure with stores, the values that this call has stored. In one without, NULL or a
  // snapshot of the globals at the beginning of the call, in which a global that was empty stays so.
  const bool has_snapshot = frame->local_globals && !frame->p->has_stores;
  if (has_snapshot || (frame->local_globals && frame->local_globals[step->b].is_set)) {
    pyd_cell_share(&frame->local_globals[step->b], &value);
  } else {
    pyd_status_t status = pyd_state_load(frame->state, step->b, &value);
    if (!pyd_ok(status)) return status;
  }
  if (!value.is_set) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "global '@%.*s' is loaded before anything was stored to it",
                           STRING(frame->state->program->globals[step->b].name));
  }
  pyd_cell_clear(&frame->slots[step->a]);
  frame->slots[step->a] = value;
  return PYD_STATUS_OK;
}

// Stores the value of |cell| in the empty cell |out|, which remains after the call. A tensor in memory that the caller
// lends for the call is copied to |memory|. So is a tensor on a device, if |memory| is memory of this process. Scalars
// and other tensors are shared.
static pyd_status_t retain_or_copy(pyd_memory_t memory, const pyd_cell_t* cell, pyd_cell_t* out) {
  const pyd_tensor_t* tensor = cell->tensor;
  if (!tensor || (!tensor->is_lent && (!tensor->memory.device || memory.device))) {
    pyd_cell_share(cell, out);
    return PYD_STATUS_OK;
  }
  pyd_tensor_t* copy;
  pyd_status_t status = pyd_tensor_copy(memory, tensor, &copy);
  if (pyd_ok(status)) *out = (pyd_cell_t){copy, 0, true};
  return status;
}

// STORE: notes the value of slot b as the new value of global a, which the end of the call commits.
static pyd_status_t store(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_global_t* global = &frame->state->program->globals[step->a];
  uint32_t slot = step->b & ~PYD_LAST_USE;
  pyd_cell_t *cell, value = {NULL, 0, false};
  pyd_status_t status = pyd_frame_read(frame, slot, &cell);
  if (!pyd_ok(status)) return status;
  // A scalar, whose cell has no tensor, has no sizes to check. -1 is any size.
  for (uint32_t axis = 0; cell->tensor && axis < global->type.rank; ++axis) {
    if (global->type.dims[axis] == -1 || global->type.dims[axis] == cell->tensor->dims[axis]) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "global '@%.*s': axis %u: expected %lld elements, got %lld",
                           STRING(global->name), axis, (ll_t)global->type.dims[axis], (ll_t)cell->tensor->dims[axis]);
  }
  status = retain_or_copy(frame->state->memory, cell, &value);
  if (!pyd_ok(status)) return status;
  pyd_cell_clear(&frame->local_globals[step->a]);
  frame->local_globals[step->a] = value;
  if (step->b & PYD_LAST_USE) pyd_cell_clear(cell);
  return status;
}

// Makes room for another observation, by doubling the list if it is full. OUT_OF_MEMORY.
static pyd_status_t reserve_observation(pyd_invocation_t* invocation) {
  if (invocation->observation_count < invocation->observation_capacity) return PYD_STATUS_OK;
  uint64_t capacity = invocation->observation_capacity ? 2 * (uint64_t)invocation->observation_capacity : 8;
  bool fits = capacity < UINT32_MAX && capacity < SIZE_MAX / sizeof(pyd_observation_t);
  void* grown = fits ? realloc(invocation->observations, (size_t)capacity * sizeof(pyd_observation_t)) : NULL;
  if (!grown) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %llu checks", (unsigned long long)capacity);
  invocation->observations = grown;
  invocation->observation_capacity = (uint32_t)capacity;
  return PYD_STATUS_OK;
}

// OBSERVE: records the values of one or two slots for check a of the program; the caller compares them after the call.
// Pool word b is the number of slots, and the words after it are the slots. Tensors that the caller could not read then
// are copied to memory of this process: tensors on a device, and in memory that the caller lends until the call ends.
static pyd_status_t observe(pyd_frame_t* frame, const pyd_step_t* step) {
  pyd_invocation_t* invocation = frame->invocation;
  pyd_status_t status = reserve_observation(invocation);
  if (!pyd_ok(status)) return status;
  pyd_observation_t observation = {.check = step->a, .count = frame->p->pool[step->b]};
  const pyd_memory_t host_memory = {.pool = frame->state->memory.pool};  // no device: memory of this process
  for (uint32_t i = 0; i < observation.count && pyd_ok(status); ++i) {
    uint32_t slot = frame->p->pool[step->b + 1 + i];
    pyd_cell_t* cell;
    observation.types[i] = frame->p->slots[slot];
    status = pyd_frame_read(frame, slot, &cell);
    if (pyd_ok(status)) status = retain_or_copy(host_memory, cell, &observation.cells[i]);
  }
  if (pyd_ok(status)) {
    invocation->observations[invocation->observation_count++] = observation;
  } else {
    for (uint32_t i = 0; i < observation.count; ++i) pyd_cell_clear(&observation.cells[i]);
  }
  return status;
}

// CONSTANT: stores constant b of the program in slot a. Pool words from c on are its sizes: low word, high word of
// each.
static pyd_status_t make_constant(pyd_frame_t* frame, const pyd_step_t* step) {
  const pyd_slot_type_t* type = &frame->p->slots[step->a];
  int64_t dims[PYD_PROGRAM_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; ++i) {
    const uint32_t* words = frame->p->pool + step->c + 2 * i;
    dims[i] = (int64_t)(words[0] | (uint64_t)words[1] << 32);
  }
  pyd_tensor_t* tensor;
  pyd_status_t status =
      pyd_state_constant(frame->state, step->b, (pyd_shape_t){type->dtype, type->rank, dims}, &tensor);
  if (pyd_ok(status)) pyd_cell_set_tensor(&frame->slots[step->a], tensor);
  return status;
}

// VIEW: stores a tensor in slot a that shares the memory of tensor slot b. Pool word c is the scalar slot of its offset
// in bytes; the words after it are the scalar slots of its sizes. Without an offset (NONE) it has all bytes of slot b.
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
    const pyd_shape_t shape = {type->dtype, type->rank, dims};
    status = pyd_tensor_view(source->tensor, offset, /* is_whole */ words[0] == PYD_NONE, shape, &tensor);
  }
  if (!pyd_ok(status)) return status;
  if (step->b & PYD_LAST_USE) pyd_cell_clear(source);
  pyd_cell_set_tensor(&frame->slots[step->a], tensor);
  return status;
}

// Returns in |out_tensor| a tensor with the value of |source| in which updates may overwrite the rows whose numbers are
// |positions| and whose old elements are |saved|. It has the same memory in two cases: nothing else refers to |source|,
// or only a global does, whose old rows |saved| can restore if the call fails before it stores the tensor in the global
// (possible in a program with stores to globals). Otherwise it is a copy. |is_last|: the slot of |source| is not read
// again.
static pyd_status_t save_rows(const pyd_frame_t* frame, pyd_tensor_t* source, bool is_last, pyd_tensor_t* positions,
                              pyd_tensor_t* saved, pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  if (is_last && pyd_tensor_is_alone(source)) {
    *out_tensor = pyd_tensor_retain(source);
    return PYD_STATUS_OK;
  }
  pyd_status_t status = PYD_STATUS_OK;
  if (is_last && frame->p->has_stores) status = pyd_state_save_rows(frame->state, source, positions, saved, out_tensor);
  if (!pyd_ok(status) || *out_tensor) return status;
  return pyd_tensor_copy(frame->state->memory, source, out_tensor);
}

// SAVE: prepares the tensor in slot b for updates of some of its rows in place. Stores a tensor of equal value in slot
// a, of which later steps may overwrite these rows and no others: over the same memory if possible, else a copy; see
// save_rows(). Pool word c is the slot with the row numbers (i64; negative: no row). The next word is the slot with the
// current elements of these rows, which restore a global in the same memory if the call fails.
static pyd_status_t save(pyd_frame_t* frame, const pyd_step_t* step) {
  const uint32_t* slots = frame->p->pool + step->c;
  pyd_cell_t *source, *positions, *saved;
  pyd_status_t status = pyd_frame_read(frame, step->b & ~PYD_LAST_USE, &source);
  if (pyd_ok(status)) status = pyd_frame_read(frame, slots[0] & ~PYD_LAST_USE, &positions);
  if (pyd_ok(status)) status = pyd_frame_read(frame, slots[1] & ~PYD_LAST_USE, &saved);
  if (!pyd_ok(status)) return status;
  pyd_tensor_t* tensor;
  status =
      save_rows(frame, source->tensor, /* is_last */ step->b & PYD_LAST_USE, positions->tensor, saved->tensor, &tensor);
  if (!pyd_ok(status)) return status;
  if (step->b & PYD_LAST_USE) pyd_cell_clear(source);
  for (uint32_t i = 0; i < 2; ++i) {
    if (slots[i] & PYD_LAST_USE) pyd_cell_clear(&frame->slots[slots[i] & ~PYD_LAST_USE]);
  }
  pyd_cell_set_tensor(&frame->slots[step->a], tensor);
  return status;
}

// Runs a RETURN step: stores the values of its slots as the results.
pyd_status_t pyd_frame_return(pyd_frame_t* frame, const pyd_step_t* step) {
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

// Runs one step of a procedure, of any operation but JUMP, BRANCH and RETURN.
pyd_status_t pyd_frame_step(pyd_frame_t* frame, const pyd_step_t* step) {
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
    case PYD_STEP_SAVE: return save(frame, step);
    // Word b is the low half of the value, word c the high half.
    case PYD_STEP_SCALAR: pyd_cell_set_word(&frame->slots[step->a], step->b | (uint64_t)step->c << 32); return status;
    case PYD_STEP_DIM:  // stores the size of tensor slot b along axis c in scalar slot a
      status = pyd_frame_read(frame, step->b, &cell);
      if (pyd_ok(status)) pyd_cell_set_word(&frame->slots[step->a], (uint64_t)cell->tensor->dims[step->c]);
      return status;
    case PYD_STEP_DROP: pyd_cell_clear(&frame->slots[step->a]); return status;
    case PYD_STEP_JUMP:
    case PYD_STEP_BRANCH:
    case PYD_STEP_RETURN: break;  // run by run_steps() in call.c
  }
  return status;
}
