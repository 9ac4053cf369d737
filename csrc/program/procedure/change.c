// Updates of globals in place, by the call inside the gate. What a change overwrites is saved first: ranges of bytes by
// a copy, rows whose positions kernels compute by the kernels themselves. A failure restores it. Callers that read the
// global meanwhile get a copy of the old value, from the unchanged and the saved bytes.
#include <stdlib.h>
#include <string.h>

#include "program/procedure/state.h"

// Changes in place per call. A call with more of them copies the global once and then changes the copy, so that the
// list of saved ranges, which every reader walks, stays short.
enum { kMaxChanges = 1024 };

// The changes of one call save at most 1/4 of the bytes of a global; beyond that a copy of the global costs little
// more.
enum { kMaxSavedShare = 4 };

// Saved ranges that are read at once. They are on the stack, so that restoring a global needs no memory; with fewer, a
// device is read more often.
enum { kRangesAtOnce = 256 };

// Bytes of a global before a call changed them in place, which are restored if the call fails: one range, or rows.
struct pyd_change_s {
  pyd_change_t* next;         // the previous change of the call, or NULL
  const pyd_tensor_t* owner;  // of the changed block; not a reference: a global holds it until the change is dropped
  uint64_t offset;            // range: its first byte in the block
  pyd_tensor_t* saved;        // the old bytes: of the range, or of all rows one after another
  pyd_tensor_t* positions;    // rows: a number (i64) for each, which may be out of range; NULL for a range
  uint64_t bytes;             // rows: size of the whole tensor, which limits their numbers
  uint64_t saved_bytes;       // sum over this change and earlier ones of the same owner
};

// Returns whether the call inside the gate has changed bytes in place in the block of |tensor|, which may be NULL. The
// caller holds one of the mutexes, |changing| or |mutex|.
bool pyd_state_has_changed(const pyd_state_t* state, const pyd_tensor_t* tensor) {
  for (const pyd_change_t* change = state->changes; tensor && change; change = change->next) {
    if (change->owner == pyd_tensor_owner(tensor)) return true;
  }
  return false;
}

// Returns whether the block of |tensor| may be changed in place: nothing refers to it but one global and the slot of
// the running procedure that holds |tensor| and is not read again. Both tensors must begin at the first byte of the
// block, and the block must not be memory of a constant or of the caller. The caller holds |state->mutex|.
static bool is_shared_with_global_only(const pyd_state_t* state, const pyd_tensor_t* tensor) {
  const pyd_tensor_t *owner = pyd_tensor_owner(tensor), *shared_global = NULL;
  for (uint32_t i = 0; i < state->program->global_count && !shared_global; ++i) {
    const pyd_tensor_t* global = state->globals[i].tensor;
    if (global && pyd_tensor_owner(global) == owner) shared_global = global;
  }
  if (!shared_global || !owner->block || owner->is_fixed || tensor->offset || shared_global->offset) return false;
  // Slot and global each refer to the owner itself, or to a view, which has one reference to the owner: 2 references.
  // If both refer to the same view, the owner has 1 reference, and the view has 2.
  const bool share_view = tensor != owner && shared_global == tensor;
  if (atomic_load_explicit(&owner->references, memory_order_acquire) != (share_view ? 1u : 2u)) return false;
  if (share_view) return atomic_load_explicit(&tensor->references, memory_order_acquire) == 2;
  const bool is_slot_alone = tensor == owner || pyd_tensor_is_single(tensor);
  const bool is_global_alone = shared_global == owner || pyd_tensor_is_single(shared_global);
  return is_slot_alone && is_global_alone;
}

// Returns how many bytes of the block of |owner| the running call has saved so far: its newest change of the block has
// the sum. The caller holds one of the mutexes, |changing| or |mutex|.
static uint64_t count_saved_bytes(const pyd_state_t* state, const pyd_tensor_t* owner) {
  const pyd_change_t* change = state->changes;
  while (change && change->owner != owner) change = change->next;
  return change ? change->saved_bytes : 0;
}

