// links: base platform sched memory program
// flags: -Wl,--wrap=malloc,--wrap=calloc
// with: double.c
// Changes of globals in place, in memory of this process and of a device: what may be changed, what readers see
// meanwhile, and what a failure restores, also when memory is short.
#include "program/builder.h"
#include "program/procedure/state.h"
#include "program/procedure_builder.h"

enum { SIZE = 1 << 16, LIMIT = SIZE / 4, ROW = 16 };

static int64_t g_allowed = INT64_MAX;  // allocations that succeed
void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __wrap_malloc(size_t size) { return g_allowed-- > 0 ? __real_malloc(size) : NULL; }
void* __wrap_calloc(size_t count, size_t size) { return g_allowed-- > 0 ? __real_calloc(count, size) : NULL; }

// A device whose blocks are memory that only these functions read and write. A device in Python takes the interpreter
// lock in them, which a forking thread holds while it waits for the mutex of the state: a call must not hold that.
static bool g_is_lost;
static pyd_state_t* g_state;
static void check_mutex_is_free(void) {
  if (!g_state) return;
  CHECK(pthread_mutex_trylock(&g_state->mutex) == 0);
  pthread_mutex_unlock(&g_state->mutex);
}
static pyd_status_t run_on_device(void* self, pyd_call_t* call) {
  (void)self, (void)call;
  return PYD_STATUS_OK;
}
static pyd_status_t acquire(void* self, uint64_t bytes, void** out_block) {
  (void)self;
  check_mutex_is_free();
  *out_block = __real_calloc(1, (size_t)bytes + 1);
  return PYD_STATUS_OK;
}
static void release(void* self, void* block) {
  (void)self;
  check_mutex_is_free();
  free(block);
}
static pyd_status_t copy(void* self, void* source, uint64_t at, void* target, uint64_t to, uint64_t bytes) {
  (void)self;
  check_mutex_is_free();
  memmove((uint8_t*)target + to, (uint8_t*)source + at, (size_t)bytes);
  return PYD_STATUS_OK;
}
static pyd_status_t read_block(void* self, void* block, uint64_t at, void* target, uint64_t bytes) {
  (void)self;
  check_mutex_is_free();
  if (g_is_lost) return pyd_status_make(PYD_CODE_UNAVAILABLE, "the device is lost");
  memcpy(target, (uint8_t*)block + at, (size_t)bytes);
  return PYD_STATUS_OK;
}
static pyd_device_memory_t device_memory(void) {
  return (pyd_device_memory_t){
      .run = run_on_device, .acquire = acquire, .release = release, .copy = copy, .read = read_block};
}

typedef struct world_s {
  pyd_program_t* program;
  pyd_pool_t* pool;
  pyd_state_t* state;
  pyd_tensor_t* slot;  // the value of global 0, as the call inside the gate holds it
} world_t;

static uint8_t* bytes_of(const pyd_tensor_t* tensor) {
  return (uint8_t*)pyd_tensor_owner(tensor)->block + tensor->offset;
}

static pyd_tensor_t* make_tensor(const world_t* w, uint32_t dtype, int64_t size) {
  pyd_tensor_t* tensor;
  CHECK_OK(pyd_tensor_make(w->state->memory, (pyd_shape_t){dtype, 1, &size}, 0, &tensor));
  return tensor;
}

static uint8_t first_value(size_t i) { return (uint8_t)(i * 7 + i / 256); }

// Two globals; the first one has SIZE bytes.
static void open_world(world_t* w, bool is_on_device) {
  static builder_t b;
  static procs_t s;
  memset(&b, 0, sizeof(b));
  memset(&s, 0, sizeof(s));
  for (int i = 0; i < 2; ++i) add_global(&b, &s, i ? "b" : "a", 0, I8, 1, (int64_t[]){-1}, NONE, 0, true);
  finish_procs(&b, &s);
  w->program = decode(&b);
  if (is_on_device) pyd_program_set_device_memory(w->program, device_memory());
  CHECK_OK(pyd_pool_create(0, &w->pool));
  CHECK_OK(pyd_state_create(w->program, NULL, w->pool, &w->state));
  g_state = w->state;
  w->slot = make_tensor(w, I8, SIZE);
  for (size_t i = 0; i < SIZE; ++i) bytes_of(w->slot)[i] = first_value(i);
  pyd_cell_set_tensor(&w->state->globals[0], pyd_tensor_retain(w->slot));
}

