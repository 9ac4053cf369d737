// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 2
// Memory of the embedder: allocators of devices and of results that fail at every single allocation, tensors with
// strides, and whoever is told that their memory is not used any more.
#include "api/world.h"
#include "platform/sanitizer.h"

enum { N = 12 };

// ---- an allocator that knows what it has given

typedef struct heap_s {
  atomic_long blocks, bytes, requests;
  atomic_long fails_at;  // this request gets nothing; -1: none
} heap_t;

static void* give(void* context, size_t size, size_t alignment) {
  heap_t* heap = context;
  CHECK(size && alignment == 64);
  if (atomic_fetch_add(&heap->requests, 1) == atomic_load(&heap->fails_at)) return NULL;
  void* memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  CHECK(memory);
  memset(memory, 0xA5, size);
  atomic_fetch_add(&heap->blocks, 1);
  atomic_fetch_add(&heap->bytes, (long)size);
  return memory;
}
static void take_back(void* context, void* memory, size_t size) {
  heap_t* heap = context;
  CHECK(memory && size);
  atomic_fetch_sub(&heap->blocks, 1);
  atomic_fetch_sub(&heap->bytes, (long)size);
  free(memory);
}
static pyd_allocator_t allocator_of(heap_t* heap) {
  return (pyd_allocator_t){sizeof(pyd_allocator_t), give, take_back, heap};
}
static void check_empty(const heap_t* heap) { CHECK(heap->blocks == 0 && heap->bytes == 0); }

// ---- devices

static const pyd_sched_options_t kOptions = {.workers = 2, .spin_us = -1};

// Everything once, with a large result beside small ones. The first refusal.
static pyd_status_t whole_life(const heap_t* heap, const pyd_allocator_t* results, pyd_program_t* program,
                               pyd_sched_t* sched) {
  enum { kLarge = 400000 };
  static float in[kLarge + 1];
  const pyd_allocator_t allocator = allocator_of((heap_t*)heap);
  pyd_pool_t* pool = NULL;
  pyd_state_t* state = NULL;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* handle = NULL;
  pyd_api_memory_t* memory = NULL;
  const pyd_api_function_t* functions[2];
  const int64_t n = kLarge;
  pyd_status_t status = pyd_pool_create_with(1 << 20, &allocator, &pool);
  if (pyd_ok(status)) pyd_program_set_allocator(program, pyd_pool_allocator(pool));
  if (pyd_ok(status)) status = pyd_state_create(program, sched, pool, &state);
  if (pyd_ok(status)) status = pyd_api_device_make(sched, pool, (pyd_api_owner_t){NULL, NULL}, &device);
  if (pyd_ok(status)) status = pyd_api_program_make(device, program, state, (pyd_api_owner_t){NULL, NULL}, &handle);
  const pyd_api_memory_info_t info = {
      .struct_size = sizeof(info), .data = in, .offset = 4, .dtype = PYD_API_F32, .rank = 1, .dims = &n};
  if (pyd_ok(status)) status = pd.memory_import(device, &info, &memory);
  if (pyd_ok(status)) status = pd.program_find(handle, "next", &functions[0]);
  if (pyd_ok(status)) status = pd.program_find(handle, "tally", &functions[1]);
  for (int f = 0; f < 2 && pyd_ok(status); ++f) {
    pyd_api_call_t* call = NULL;
    void* data = NULL;
    size_t bytes = 0;
    status = pd.call_prepare(functions[f], &n, 1, NULL, 0, &call);
    if (pyd_ok(status)) status = pd.call_set_result_allocator(call, results);
    if (pyd_ok(status)) status = pd.call_bind_argument_memory(call, 0, memory);
    for (int round = 0; round < 2 && pyd_ok(status); ++round) {
      status = pd.call_run(call);
      if (pyd_ok(status)) CHECK(((const float*)pd.call_result_data(call, 0))[kLarge - 1] == 3);
    }
    if (pyd_ok(status)) status = pd.call_take_result(call, 0, &data, &bytes);
    CHECK(!data || bytes == sizeof(float) * kLarge);
    if (data) results->release(results->context, data, bytes);
    if (pyd_ok(status)) status = pd.call_run(call);
    pd.call_release(call);
  }
  pd.memory_release(memory);
  pd.program_release(handle);
  pd.device_release(device);
  pyd_state_free(state);
  pyd_pool_destroy(pool);
  check_empty(heap);
  return status;
}