// Returns whether the running call may change |bytes| bytes of |tensor| in place, after saving them as |count| changes.
// If so, sets |state->is_changing|, so that calls that load globals look for changes. The caller holds
// |state->changing|.
static bool begin_changes(pyd_state_t* state, const pyd_tensor_t* tensor, uint32_t count, uint64_t bytes) {
  pthread_mutex_lock(&state->mutex);
  const bool are_few = state->change_count + count <= kMaxChanges;
  const uint64_t saved_bytes = count_saved_bytes(state, pyd_tensor_owner(tensor)) + bytes;
  const bool are_small = saved_bytes <= tensor->bytes / kMaxSavedShare;  // else the caller copies the whole tensor
  const bool is_possible = are_few && are_small && is_shared_with_global_only(state, tensor);
  if (is_possible) state->is_changing = true;
  pthread_mutex_unlock(&state->mutex);
  return is_possible;
}

// Adds |change| to the changes of the call, which takes over its references to tensors if that succeeds. The caller
// holds |changing|.
static pyd_status_t add_change(pyd_state_t* state, pyd_change_t change) {
  pyd_change_t* added = malloc(sizeof(*added));
  if (!added) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to note a change of a global");
  *added = change;
  added->saved_bytes = count_saved_bytes(state, change.owner) + change.saved->bytes;
  pthread_mutex_lock(&state->mutex);
  added->next = state->changes;
  state->changes = added;
  ++state->change_count;
  pthread_mutex_unlock(&state->mutex);
  return PYD_STATUS_OK;
}

enum { kByteDtype = 0x10000008 };  // signless integers of 8 bits

// Saves the bytes of |range| of the block of |owner| before they are overwritten. The caller holds |changing|.
static pyd_status_t save(pyd_state_t* state, const pyd_tensor_t* owner, const pyd_range_t* range) {
  const int64_t size = (int64_t)range->bytes;
  pyd_change_t change = {.owner = owner, .offset = range->offset};
  pyd_status_t status =
      pyd_tensor_make(state->memory, (pyd_shape_t){kByteDtype, 1, &size}, range->bytes, &change.saved);
  if (pyd_ok(status)) status = pyd_tensor_move(owner, range->offset, change.saved, /* target_offset */ 0, range->bytes);
  if (pyd_ok(status)) status = add_change(state, change);
  if (!pyd_ok(status) && change.saved) pyd_tensor_release(change.saved);
  return status;
}

// Creates a tensor of |shape| over the memory of |tensor|, so that the caller can overwrite |ranges| of it, and saves
// their old bytes. |*out_tensor| is NULL if that is not possible: anything but one global and the slot of the caller
// refers to the memory, or too much would be saved. The caller is inside the gate, which one call at a time holds.
pyd_status_t pyd_state_change(pyd_state_t* state, pyd_tensor_t* tensor, const pyd_range_t* ranges, uint32_t count,
                              pyd_shape_t shape, pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  uint64_t written = 0;
  for (uint32_t i = 0; i < count; ++i) written += ranges[i].bytes;
  pthread_mutex_lock(&state->changing);
  bool is_possible = begin_changes(state, tensor, count, written);
  pyd_tensor_t* changed = NULL;
  pyd_status_t status = PYD_STATUS_OK;
  if (is_possible) status = pyd_tensor_view(tensor, /* offset */ 0, /* is_whole */ false, shape, &changed);
  for (uint32_t i = 0; is_possible && i < count && pyd_ok(status); ++i) {
    status = save(state, pyd_tensor_owner(tensor), &ranges[i]);
  }
  pthread_mutex_unlock(&state->changing);
  if (pyd_ok(status)) {
    *out_tensor = changed;
  } else if (changed) {
    pyd_tensor_release(changed);
  }
  return status;
}

// Returns how many row numbers, of 8 bytes each, a tensor holds.
static uint64_t count_positions(const pyd_tensor_t* positions) { return positions->bytes / sizeof(int64_t); }

// Returns whether |change| has saved rows (rather than a range of bytes) of the block that |tensor| uses.
static bool is_of_rows(const pyd_change_t* change, const pyd_tensor_t* tensor) {
  return change->positions && change->owner == pyd_tensor_owner(tensor);
}

