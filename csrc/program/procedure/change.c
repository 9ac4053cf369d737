// Updates of globals in place, by the call inside the gate. The bytes that a change overwrites are saved first, so that
// a failure can undo it, and callers that read meanwhile get a copy of the old value: of what did not change, and of
// what was saved.
#include <stdlib.h>

#include "program/procedure/state.h"

enum { kMostChanges = 1024 };  // of one call; later ones copy the value once, and need no saving then

struct pyd_change_s {
  pyd_change_t* next;         // the one before
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

// Whether |tensor|, in a slot that is read for the last time, and a global are the only ones that use their block.
// Under the mutex.
static bool is_only_global(const pyd_state_t* state, const pyd_tensor_t* tensor) {
  const pyd_tensor_t *owner = pyd_tensor_owner(tensor), *kept = NULL;
  for (uint32_t i = 0; i < state->program->global_count && !kept; ++i) {
    const pyd_tensor_t* global = state->globals[i].tensor;
    if (global && pyd_tensor_owner(global) == owner) kept = global;
  }
  if (!kept || !owner->block || owner->is_fixed || tensor->offset || kept->offset) return false;
  // References from the slot, from the global, and from each of the two that is a view.
  uint32_t of_owner = (tensor == owner) + (kept == owner) + (tensor != owner) + (kept != owner && kept != tensor);
  if (atomic_load_explicit(&owner->references, memory_order_acquire) != of_owner) return false;
  if (tensor != owner && atomic_load_explicit(&tensor->references, memory_order_acquire) != 1u + (kept == tensor))
    return false;
  return kept == owner || kept == tensor || pyd_tensor_is_single(kept);
}

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
  bool can = state->change_count + count <= kMostChanges && is_only_global(state, tensor);
  if (can) state->is_changing = true;
  pthread_mutex_unlock(&state->mutex);
  pyd_tensor_t* made = NULL;
  pyd_status_t status = PYD_STATUS_OK;
  if (can) status = pyd_tensor_view(tensor, 0, false, shape, &made);
  for (uint32_t i = 0; can && i < count && pyd_ok(status); ++i) {
    status = save(state, pyd_tensor_owner(tensor), &ranges[i]);
    ++state->change_count;
  }
  pthread_mutex_unlock(&state->changing);
  if (pyd_ok(status)) {
    *out_tensor = made;
  } else if (made) {
    pyd_tensor_release(made);
  }
  return status;
}

// Copies what no change has overwritten of the |bytes| bytes that begin where the block of |source| does.
static pyd_status_t copy_unchanged(const pyd_state_t* state, const pyd_tensor_t* source, const pyd_tensor_t* target) {
  for (uint64_t at = 0; at < source->bytes;) {
    uint64_t end = source->bytes, covered = at;
    for (const pyd_change_t* change = state->changes; change; change = change->next) {
      if (change->owner != pyd_tensor_owner(source)) continue;
      if (change->offset > at && change->offset < end) end = change->offset;
      if (change->offset <= at && change->offset + change->saved->bytes > covered)
        covered = change->offset + change->saved->bytes;
    }
    if (covered > at) {
      at = covered;
      continue;
    }
    pyd_status_t status = pyd_tensor_move(source, at, target, at, end - at);
    if (!pyd_ok(status)) return status;
    at = end;
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

static void forget(pyd_state_t* state) {
  while (state->changes) {
    pyd_change_t* change = state->changes;
    state->changes = change->next;
    pyd_tensor_release(change->saved);
    free(change);
  }
  state->change_count = 0;
  state->is_changing = false;
}

void pyd_state_keep_changes(pyd_state_t* state) { forget(state); }

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
  forget(state);
}