static void test_every_allocation_may_fail(void) {
  static builder_t b;
  static procs_t s;
  heap_t heap = {.fails_at = -1}, results_heap = {.fails_at = -1};
  const pyd_allocator_t results = allocator_of(&results_heap);
  pyd_sched_t* sched;
  build(&b, &s);
  pyd_program_t* program = decode(&b);
  CHECK_OK(pyd_program_set_executable(program, 0, &kExecutable, 0, 64));
  CHECK_OK(pyd_sched_create(&kOptions, &sched));
  pyd_api_fill(&pd);
  CHECK_OK(whole_life(&heap, &results, program, sched));
  const long own = heap.requests, given = results_heap.requests;
  CHECK(own > 8 && given == 4);  // for each of both functions a result, and another one for the one that was taken
  for (long i = 0; i < own + given; i += PYD_HAS_TSAN ? 4 : 1) {  // ASAN sees each of them
    atomic_store(&heap.requests, 0), atomic_store(&results_heap.requests, 0);
    atomic_store(&heap.fails_at, i < own ? i : -1), atomic_store(&results_heap.fails_at, i < own ? -1 : i - own);
    pyd_status_t status = whole_life(&heap, &results, program, sched);
    // A large block is asked for twice: what is free but does not fit may be what is missing.
    CHECK(pyd_ok(status) ? i < own : pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && pyd_status_text(status)[0]);
    pyd_status_free(status);
    check_empty(&results_heap);
  }
  pyd_program_free(program);
  pyd_sched_destroy(sched);
}

static void* give_misaligned(void* context, size_t size, size_t alignment) {
  return (uint8_t*)give(context, size + alignment, alignment) + 8;
}
static void take_misaligned(void* context, void* memory, size_t size) {
  take_back(context, (uint8_t*)memory - 8, size + 64);
}

static void test_hostile_allocators(void) {
  heap_t heap = {.fails_at = -1};
  pyd_allocator_t bad = {sizeof(bad), give_misaligned, take_misaligned, &heap};
  pyd_pool_t* pool = NULL;
  world_t w;
  CHECK_REFUSED(pyd_pool_create_with(0, &bad, &pool), OUT_OF_MEMORY, "");
  check_empty(&heap);
  open_world(&w, &kOptions);
  pyd_api_call_t* call = prepare(w.next, N);
  const pyd_allocator_t small = {.struct_size = 8}, none = {.struct_size = sizeof(none), .allocate = give};
  CHECK_REFUSED(pd.call_set_result_allocator(call, &small), INVALID_ARGUMENT,
                "the allocator has a struct_size of 8; set it to");
  CHECK_REFUSED(pd.call_set_result_allocator(call, &none), INVALID_ARGUMENT,
                "the allocator has no function to release");
  CHECK_REFUSED(pd.call_set_result_allocator(NULL, NULL), INVALID_ARGUMENT, "call is NULL");
  pd.call_release(call);
  close_world(&w);
}

// ---- results

