// Objects that other runtimes refer to by number: an array that is sorted by number.
#include <stdlib.h>
#include <string.h>

#include "process/lock.h"

// An object under its number. |retain|: adds a reference to it, and identifies its type.
typedef struct numbered_s {
  uint64_t number;
  void* self;
  pyd_process_retain_fn_t retain;
} numbered_t;

// All are read and written under the lock of the process.
static numbered_t* list;        // sorted by number, without duplicates; NULL if empty
static size_t count, capacity;  // objects in the list, and objects that its memory has room for

// Returns the index of |number|, or the index where it would be inserted.
static size_t lower_bound(uint64_t number) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (list[middle].number < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Returns whether |number| is at index |place|.
static bool is_at(size_t place, uint64_t number) { return place < count && list[place].number == number; }

// Adds an object to the list. INVALID_ARGUMENT if its number is taken. The caller holds the lock of the process.
static pyd_status_t insert(numbered_t added) {
  size_t place = lower_bound(added.number);
  if (is_at(place, added.number)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "the number %llu is taken", (unsigned long long)added.number);
  }
  if (count == capacity) {
    size_t wanted = capacity ? 2 * capacity : 16;
    numbered_t* larger = realloc(list, wanted * sizeof(*list));
    if (!larger) {
      return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a list of %zu numbers", wanted);
    }
    list = larger;
    capacity = wanted;
  }
  memmove(&list[place + 1], &list[place], (count - place) * sizeof(*list));
  list[place] = added;
  ++count;
  return PYD_STATUS_OK;
}

// Registers |self| under |number|, by which calls from other runtimes, such as XLA and PyTorch, refer to it. |retain|:
// adds a reference to |self|, and identifies its type. The list holds no reference: remove the number before releasing
// |self|. INVALID_ARGUMENT if the number is taken; OUT_OF_MEMORY.
pyd_status_t pyd_process_number_add(uint64_t number, void* self, pyd_process_retain_fn_t retain) {
  pyd_status_t status = pyd_process_lock();
  if (!pyd_ok(status)) return status;
  status = insert((numbered_t){number, self, retain});
  pyd_process_unlock();
  return status;
}

// Removes the object with |number| from the list of objects that other runtimes refer to by number; ignores a number
// that is not in the list.
void pyd_process_number_remove(uint64_t number) {
  pyd_status_t status = pyd_process_lock();
  // The lock fails only if the handlers of fork() could not be installed, which is tried once. It then fails always,
  // also in pyd_process_number_add(), so that the list is empty.
  if (!pyd_ok(status)) {
    pyd_status_free(status);
    return;
  }
  size_t place = lower_bound(number);
  if (is_at(place, number)) {
    --count;
    memmove(&list[place], &list[place + 1], (count - place) * sizeof(*list));
  }
  if (!count) {  // leave no memory behind for leak checkers
    free(list);
    list = NULL;
    capacity = 0;
  }
  pyd_process_unlock();
}

// Returns the object |number| with a new reference; NULL if there is none, or if it is of another type than |retain|.
void* pyd_process_number_find(uint64_t number, pyd_process_retain_fn_t retain) {
  pyd_status_t status = pyd_process_lock();
  if (!pyd_ok(status)) {
    pyd_status_free(status);
    return NULL;
  }
  size_t place = lower_bound(number);
  void* found = is_at(place, number) && list[place].retain == retain ? list[place].self : NULL;
  if (found) retain(found);
  pyd_process_unlock();
  return found;
}