// Adds a change of rows of |tensor|: |saved| are their old elements, |positions| their numbers. The caller holds
// |changing|.
static pyd_status_t add_rows(pyd_state_t* state, const pyd_tensor_t* tensor, pyd_tensor_t* positions,
                             pyd_tensor_t* saved) {
  const pyd_change_t change = {.owner = pyd_tensor_owner(tensor),
                               .saved = pyd_tensor_retain(saved),
                               .positions = pyd_tensor_retain(positions),
                               .bytes = tensor->bytes};
  pyd_status_t status = add_change(state, change);
  if (pyd_ok(status)) return status;
  pyd_tensor_release(saved);
  pyd_tensor_release(positions);
  return status;
}

// Saves rows of |tensor| that the caller is about to overwrite, and creates a view of it in |*out_tensor|. |positions|:
// the number of each row (i64; negative: no row). |saved|: the old elements of these rows, one after another, so that
// |saved->bytes| / rows is the size of a row. |*out_tensor| is NULL if changes in place are not possible: anything but
// one global and the slot of the caller refers to the memory, or too much would be saved. The caller is inside the
// gate.
pyd_status_t pyd_state_save_rows(pyd_state_t* state, pyd_tensor_t* tensor, pyd_tensor_t* positions, pyd_tensor_t* saved,
                                 pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  uint64_t rows = count_positions(positions);  // also those with negative numbers
  if (rows && (saved->bytes % rows || saved->bytes / rows == 0 || tensor->bytes % (saved->bytes / rows))) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%llu rows of %llu bytes are no rows of a tensor of %llu bytes",
                           (unsigned long long)rows, (unsigned long long)saved->bytes,
                           (unsigned long long)tensor->bytes);
  }
  pyd_status_t status = PYD_STATUS_OK;
  pthread_mutex_lock(&state->changing);
  bool is_possible = begin_changes(state, tensor, /* count */ 1, saved->bytes);
  if (is_possible) status = pyd_tensor_view(tensor, 0, /* is_whole */ true, pyd_tensor_shape(tensor), out_tensor);
  if (is_possible && pyd_ok(status)) {
    status = add_rows(state, tensor, positions, saved);
    if (!pyd_ok(status)) {
      pyd_tensor_release(*out_tensor);
      *out_tensor = NULL;
    }
  }
  pthread_mutex_unlock(&state->changing);
  return status;
}

// Creates a tensor of |shape| over the memory of |tensor|, of which the caller overwrites only rows that
// pyd_state_save_rows() has saved. |*out_tensor| is NULL, and the caller has to copy |tensor|, if no rows were saved or
// if the memory has other users than one global and the caller's reference, |tensor|.
pyd_status_t pyd_state_change_rows(pyd_state_t* state, pyd_tensor_t* tensor, pyd_shape_t shape,
                                   pyd_tensor_t** out_tensor) {
  *out_tensor = NULL;
  pthread_mutex_lock(&state->mutex);
  bool has_saved = false;
  for (const pyd_change_t* change = state->changes; change && !has_saved; change = change->next) {
    has_saved = is_of_rows(change, tensor);
  }
  bool is_possible = has_saved && is_shared_with_global_only(state, tensor);
  pthread_mutex_unlock(&state->mutex);
  return is_possible ? pyd_tensor_view(tensor, 0, /* is_whole */ true, shape, out_tensor) : PYD_STATUS_OK;
}

// Reads |count| of the row numbers of |change|, beginning with the one at index |first|.
static pyd_status_t read_positions(const pyd_change_t* change, uint64_t first, uint64_t count, int64_t* out_rows) {
  const pyd_tensor_t* positions = change->positions;
  const pyd_device_memory_t* device = positions->memory.device;
  uint64_t offset = first * sizeof(*out_rows), bytes = count * sizeof(*out_rows);
  if (device)
    return device->read(device->self, pyd_tensor_owner(positions)->block, positions->offset + offset, out_rows, bytes);
  memcpy(out_rows, positions->data + offset, (size_t)bytes);
  return PYD_STATUS_OK;
}