static void test_results(void) {
  heap_t heap = {.fails_at = -1};
  const pyd_allocator_t allocator = allocator_of(&heap);
  float in[N] = {1, 2, 3}, out[N];
  world_t w;
  open_world(&w, &kOptions);
  for (int f = 0; f < 2; ++f) {
    pyd_api_call_t* call = prepare_bound(f ? w.tally : w.next, in, NULL, N);
    void *data, *first;
    size_t bytes;
    CHECK_REFUSED(pd.call_take_result(call, 0, &data, &bytes), INVALID_ARGUMENT, "has no memory of an allocator");
    CHECK_REFUSED(pd.call_take_result(call, 7, &data, &bytes), INVALID_ARGUMENT, "result 7 of");
    CHECK_REFUSED(pd.call_take_result(call, 0, NULL, &bytes), INVALID_ARGUMENT, "is NULL");
    CHECK_OK(pd.call_set_result_allocator(call, &allocator));
    CHECK_OK(pd.call_run(call));
    CHECK(heap.blocks == 1 && heap.bytes == sizeof(in));
    CHECK_OK(pd.call_run(call));
    CHECK(heap.blocks == 1);
    CHECK_OK(pd.call_take_result(call, 0, &first, &bytes));
    CHECK(bytes == sizeof(in) && ((float*)first)[2] == 6);
    in[2] = 10;
    pyd_api_event_t* event = submit(call, NULL);
    CHECK(wait_for(event, true) == PYD_API_SUCCEEDED);
    pd.event_release(event);
    CHECK(heap.blocks == 2 && ((float*)first)[2] == 6 && ((const float*)pd.call_result_data(call, 0))[2] == 13);
    allocator.release(&heap, first, bytes);
    CHECK_OK(pd.call_bind_result(call, 0, out, sizeof(out)));
    CHECK(heap.blocks == 0);
    CHECK_OK(pd.call_run(call));
    CHECK(heap.blocks == 0 && out[2] == 13);
    CHECK_REFUSED(pd.call_take_result(call, 0, &data, &bytes), INVALID_ARGUMENT, "has no memory of an allocator");
    CHECK_OK(pd.call_set_result_allocator(call, NULL));
    pd.call_release(call);
    in[2] = 3;
  }
  pyd_api_call_t* call = prepare_bound(w.next, in, NULL, 0);
  void* data;
  size_t bytes;
  CHECK_OK(pd.call_set_result_allocator(call, &allocator));
  CHECK_OK(pd.call_run(call));
  CHECK_OK(pd.call_take_result(call, 0, &data, &bytes));
  CHECK(bytes == 1);
  allocator.release(&heap, data, bytes);
  pd.call_release(call);
  check_empty(&heap);
  close_world(&w);
}

// Memory that was freed or taken away is not written to.
static void test_no_allocator_any_more(void) {
  heap_t heap = {.fails_at = -1};
  const pyd_allocator_t allocator = allocator_of(&heap);
  float in[N] = {1, 2, 3};
  world_t w;
  open_world(&w, &kOptions);
  pyd_api_call_t* call = prepare_bound(w.next, in, NULL, N);
  for (int round = 0; round < 4; ++round) {
    void* taken = NULL;
    size_t bytes = 0;
    pyd_api_event_t* event;
    CHECK_OK(pd.call_set_result_allocator(call, &allocator));
    CHECK_OK(pd.call_run(call));
    CHECK(((const float*)pd.call_result_data(call, 0))[2] == 6);
    if (round % 2) CHECK_OK(pd.call_take_result(call, 0, &taken, &bytes));
    CHECK_OK(pd.call_set_result_allocator(call, NULL));
    CHECK(heap.blocks == round % 2 && !pd.call_result_data(call, 0));
    CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "@next: result 0 has no memory; bind it");
    CHECK_REFUSED(pd.call_submit(call, NULL, &event), INVALID_ARGUMENT, "@next: result 0 has no memory; bind it");
    if (taken) allocator.release(&heap, taken, bytes);
  }
  pd.call_release(call);
  check_empty(&heap);
  close_world(&w);
}

// ---- tensors of the embedder

static void count_release(void* context) { atomic_fetch_add((atomic_int*)context, 1); }

static pyd_api_memory_t* import(const world_t* w, void* data, int64_t n, int64_t stride, atomic_int* released) {
  const pyd_api_memory_info_t info = {.struct_size = sizeof(info),
                                      .data = data,
                                      .dtype = PYD_API_F32,
                                      .rank = 1,
                                      .dims = &n,
                                      .strides = &stride,
                                      .release = count_release,
                                      .context = released};
  pyd_api_memory_t* memory = NULL;
  CHECK_OK(pd.memory_import(w->device, &info, &memory));
  return memory;
}

