// Updates of globals in place, by the call inside the gate. The bytes that a change overwrites are saved first. A
// failure restores them. Callers that read the global meanwhile get a copy of the old value, from the unchanged and the
// saved bytes.
#include <stdlib.h>

#include "program/procedure/state.h"

// Changes in place per call. A call with more of them copies the global once and then changes the copy, so that the
// list of saved ranges, which every reader walks, stays short.
enum { kMaxChanges = 1024 };

// The saved old bytes of one range that was changed in place.
struct pyd_change_s {
  pyd_change_t* next;         // the previous change
  const pyd_tensor_t* owner;  // of the block, which a global holds
  uint64_t offset;            // into the block
  pyd_tensor_t* saved;
};

bool pyd_state_has_changed(const pyd_state_t* state, const pyd_tensor_t* tensor) {
  for (const pyd_change_t* change = state->changes; tensor && change; change = change->next) {
    if (change->owner == pyd_tensor_owner(tensor)) return true;
  }
  return false;
}

// Returns whether one global and the slot with |tensor|, which is read for the last time, are the only references to
// the tensor's block. The caller holds the mutex.
static bool is_shared_with_global_only(const pyd_state_t* state, const pyd_tensor_t* tensor) {
  const pyd_tensor_t *owner = pyd_tensor_owner(tensor), *shared_global = NULL;
  for (uint32_t i = 0; i < state->program->global_count && !shared_global; ++i) {
    const pyd_tensor_t* global = state->globals[i].tensor;
    if (global && pyd_tensor_owner(global) == owner) shared_global = global;
  }
  if (!shared_global || !owner->block || owner->is_fixed || tensor->offset || shared_global->offset) return false;
  // References from the slot, from the global, and from each of the two that is a view.
  uint32_t expected_references = (tensor == owner) + (shared_global == owner) + (tensor != owner) +
                                 (shared_global != owner && shared_global != tensor);
  if (atomic_load_explicit(&owner->references, memory_order_acquire) != expected_references) return false;
  if (tensor != owner &&
      atomic_load_explicit(&tensor->references, memory_order_acquire) != 1u + (shared_global == tensor))
    return false;
  return shared_global == owner || shared_global == tensor || pyd_tensor_is_single(shared_global);
}

// Saves the bytes of |range| before they are overwritten.
static pyd_status_t save(pyd_state_t* state, const pyd_tensor_t* owner, const pyd_range_t* range) {
  const int64_t size = (int64_t)range->bytes;
  pyd_change_t* change = malloc(sizeof(*change));
  if (!change) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to note a change of a global");
  *change = (pyd_change_t){.owner = owner, .offset = range->offset};
  pyd_status_t status =
      pyd_tensor_make(state->memory, (pyd_shape_t){0x10000008, 1, &size}, range->bytes, &change->saved);
  if (pyd_ok(status)) status = pyd_tensor_move(owner, range->offset, change->saved, 0, range->bytes);
  if (!pyd_ok(status)) {
    if (change->saved) pyd_tensor_release(change->saved);
    free(change);
    return status;
  }
  pthread_mutex_lock(&state->mutex);
  change->next = state->changes;
  state->changes = change;
  pthread_mutex_unlock(&state->mutex);
  return status;
}

pyd_status_t pyd_state_change(pyd_state_t* state, pyd_tensor_t* tensor, const pyd_range_t* ranges, uint32_t count,
                              pyd_shape_t shape, pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  pthread_mutex_lock(&state->changing);
  pthread_mutex_lock(&state->mutex);
  bool is_possible = state->change_count + count <= kMaxChanges && is_shared_with_global_only(state, tensor);
  if (is_possible) state->is_changing = true;
  pthread_mutex_unlock(&state->mutex);
  pyd_tensor_t* changed = NULL;
  pyd_status_t status = PYD_STATUS_OK;
  if (is_possible) status = pyd_tensor_view(tensor, 0, false, shape, &changed);
  for (uint32_t i = 0; is_possible && i < count && pyd_ok(status); ++i) {
    status = save(state, pyd_tensor_owner(tensor), &ranges[i]);
    ++state->change_count;
  }
  pthread_mutex_unlock(&state->changing);
  if (pyd_ok(status)) {
    *out_tensor = changed;
  } else if (changed) {
    pyd_tensor_release(changed);
  }
  return status;
}

// Copies the bytes of |source| that no change has overwritten to |target|, one unchanged range after the other.
static pyd_status_t copy_unchanged(const pyd_state_t* state, const pyd_tensor_t* source, const pyd_tensor_t* target) {
  for (uint64_t position = 0; position < source->bytes;) {
    uint64_t end = source->bytes, covered = position;
    for (const pyd_change_t* change = state->changes; change; change = change->next) {
      if (change->owner != pyd_tensor_owner(source)) continue;
      if (change->offset > position && change->offset < end) end = change->offset;
      if (change->offset <= position && change->offset + change->saved->bytes > covered)
        covered = change->offset + change->saved->bytes;
    }
    if (covered > position) {
      position = covered;
      continue;
    }
    pyd_status_t status = pyd_tensor_move(source, position, target, position, end - position);
    if (!pyd_ok(status)) return status;
    position = end;
  }
  return PYD_STATUS_OK;
}

pyd_status_t pyd_state_copy_old(const pyd_state_t* state, pyd_cell_t* cell) {
  const pyd_tensor_t* source = cell->tensor;
  pyd_tensor_t* copy;
  pyd_status_t status = pyd_tensor_make(state->memory, pyd_tensor_shape(source), source->bytes, &copy);
  if (!pyd_ok(status)) return status;
  status = copy_unchanged(state, source, copy);
  for (const pyd_change_t* change = state->changes; change && pyd_ok(status); change = change->next) {
    if (change->owner == pyd_tensor_owner(source)) {
      status = pyd_tensor_move(change->saved, 0, copy, change->offset, change->saved->bytes);
    }
  }
  if (pyd_ok(status)) {
    pyd_cell_set_tensor(cell, copy);
  } else {
    pyd_tensor_release(copy);
  }
  return status;
}

static void drop_changes(pyd_state_t* state) {
  while (state->changes) {
    pyd_change_t* change = state->changes;
    state->changes = change->next;
    pyd_tensor_release(change->saved);
    free(change);
  }
  state->change_count = 0;
  state->is_changing = false;
}

void pyd_state_keep_changes(pyd_state_t* state) { drop_changes(state); }

void pyd_state_undo_changes(pyd_state_t* state) {
  for (const pyd_change_t* change = state->changes; change; change = change->next) {
    pyd_status_t status = pyd_tensor_move(change->saved, 0, change->owner, change->offset, change->saved->bytes);
    if (pyd_ok(status)) continue;
    pyd_status_free(status);  // the device is lost: the values are, too
    for (uint32_t i = 0; i < state->program->global_count; ++i) {
      if (pyd_state_has_changed(state, state->globals[i].tensor)) pyd_cell_clear(&state->globals[i]);
    }
    break;
  }
  drop_changes(state);
}