static void close_world(world_t* w) {
  pyd_tensor_release(w->slot);
  g_state = NULL;
  pyd_state_free(w->state);
  pyd_pool_stats_t stats;
  pyd_pool_stats(w->pool, &stats);
  CHECK(stats.live_blocks == 0);
  pyd_pool_destroy(w->pool);
  pyd_program_free(w->program);
}

// Replaces the slot by |changed|, as the step of a procedure that reads it for the last time. Returns false for NULL.
static bool put_into_slot(world_t* w, pyd_tensor_t* changed) {
  if (!changed) return false;
  CHECK(bytes_of(changed) == bytes_of(w->slot));
  pyd_tensor_release(w->slot);
  w->slot = changed;
  return true;
}

// Overwrites |bytes| bytes in place. Returns false if they have to be written to a copy instead.
static bool change(world_t* w, uint64_t offset, uint64_t bytes) {
  const pyd_range_t range = {offset, bytes};
  pyd_tensor_t* changed;
  CHECK_OK(pyd_state_change(w->state, w->slot, &range, 1, pyd_tensor_shape(w->slot), &changed));
  if (!put_into_slot(w, changed)) return false;
  for (uint64_t i = 0; i < bytes; ++i) ++bytes_of(w->slot)[offset + i];
  return true;
}

static bool is_as_at_first(const pyd_tensor_t* tensor) {
  for (size_t i = 0; i < SIZE; ++i)
    if (bytes_of(tensor)[i] != first_value(i)) return false;
  return true;
}

// What a reader sees while the call has not ended is the first value, and a failure of the call restores it.
static void check_old_value(world_t* w) {
  pyd_cell_t cell = {NULL, 0, false};
  CHECK(pyd_state_has_changed(w->state, w->state->globals[0].tensor) && !pyd_state_has_changed(w->state, NULL));
  CHECK(!is_as_at_first(w->state->globals[0].tensor));
  CHECK_OK(pyd_state_load(w->state, 0, &cell));
  CHECK(is_as_at_first(cell.tensor));
  pyd_cell_clear(&cell);
  pyd_state_abandon(w->state);
  CHECK(is_as_at_first(w->state->globals[0].tensor) && !w->state->is_changing);
}

static void test_a_call_saves_a_quarter_of_a_global(bool is_on_device) {
  world_t w;
  open_world(&w, is_on_device);
  CHECK(change(&w, 0, LIMIT / 2) && change(&w, 0, LIMIT / 2));  // the same bytes twice
  CHECK(!change(&w, SIZE - 1, 1));
  check_old_value(&w);
  CHECK(!change(&w, 0, LIMIT + 1) && change(&w, SIZE - LIMIT, LIMIT) && !change(&w, 0, 1));
  check_old_value(&w);
  for (uint64_t i = 0; i < 1024; ++i) CHECK(change(&w, i * 8 % 4096, 1));
  CHECK(!change(&w, 0, 1));
  check_old_value(&w);
  CHECK(change(&w, 5, 1));
  pyd_state_commit(w.state, (pyd_cell_t[2]){{NULL, 0, false}, {NULL, 0, false}});
  CHECK(bytes_of(w.state->globals[0].tensor)[5] == first_value(5) + 1);
  close_world(&w);
}