static void test_strides(void) {
  world_t w;
  open_world(&w, &kOptions);
  for (int f = 0; f < 2; ++f) {
    const int64_t strides[] = {1, 2, -1, -3, 0};
    for (int s = 0; s < 5; ++s) {
      _Alignas(64) float in[64], out[64];
      atomic_int released = 0;
      for (int i = 0; i < 64; ++i) in[i] = (float)i, out[i] = -7;
      float *from = in + (strides[s] < 0 ? 50 : 3), *to = out + (strides[s] > 0 ? 50 : 3);
      const int64_t back = strides[s] ? -strides[s] : 2;
      pyd_api_memory_t *argument = import(&w, from, N, strides[s], &released),
                       *result = import(&w, to, N, back, &released);
      pyd_api_call_t* call = prepare(f ? w.tally : w.next, N);
      CHECK_OK(pd.call_bind_argument_memory(call, 0, argument));
      CHECK_OK(pd.call_bind_result_memory(call, 0, result));
      pd.memory_release(argument), pd.memory_release(result);
      for (int run = 0; run < 2; ++run) {
        CHECK_OK(pd.call_run(call));
        for (int64_t i = 0; i < N; ++i) CHECK(to[i * back] == from[i * strides[s]] + 3);
      }
      int written = 0;
      for (int i = 0; i < 64; ++i) written += out[i] != -7;
      CHECK(written == N && released == 0);
      pyd_api_event_t* event = submit(call, NULL);
      pd.call_release(call);  // it runs on, with the memory
      CHECK(wait_for(event, true) == PYD_API_SUCCEEDED);
      pd.event_release(event);
      while (released != 2) sched_yield();
    }
  }
  // In place, with every second element untouched.
  _Alignas(64) float both[2 * N];
  atomic_int released = 0;
  for (int i = 0; i < 2 * N; ++i) both[i] = (float)i;
  pyd_api_memory_t* memory = import(&w, both, N, 2, &released);
  pyd_api_call_t* call = prepare(w.next, N);
  CHECK_OK(pd.call_bind_argument_memory(call, 0, memory));
  CHECK_OK(pd.call_bind_result_memory(call, 0, memory));
  CHECK_OK(pd.call_run(call));
  for (int i = 0; i < 2 * N; ++i) CHECK(both[i] == (float)(i % 2 ? i : i + 3));
  CHECK_OK(pd.call_bind_argument(call, 0, both, sizeof(float) * N));
  pd.memory_release(memory);
  CHECK(released == 0);
  CHECK_OK(pd.call_bind_result(call, 0, both + N, sizeof(float) * N));
  CHECK(released == 1);
  pd.call_release(call);
  close_world(&w);
}

// The second of two results never takes the place of the first.
static void test_results_that_overlap(void) {
  world_t w;
  float in[N] = {1, 2, 3}, out[2 * N + 1];
  const char* const names[] = {"pair", "same"};
  open_world(&w, &kOptions);
  for (int f = 0; f < 2; ++f) {
    const pyd_api_function_t* function;
    const float more = f ? 0 : 1;
    atomic_int released = 0;
    CHECK_OK(pd.program_find(w.program, names[f], &function));
    pyd_api_call_t* call = prepare_bound(function, in, out, N);
    for (int i = 0; i < 2 * N + 1; ++i) out[i] = 7;
    for (int shift = 0; shift < N; shift += N - 1) {
      CHECK_OK(pd.call_bind_result(call, 1, out + shift, sizeof(in)));
      CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT,
                    "results 0 and 1 were bound to memory that overlaps; bind separate memory");
    }
    CHECK(out[0] == 7 && out[N] == 7);
    CHECK_OK(pd.call_bind_result(call, 1, out + N, sizeof(in)));
    CHECK_OK(pd.call_run(call));
    CHECK(out[1] == 2 + more && out[N + 2] == 3 + more && out[2 * N] == 7);
    pyd_api_memory_t *even = import(&w, out, N, 2, &released), *odd = import(&w, out + 1, N, 2, &released);
    CHECK_OK(pd.call_bind_result_memory(call, 0, even));
    CHECK_OK(pd.call_bind_result_memory(call, 1, even));
    CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "results 0 and 1 were bound to memory that overlaps");
    CHECK_OK(pd.call_bind_result_memory(call, 1, odd));
    CHECK_OK(pd.call_run(call));
    CHECK(out[2] == 2 + more && out[3] == 2 + more && out[5] == 3 + more && out[2 * N] == 7);
    pd.memory_release(even);
    pd.memory_release(odd);
    pd.call_release(call);
    CHECK(released == 2);
  }
  close_world(&w);
}