// Returns the number of ranges of bytes that |change| has saved.
static uint64_t count_ranges(const pyd_change_t* change) {
  return change->positions ? count_positions(change->positions) : 1;
}

// Lists at most kRangesAtOnce of the ranges of bytes that |change| has saved, beginning with the one at index |first|.
// They are in the order of their bytes in |change->saved|; offsets count from the beginning of the block. A row outside
// of the tensor, for which updates write nothing, gets an empty range. |first| < count_ranges(change).
static pyd_status_t list_ranges(const pyd_change_t* change, uint64_t first, pyd_range_t* out_ranges,
                                uint64_t* out_count) {
  uint64_t count = count_ranges(change), row_bytes = change->saved->bytes / count;
  *out_count = count - first < kRangesAtOnce ? count - first : kRangesAtOnce;
  if (!change->positions) {
    *out_ranges = (pyd_range_t){change->offset, change->saved->bytes};
    return PYD_STATUS_OK;
  }
  int64_t rows[kRangesAtOnce];
  pyd_status_t status = read_positions(change, first, *out_count, rows);
  for (uint64_t i = 0; i < *out_count && pyd_ok(status); ++i) {
    bool is_inside = rows[i] >= 0 && (uint64_t)rows[i] < change->bytes / row_bytes;
    out_ranges[i] = is_inside ? (pyd_range_t){(uint64_t)rows[i] * row_bytes, row_bytes} : (pyd_range_t){0, 0};
  }
  return status;
}

// Writes the old bytes that |change| has saved to their offsets in |target|: the changed block itself, or a copy of it.
static pyd_status_t restore(const pyd_change_t* change, const pyd_tensor_t* target) {
  pyd_status_t status = PYD_STATUS_OK;
  uint64_t count = count_ranges(change), listed = 0;
  for (uint64_t first = 0; first < count && pyd_ok(status); first += listed) {
    pyd_range_t ranges[kRangesAtOnce];
    status = list_ranges(change, first, ranges, &listed);
    for (uint64_t i = 0; i < listed && pyd_ok(status); ++i) {
      uint64_t saved_offset = (first + i) * (change->saved->bytes / count);  // ranges of one change have equal sizes
      status = pyd_tensor_move(change->saved, saved_offset, target, ranges[i].offset, ranges[i].bytes);
    }
  }
  return status;
}

// Compares two ranges by their offsets, for qsort().
static int compare_offsets(const void* lhs, const void* rhs) {
  const pyd_range_t *a = lhs, *b = rhs;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

// Returns how many ranges of bytes the call has saved of the block of |owner|.
static uint64_t count_ranges_of(const pyd_state_t* state, const pyd_tensor_t* owner) {
  uint64_t count = 0;
  for (const pyd_change_t* change = state->changes; change; change = change->next) {
    if (change->owner == owner) count += count_ranges(change);
  }
  return count;
}

// Lists the ranges of bytes that were changed in the memory of |source|, in ascending order of their offsets. They may
// overlap. The caller frees |*out_ranges|.
static pyd_status_t list_changes(const pyd_state_t* state, const pyd_tensor_t* source, pyd_range_t** out_ranges,
                                 uint64_t* out_count) {
  *out_ranges = NULL;
  *out_count = 0;
  const pyd_tensor_t* owner = pyd_tensor_owner(source);
  uint64_t count = count_ranges_of(state, owner), position = 0;
  pyd_range_t* ranges = calloc((size_t)count + 1, sizeof(*ranges));
  if (!ranges) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %llu saved ranges of a global",
                           (unsigned long long)count);
  }
  pyd_status_t status = PYD_STATUS_OK;
  for (const pyd_change_t* change = state->changes; change && pyd_ok(status); change = change->next) {
    uint64_t range_count = change->owner == owner ? count_ranges(change) : 0, listed = 0;
    for (uint64_t first = 0; first < range_count && pyd_ok(status); first += listed, position += listed) {
      status = list_ranges(change, first, ranges + position, &listed);
    }
  }
  if (!pyd_ok(status)) {
    free(ranges);
    return status;
  }
  qsort(ranges, (size_t)count, sizeof(*ranges), compare_offsets);
  *out_ranges = ranges;
  *out_count = count;
  return status;
}