static void test_memory_that_others_refer_to(void) {
  world_t w;
  open_world(&w, false);
  pyd_tensor_t* other = pyd_tensor_retain(w.slot);
  CHECK(!change(&w, 0, 1));
  pyd_tensor_release(other);
  pyd_cell_t* second = &w.state->globals[1];
  pyd_cell_set_tensor(second, pyd_tensor_retain(w.slot));
  CHECK(!change(&w, 0, 1));
  pyd_cell_set_tensor(second, make_tensor(&w, I8, 8));  // another tensor
  w.slot->is_fixed = true;
  CHECK(!change(&w, 0, 1));
  w.slot->is_fixed = false;
  CHECK(change(&w, 0, 1));  // from now on the slot has a view
  other = pyd_tensor_retain(w.slot);
  CHECK(!change(&w, 0, 1));
  pyd_tensor_release(other);
  pyd_state_abandon(w.state);

  pyd_tensor_t *whole = w.slot, *part;
  const int64_t size = SIZE - 8;
  CHECK_OK(pyd_tensor_view(whole, 8, false, (pyd_shape_t){I8, 1, &size}, &part));
  w.slot = part;
  pyd_tensor_release(whole);
  CHECK(!change(&w, 0, 1));  // the slot has a part of the block
  pyd_cell_t whole_cell = w.state->globals[0];
  w.state->globals[0] = (pyd_cell_t){pyd_tensor_retain(part), 0, true};
  CHECK(!change(&w, 0, 1));  // and the global
  pyd_tensor_release(w.slot);
  w.slot = pyd_tensor_retain(whole_cell.tensor);
  CHECK(!change(&w, 0, 1));  // and the global alone
  pyd_tensor_release(w.slot);
  pyd_cell_clear(&whole_cell);

  w.slot = make_tensor(&w, I8, SIZE);
  CHECK(!change(&w, 0, 1));  // no global has it
  pyd_tensor_t* view;
  CHECK_OK(pyd_tensor_view(w.slot, 0, true, pyd_tensor_shape(w.slot), &view));
  pyd_cell_set_tensor(&w.state->globals[0], view);
  pyd_tensor_release(w.slot);
  w.slot = pyd_tensor_retain(view);
  CHECK(change(&w, 0, 1));  // both have one view
  pyd_state_abandon(w.state);
  pyd_tensor_release(w.slot);
  w.slot = pyd_tensor_retain((pyd_tensor_t*)pyd_tensor_owner(view));
  other = pyd_tensor_retain(view);
  CHECK(!change(&w, 0, 1));  // the global has a view that something else has, too
  pyd_tensor_release(other);
  close_world(&w);
}

// Overwrites |count| rows in place. Returns false if they have to be written to a copy instead.
static bool change_rows(world_t* w, const int64_t* rows, uint64_t count) {
  pyd_tensor_t *positions = make_tensor(w, I64, (int64_t)count), *saved = make_tensor(w, I8, (int64_t)count * ROW);
  memcpy(bytes_of(positions), rows, (size_t)count * sizeof(*rows));
  for (uint64_t i = 0; i < count; ++i) {
    bool is_inside = rows[i] >= 0 && rows[i] < SIZE / ROW;
    if (is_inside) memcpy(&bytes_of(saved)[i * ROW], &bytes_of(w->slot)[rows[i] * ROW], ROW);
  }
  pyd_tensor_t* changed;
  CHECK_OK(pyd_state_save_rows(w->state, w->slot, positions, saved, &changed));
  pyd_tensor_release(positions);
  pyd_tensor_release(saved);
  if (!put_into_slot(w, changed)) return false;
  CHECK_OK(pyd_state_change_rows(w->state, w->slot, pyd_tensor_shape(w->slot), &changed));
  CHECK(put_into_slot(w, changed));
  for (uint64_t i = 0; i < count; ++i) {
    bool is_inside = rows[i] >= 0 && rows[i] < SIZE / ROW;
    for (uint64_t k = 0; is_inside && k < ROW; ++k) ++bytes_of(w->slot)[(uint64_t)rows[i] * ROW + k];
  }
  return true;
}

static void test_rows(bool is_on_device) {
  world_t w;
  open_world(&w, is_on_device);
  pyd_tensor_t* changed;
  CHECK_OK(pyd_state_change_rows(w.state, w.slot, pyd_tensor_shape(w.slot), &changed));
  CHECK(!changed);  // no rows are saved
  CHECK(change(&w, 8, 16));
  CHECK_OK(pyd_state_change_rows(w.state, w.slot, pyd_tensor_shape(w.slot), &changed));
  CHECK(!changed);
  CHECK(change_rows(&w, (int64_t[]){3, -1, SIZE / ROW, SIZE / ROW - 1, INT64_MIN}, 5) && change(&w, 3 * ROW, 2 * ROW));
  pyd_tensor_t* other = pyd_tensor_retain(w.slot);
  CHECK_OK(pyd_state_change_rows(w.state, w.slot, pyd_tensor_shape(w.slot), &changed));
  CHECK(!changed);  // something else has the memory
  pyd_tensor_release(other);
  check_old_value(&w);
  int64_t many[LIMIT / ROW];
  for (int64_t i = 0; i < LIMIT / ROW; ++i) many[i] = i * 3 % (SIZE / ROW);
  CHECK(change_rows(&w, many, 700) && !change_rows(&w, many, LIMIT / ROW - 699));
  CHECK(change_rows(&w, many, LIMIT / ROW - 700) && !change(&w, 0, 1));
  check_old_value(&w);
  CHECK(change_rows(&w, many, 0));  // no rows
  pyd_state_abandon(w.state);
  CHECK(is_as_at_first(w.state->globals[0].tensor));
  close_world(&w);
}