// A function that writes more bytes than the elements of its result have gets no memory of these elements alone.
static void test_results_of_more_bytes(void) {
  world_t w;
  float in[N] = {0}, out[2 * N] = {0};
  atomic_int released = 0;
  const pyd_api_function_t* roomy;
  open_world(&w, &kOptions);
  CHECK_OK(pd.program_find(w.program, "roomy", &roomy));
  pyd_api_call_t* call = prepare_bound(roomy, in, NULL, N);
  pyd_api_memory_t* memory = import(&w, out, N, 1, &released);
  CHECK_REFUSED(pd.call_bind_result_memory(call, 0, memory), INVALID_ARGUMENT,
                "result 0 of 'roomy' takes 96 bytes, its elements only 48; bind it with call_bind_result");
  pd.memory_release(memory);
  CHECK(released == 1 && pd.call_result_bytes(call, 0) == sizeof(out));
  CHECK_OK(pd.call_bind_result(call, 0, out, sizeof(out)));
  CHECK_OK(pd.call_run(call));
  for (int i = 0; i < 2 * N; ++i) CHECK(out[i] == 1);
  pd.call_release(call);
  close_world(&w);
}

static void* release_later(void* memory) {
  pd.memory_release(memory);
  return NULL;
}

// A call in flight is the last user.
static void test_the_last_user_ends_it(void) {
  world_t w;
  float in[N] = {0};
  atomic_int released = 0;
  pthread_t thread;
  open_world(&w, &kOptions);
  pyd_api_call_t *hold = prepare(w.hold, 1), *call = prepare(w.next, N);
  pyd_api_memory_t* memory = import(&w, in, N, 1, &released);
  const pyd_allocator_t allocator = allocator_of(&(heap_t){.fails_at = -1});
  CHECK_OK(pd.call_set_result_allocator(call, &allocator));
  CHECK_OK(pd.call_bind_argument_memory(call, 0, memory));
  pyd_api_event_t* first = submit(hold, NULL);
  const pyd_api_submit_t options = {.struct_size = sizeof(options), .after = &first, .after_count = 1};
  pyd_api_event_t* second = submit(call, &options);
  CHECK_REFUSED(pd.call_bind_argument_memory(call, 0, memory), INVALID_ARGUMENT,
                "is running in another thread or in flight");
  CHECK_REFUSED(pd.call_set_result_allocator(call, NULL), INVALID_ARGUMENT, "in flight");
  CHECK(!pthread_create(&thread, NULL, release_later, memory));
  pd.call_release(call);
  pthread_join(thread, NULL);
  CHECK(released == 0);
  CHECK(pd.event_cancel(second) == 1);
  atomic_store(&may_leave, 1);
  CHECK(wait_for(second, true) == PYD_API_CANCELLED);
  while (released != 1) sched_yield();
  pd.event_release(first), pd.event_release(second), pd.call_release(hold);
  CHECK_OK(pd.device_close(w.device));
  close_world(&w);
  CHECK(released == 1);
}