// Copies the bytes of |source| that no change has overwritten to |target|, a tensor of the same size, one unchanged
// range after the other. |source| has been changed in place, so it begins at the first byte of its block, from which
// the offsets of changes count.
static pyd_status_t copy_unchanged(const pyd_state_t* state, const pyd_tensor_t* source, const pyd_tensor_t* target) {
  pyd_range_t* ranges;
  uint64_t count, position = 0;
  pyd_status_t status = list_changes(state, source, &ranges, &count);
  if (!pyd_ok(status)) return status;
  for (uint64_t i = 0; i <= count && pyd_ok(status); ++i) {  // at |count|: the bytes after the last range
    uint64_t begin = i < count ? ranges[i].offset : source->bytes;
    if (begin > position) status = pyd_tensor_move(source, position, target, position, begin - position);
    uint64_t end = i < count ? begin + ranges[i].bytes : begin;
    if (end > position) position = end;
  }
  free(ranges);
  return status;
}

// Replaces the tensor in |cell|, which the running call has changed in place, by a copy of its value before that call.
// Restores changes newest first: of bytes that were saved twice, the oldest value remains. The cell is unchanged after
// a failure. The caller holds |changing|.
pyd_status_t pyd_state_copy_old(const pyd_state_t* state, pyd_cell_t* cell) {
  const pyd_tensor_t* source = cell->tensor;
  pyd_tensor_t* copy;
  pyd_status_t status = pyd_tensor_make(state->memory, pyd_tensor_shape(source), source->bytes, &copy);
  if (!pyd_ok(status)) return status;
  status = copy_unchanged(state, source, copy);
  for (const pyd_change_t* change = state->changes; change && pyd_ok(status); change = change->next) {
    if (change->owner == pyd_tensor_owner(source)) status = restore(change, copy);
  }
  if (pyd_ok(status)) {
    pyd_cell_set_tensor(cell, copy);
  } else {
    pyd_tensor_release(copy);
  }
  return status;
}

// Empties the globals that were changed in place and could not be restored. The caller holds |changing|, so that no
// other call loads globals of which only some are empty yet.
static void clear_changed_globals(pyd_state_t* state) {
  for (uint32_t i = 0; i < state->program->global_count; ++i) {
    pyd_cell_t lost = {NULL, 0, false};
    pthread_mutex_lock(&state->mutex);
    if (pyd_state_has_changed(state, state->globals[i].tensor)) {
      lost = state->globals[i];
      state->globals[i] = (pyd_cell_t){NULL, 0, false};
    }
    pthread_mutex_unlock(&state->mutex);
    pyd_cell_clear(&lost);  // without |mutex|: a device that releases memory may wait for a thread that waits for it
  }
}

// Writes back the saved bytes of globals that a failed call has changed in place, newest change first: of bytes that
// were saved twice, the oldest value remains. If that fails, the device is lost, and the values with it: the changed
// globals become empty. The caller holds |changing|, but not |mutex|, see pyd_state_commit().
void pyd_state_restore(pyd_state_t* state) {
  pyd_status_t status = PYD_STATUS_OK;
  for (const pyd_change_t* change = state->changes; change && pyd_ok(status); change = change->next) {
    status = restore(change, change->owner);
  }
  if (pyd_ok(status)) return;
  pyd_status_free(status);
  clear_changed_globals(state);
}

// Removes all changes from the state, and returns their list for pyd_state_free_changes().
pyd_change_t* pyd_state_end_changes(pyd_state_t* state) {
  pyd_change_t* changes = state->changes;
  state->changes = NULL;
  state->change_count = 0;
  state->is_changing = false;
  return changes;
}

// Frees a list of changes, with the bytes that they have saved.
void pyd_state_free_changes(pyd_change_t* changes) {
  while (changes) {
    pyd_change_t* change = changes;
    changes = change->next;
    pyd_tensor_release(change->saved);
    if (change->positions) pyd_tensor_release(change->positions);
    free(change);
  }
}