static void test_rows_of_other_sizes(void) {
  world_t w;
  open_world(&w, false);
  static const struct {
    int64_t rows, bytes;
  } kCases[] = {{2, 33}, {2, 0}, {2, 14}};
  for (size_t i = 0; i < sizeof(kCases) / sizeof(*kCases); ++i) {
    pyd_tensor_t *positions = make_tensor(&w, I64, kCases[i].rows), *saved = make_tensor(&w, I8, kCases[i].bytes);
    pyd_tensor_t* changed;
    CHECK_REFUSED(pyd_state_save_rows(w.state, w.slot, positions, saved, &changed), INVALID_ARGUMENT,
                  "bytes are no rows of a tensor of 65536 bytes");
    CHECK(!changed && !w.state->is_changing);
    pyd_tensor_release(positions);
    pyd_tensor_release(saved);
  }
  close_world(&w);
}

// Each allocation of a change fails in turn: nothing changes. Restoring needs no memory.
static void test_no_memory(bool is_on_device) {
  world_t w;
  open_world(&w, is_on_device);
  pyd_tensor_t *positions = make_tensor(&w, I64, 2), *saved = make_tensor(&w, I8, 2 * ROW), *changed;
  memcpy(bytes_of(positions), (int64_t[]){0, 1}, 2 * sizeof(int64_t));
  memcpy(bytes_of(saved), bytes_of(w.slot), 2 * ROW);
  for (int has_rows = 0; has_rows < 2; ++has_rows) {
    bool is_done = false;
    for (int64_t allowed = 0; !is_done; ++allowed) {
      g_allowed = allowed;
      const pyd_range_t ranges[] = {{0, 8}, {100, 8}};
      pyd_status_t status = has_rows ? pyd_state_save_rows(w.state, w.slot, positions, saved, &changed)
                                     : pyd_state_change(w.state, w.slot, ranges, 2, pyd_tensor_shape(w.slot), &changed);
      g_allowed = INT64_MAX;
      is_done = pyd_ok(status);
      CHECK(is_done ? changed != NULL : !changed && pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY);
      pyd_status_free(status);
      pyd_tensor_release(changed);
      CHECK(allowed > 0 || !is_done);
    }
  }
  memset(bytes_of(w.slot), 0, 2 * ROW);
  for (int64_t allowed = 0;; ++allowed) {
    pyd_cell_t cell = {NULL, 0, false};
    g_allowed = allowed;
    pyd_status_t status = pyd_state_load(w.state, 0, &cell);
    g_allowed = INT64_MAX;
    bool is_done = pyd_ok(status);
    CHECK(is_done ? is_as_at_first(cell.tensor) : !cell.is_set && pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY);
    pyd_status_free(status);
    pyd_cell_clear(&cell);
    if (is_done) break;
  }
  g_allowed = 0;
  pyd_state_abandon(w.state);
  g_allowed = INT64_MAX;
  CHECK(is_as_at_first(w.state->globals[0].tensor));
  pyd_tensor_release(positions);
  pyd_tensor_release(saved);
  close_world(&w);
}

static void test_a_lost_device(void) {
  world_t w;
  open_world(&w, true);
  pyd_cell_set_tensor(&w.state->globals[1], make_tensor(&w, I8, 8));
  CHECK(change_rows(&w, (int64_t[]){1, 2}, 2));
  pyd_cell_t cell = {NULL, 0, false};
  g_is_lost = true;
  CHECK_REFUSED(pyd_state_load(w.state, 0, &cell), UNAVAILABLE, "the device is lost");
  CHECK(!cell.is_set);
  pyd_state_abandon(w.state);
  g_is_lost = false;
  CHECK(!w.state->globals[0].is_set && w.state->globals[1].is_set);  // its value is lost
  close_world(&w);
}

int main(void) {
  for (int is_on_device = 0; is_on_device < 2; ++is_on_device) {
    test_a_call_saves_a_quarter_of_a_global(is_on_device);
    test_rows(is_on_device);
    test_no_memory(is_on_device);
  }
  test_memory_that_others_refer_to();
  test_rows_of_other_sizes();
  test_a_lost_device();
  return 0;
}