static void test_hostile(void) {
  world_t w;
  float in[4 * N] = {0};
  atomic_int released = 0;
  open_world(&w, &kOptions);
  pyd_api_memory_t* memory = (pyd_api_memory_t*)in;
  const int64_t n = N, two[] = {3, 4}, negative = -1, large[] = {INT64_MAX, 4}, wide[] = {INT64_MAX / 8, 1},
                least = INT64_MIN, zero = 0;
  const int64_t many[33] = {0}, windows[] = {1, 1};
  const pyd_api_memory_info_t good = {.struct_size = sizeof(good),
                                      .data = in,
                                      .dtype = PYD_API_F32,
                                      .rank = 1,
                                      .dims = &n,
                                      .release = count_release,
                                      .context = &released};
  CHECK_REFUSED(pd.memory_import(NULL, &good, &memory), INVALID_ARGUMENT, "device is NULL");
  CHECK(!memory);
  CHECK_REFUSED(pd.memory_import(w.device, NULL, &memory), INVALID_ARGUMENT, "info is NULL");
  CHECK_REFUSED(pd.memory_import(w.device, &good, NULL), INVALID_ARGUMENT, "out_memory is NULL");
#define REFUSED(text, ...)                                                             \
  do {                                                                                 \
    pyd_api_memory_info_t info = good;                                                 \
    __VA_ARGS__;                                                                       \
    CHECK_REFUSED(pd.memory_import(w.device, &info, &memory), INVALID_ARGUMENT, text); \
    CHECK(!memory);                                                                    \
  } while (0)
  REFUSED("has a struct_size of 16", info.struct_size = 16);
  REFUSED("rank 33; at most 32", info.rank = 33, info.dims = many);
  REFUSED("info->dims is NULL", info.dims = NULL);
  REFUSED("info->data is NULL", info.data = NULL);
  REFUSED("axis 0 has the negative size -1", info.dims = &negative);
  REFUSED("is no element type", info.dtype = 0);
  REFUSED("is no element type", info.dtype = 0x21000007);
  REFUSED("is_read_only is 0 or 1", info.is_read_only = 2);
  REFUSED("more than 2^63 bytes", info.rank = 2, info.dims = large);
  REFUSED("take more than 2^63 bytes", info.rank = 2, info.dims = two, info.strides = wide);
  REFUSED("take more than 2^63 bytes", info.strides = &least);
  REFUSED("they have to be in row-major order", info.dtype = 0x10000004, info.strides = &negative);
  CHECK(released == 0);

  pyd_api_call_t* call = prepare(w.next, N);
  memory = import(&w, in, N + 1, 1, &released);
  CHECK_REFUSED(pd.call_bind_argument_memory(call, 0, memory), INVALID_ARGUMENT,
                "argument 0, axis 0: the tensor has 12 elements, the memory has 13");
  CHECK_REFUSED(pd.call_bind_argument_memory(call, 0, NULL), INVALID_ARGUMENT, "memory is NULL");
  CHECK_REFUSED(pd.call_bind_argument_memory(NULL, 0, memory), INVALID_ARGUMENT, "call is NULL");
  CHECK_REFUSED(pd.call_bind_result_memory(call, 1, memory), INVALID_ARGUMENT, "result 1 of 'next' does not exist");
  pd.memory_release(memory), pd.memory_release(NULL);
  CHECK(released == 1);
  pyd_api_memory_info_t info = good;
  info.dtype = PYD_API_I32;
  CHECK_OK(pd.memory_import(w.device, &info, &memory));
  CHECK_REFUSED(pd.call_bind_argument_memory(call, 0, memory), INVALID_ARGUMENT,
                "elements of type 0x21000020, the memory has 0x10000020");
  pd.memory_release(memory);
  info = good, info.rank = 2, info.dims = two;
  CHECK_OK(pd.memory_import(w.device, &info, &memory));
  CHECK_REFUSED(pd.call_bind_argument_memory(call, 0, memory), INVALID_ARGUMENT, "has rank 1, the memory has 2");
  pd.memory_release(memory);
  info = good, info.is_read_only = 1;
  CHECK_OK(pd.memory_import(w.device, &info, &memory));
  CHECK_OK(pd.call_bind_argument_memory(call, 0, memory));
  CHECK_REFUSED(pd.call_bind_result_memory(call, 0, memory), INVALID_ARGUMENT, "to memory that is read-only");
  pd.memory_release(memory);
  memory = import(&w, in, N, 0, &released);
  CHECK_REFUSED(pd.call_bind_result_memory(call, 0, memory), INVALID_ARGUMENT, "two elements may be at one address");
  pd.memory_release(memory);
  pd.call_release(call);
  CHECK(released == 5);
  info = good, info.rank = 2, info.dims = two, info.strides = windows;  // rows that overlap: to be read only
  CHECK_OK(pd.memory_import(w.device, &info, &memory));
  pd.memory_release(memory);
  info = good, info.dims = &zero, info.data = NULL;
  CHECK_OK(pd.memory_import(w.device, &info, &memory));
  call = prepare(w.next, 0);
  CHECK_OK(pd.call_bind_argument_memory(call, 0, memory));
  CHECK_OK(pd.call_bind_result_memory(call, 0, memory));
  CHECK_OK(pd.call_run(call));
  pd.call_release(call);
  pd.memory_release(memory);
  CHECK(released == 7);
  // The sizes of a procedure's result are known after a run only.
  call = prepare_bound(w.tally, in, NULL, N);
  memory = import(&w, in, N + 2, 1, &released);
  CHECK_OK(pd.call_bind_result_memory(call, 0, memory));
  CHECK_REFUSED(pd.call_run(call), INVALID_ARGUMENT, "axis 0: the tensor has 12 elements, the memory has 14");
  pd.call_release(call), pd.memory_release(memory);
  close_world(&w);
}

int main(void) {
  test_every_allocation_may_fail();
  test_hostile_allocators();
  test_results();
  test_no_allocator_any_more();
  test_strides();
  test_results_that_overlap();
  test_results_of_more_bytes();
  test_the_last_user_ends_it();
  test_hostile();
  return 0;
}
