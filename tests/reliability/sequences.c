// Random sequences of calls of the C API, in a process without Python: what sequences.py builds, runs and reduces.
//
//   sequences PLAIN.pdx HOOKED.pdx FIRST COUNT STEPS [DROPPED...]: sequences FIRST to FIRST + COUNT - 1, of STEPS steps each, without the
//   steps whose numbers are DROPPED. Prints the number of each before it begins, and with DROPPED ("-" for none) every step. Exits with 1,
//   or as a sanitizer does, at the first fault.
//
// A model knows the results of each submitted call, and which outcomes it may have. At the end everything is released, in any
// order: each call must have ended once, every thread of a device stopped, and all memory of its allocator returned.
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"
#include "pydispatch/standalone.h"

enum {
  kDevices = 3, kPrograms = 4, kCalls = 8, kEvents = 12, kBlocks = 6, kLent = 3,  // slots for handles of each kind
  kFlights = 256,   // submissions of a sequence
  kAfter = 3,
  kMost = 16,       // elements of a tensor, or workgroups
  kFailsFrom = 12,  // workgroup of `ask` that fails
  kWatchdog = 60,   // seconds
};
enum { kAsk, kAdd, kWork, kTally, kAskState, kKinds };
static const char* const kFunctions[kKinds] = {"ask", "add", "work", "tally", "ask_state"};
static const float kFails = 1000, kSleeps = 2000;  // first elements that the command of `work` knows

static pyd_api_t pd;
static uint64_t seed;
static bool is_loud;
static struct {
  char* data;
  size_t size;
} artifacts[2];

#define CHECK(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "sequence %llu: line %d: %s\n", (unsigned long long)seed, __LINE__, #condition), abort()))

static void check_ok(pyd_status_t status, int line) {
  if (pyd_ok(status)) return;
  fprintf(stderr, "sequence %llu: line %d: %s\n", (unsigned long long)seed, line, pd.status_text(status));
  abort();
}
#define CHECK_OK(status) check_ok(status, __LINE__)

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  if (!is_loud) return;
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
}

static uint64_t random_state;
static uint32_t pick(uint32_t below) {
  random_state += 0x9E3779B97F4A7C15u;
  uint64_t z = random_state;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ z >> 31) >> 33) % below;
}

// ---- what the model knows

typedef struct device_s {
  pyd_api_device_t* handle;
  bool is_lent;
  uint32_t workers;
  atomic_int started, stopped, closed;
  _Atomic int64_t bytes;  // of its allocator
  pyd_allocator_t allocator;
  struct {
    pthread_t thread;
    atomic_int is_over;
    bool is_running;
    pyd_api_device_t* device;
  } lent[kLent];
} device_t;

typedef struct flight_s flight_t;
typedef struct call_s {
  pyd_api_call_t* handle;
  uint32_t device, kind, size;
  flight_t* flight;  // the last one
  float *in, *other, *out;
} call_t;

struct flight_s {
  atomic_int ended, outcome;
  atomic_int cancelled;  // asked for
  uint32_t device, kind, size, after_count;
  int closed_before;
  bool fails, is_cancelled;  // a cancel has returned 1
  flight_t* after[kAfter];
  float *in, *other, *out;
  uint32_t releases;  // in on_done: 1 its event, 2 its call, 4 a program, 8 a device
  pyd_api_call_t* call;
  pyd_api_program_t* program;
  pyd_api_device_t* device_handle;
};

static device_t devices[kDevices];
static struct {
  pyd_api_program_t* handle;
  uint32_t device, artifact;
} programs[kPrograms];
static call_t calls[kCalls];
static struct {
  pyd_api_event_t* handle;
  flight_t* flight;
} events[kEvents];
static struct {
  pyd_api_device_t* device;
  void* data;
} blocks[kBlocks];
static flight_t flights[kFlights];
static uint32_t flight_count;
static void* garbage[4096];  // memory of calls, until the sequence has ended
static uint32_t garbage_count;

static void* keep(size_t bytes) {
  CHECK(garbage_count < sizeof(garbage) / sizeof(*garbage));
  return garbage[garbage_count++] = calloc(1, bytes);
}

// ---- callbacks

static void on_start(void* context, uint32_t worker) {
  (void)worker;
  atomic_fetch_add(&((device_t*)context)->started, 1);
}
static void on_stop(void* context, uint32_t worker) {
  (void)worker;
  atomic_fetch_add(&((device_t*)context)->stopped, 1);
}
static void* take(void* context, size_t size, size_t alignment) {
  atomic_fetch_add(&((device_t*)context)->bytes, (int64_t)size);
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void give_back(void* context, void* memory, size_t size) {
  atomic_fetch_sub(&((device_t*)context)->bytes, (int64_t)size);
  free(memory);
}
static int hook(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const uint32_t x = *(uint32_t*)params;
  if (x == kFailsFrom - 1) usleep(20);
  return x == kFailsFrom ? 5 : 0;
}
static int command(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const pyd_host_command_t* c = params;
  const pyd_host_operand_t* x = pyd_host_operand(c, 0);
  float* data = x->data;
  if (data[0] == 2 * kFails) return pyd_host_fail(c, "as the model wants");
  if (data[0] == 2 * kSleeps) usleep(100);
  for (uint64_t i = 0; i < x->bytes / sizeof(float); ++i) data[i] += 1;
  return 0;
}

static void check_results(const flight_t* f) {
  for (uint32_t i = 0; i < f->size; ++i) {
    if (f->kind == kAsk || f->kind == kAskState) CHECK(f->out[i] == 1);
    if (f->kind == kAdd) CHECK(f->out[i] == f->in[i] + f->other[i]);
    if (f->kind == kWork) CHECK(f->out[i] == 2 * (2 * f->in[i] + 1));
    if (f->kind == kTally) CHECK(f->out[i] >= 1);
  }
}

static void on_done(void* context, pyd_api_event_t* event) {
  flight_t* f = context;
  const uint32_t outcome = pd.event_outcome(event);
  CHECK(outcome != PYD_API_PENDING);
  CHECK((outcome == PYD_API_SUCCEEDED) == pyd_ok(pd.event_status(event)));
  CHECK(!pd.event_cancel(event));
  if (outcome == PYD_API_SUCCEEDED && f->call) check_results(f);
  atomic_store(&f->outcome, (int)outcome);
  if (f->releases & 1) pd.event_release(event);
  if (f->releases & 2) pd.call_release(f->call);
  if (f->releases & 4) pd.program_release(f->program);
  if (f->releases & 8) pd.device_release(f->device_handle);
  CHECK(atomic_fetch_add(&f->ended, 1) == 0);
}

// ---- steps

static device_t* device_of(uint32_t at) { return devices[at].handle ? &devices[at] : NULL; }

static void open_device(void) {
  const uint32_t at = pick(kDevices), workers = 1 + pick(3), way = pick(8);
  device_t* d = &devices[at];
  if (d->handle || d->allocator.context) return;  // one of a slot for each sequence
  d->allocator = (pyd_allocator_t){sizeof(pyd_allocator_t), take, give_back, d};
  d->is_lent = way == 0, d->workers = workers;
  say("device %u: %u workers%s\n", at, workers, d->is_lent ? ", lent" : "");
  const pyd_api_device_options_t options = {.struct_size = sizeof(options), .workers = workers, .lends_threads = d->is_lent,
                                            .on_thread_start = on_start, .on_thread_stop = on_stop, .context = d,
                                            .allocator = way % 2 ? &d->allocator : NULL};
  CHECK_OK(pd.device_create(&options, &d->handle));
  CHECK(pd.device_workers(d->handle) == workers);
  CHECK_OK(pd.device_add_import(d->handle, "hook", hook, NULL, 0, NULL, NULL, NULL));
  CHECK_OK(pd.device_add_command(d->handle, "command", command, NULL, 0, NULL, NULL, NULL));
}

static int32_t is_over(void* flag) { return atomic_load((atomic_int*)flag); }

static void* lend_thread(void* argument) {
  __typeof__(devices[0].lent[0])* lent = argument;
  const pyd_api_interrupt_t until = {sizeof(until), is_over, &lent->is_over};
  pyd_status_t status = pd.device_lend_thread(lent->device, &until);
  CHECK(pyd_ok(status) || pd.status_code(status) == PYD_CODE_INVALID_ARGUMENT);  // as many as workers, or it is being closed
  pd.status_free(status);
  return NULL;
}
static void lend(void) {
  const uint32_t at = pick(kDevices), which = pick(kLent);
  device_t* d = device_of(at);
  if (!d || !d->is_lent || d->lent[which].is_running) return;
  say("lend thread %u to device %u\n", which, at);
  d->lent[which].device = d->handle;
  d->lent[which].is_running = true;
  atomic_store(&d->lent[which].is_over, 0);
  CHECK(!pthread_create(&d->lent[which].thread, NULL, lend_thread, &d->lent[which]));
}
static void take_back(device_t* d, uint32_t which) {
  if (!d->lent[which].is_running) return;
  atomic_store(&d->lent[which].is_over, 1);
  CHECK(!pthread_join(d->lent[which].thread, NULL));
  d->lent[which].is_running = false;
}

static void load(void) {
  const uint32_t at = pick(kPrograms), device = pick(kDevices), artifact = pick(2);
  if (programs[at].handle || !device_of(device)) return;
  say("program %u: artifact %u on device %u\n", at, artifact, device);
  programs[at].device = device, programs[at].artifact = artifact;
  CHECK_OK(pd.program_load_bytes(devices[device].handle, artifacts[artifact].data, artifacts[artifact].size, &programs[at].handle));
}

static void prepare(void) {
  const uint32_t at = pick(kCalls), from = pick(kPrograms), choice = pick(3), size = 1 + pick(kMost), what = pick(6);
  call_t* c = &calls[at];
  if (c->handle || !programs[from].handle) return;
  const uint32_t kind = programs[from].artifact ? (choice ? kAsk : kAskState) : kAdd + choice;
  const bool is_scalar = kind == kAsk || kind == kAskState;
  const pyd_api_function_t* function;
  CHECK_OK(pd.program_find(programs[from].handle, kFunctions[kind], &function));
  *c = (call_t){.device = programs[from].device, .kind = kind, .size = kind == kTally ? 4 : size};
  say("call %u: %s of program %u, %u\n", at, kFunctions[kind], from, c->size);
  const int64_t dims[] = {c->size, c->size};
  const uint64_t word = c->size;
  CHECK_OK(pd.call_prepare(function, dims, function->dims_count, &word, is_scalar, &c->handle));
  const size_t bytes = c->size * sizeof(float);
  c->in = keep(bytes), c->other = keep(bytes), c->out = keep(bytes);
  for (uint32_t i = 0; i < c->size; ++i) c->in[i] = (float)(1 + i), c->other[i] = 3;
  if (kind == kWork) c->in[0] = what == 0 ? kFails : what == 1 ? kSleeps : 1;
  if (!is_scalar) CHECK_OK(pd.call_bind_argument(c->handle, 0, c->in, bytes));
  if (kind == kAdd) CHECK_OK(pd.call_bind_argument(c->handle, 1, c->other, bytes));
  CHECK_OK(pd.call_bind_result(c->handle, 0, c->out, bytes));
}

static bool fails(const call_t* c) {
  return ((c->kind == kAsk || c->kind == kAskState) && c->size > kFailsFrom) || (c->kind == kWork && c->in[0] == kFails);
}
static bool is_busy(const call_t* c) { return c->flight && !atomic_load(&c->flight->ended); }

static int32_t is_unlucky(void* left) { return (*(int*)left)-- == 0; }

static void run(void) {
  const uint32_t at = pick(kCalls);
  int left = (int)pick(6);
  call_t* c = &calls[at];
  if (!c->handle || is_busy(c)) return;
  // A procedure with state waits for those in flight; without a thread nobody runs them.
  if (devices[c->device].is_lent && (c->kind == kTally || c->kind == kAskState)) return;
  say("run call %u\n", at);
  const pyd_api_interrupt_t interrupt = {sizeof(interrupt), is_unlucky, &left};
  pyd_status_t status = left % 2 ? pd.call_run(c->handle) : pd.call_run_until(c->handle, &interrupt);
  const uint32_t code = pd.status_code(status);
  CHECK(pyd_ok(status) ? !fails(c) : (code == PYD_CODE_INTERRUPTED && left < 0) || fails(c));
  if (pyd_ok(status)) {
    const flight_t f = {.kind = c->kind, .size = c->size, .in = c->in, .other = c->other, .out = c->out};
    check_results(&f);
  }
  pd.status_free(status);
}

static int32_t loop_body(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const flight_t* f = context;
  CHECK(worker < devices[f->device].workers);
  if (!f->fails || end <= 7 || begin > 7) return 0;
  *out_failed = 7;
  return 9;
}

static uint32_t free_event(void) {
  uint32_t at = pick(kEvents);
  for (uint32_t i = 0; i < kEvents && events[at].handle; ++i) at = (at + 1) % kEvents;
  return at;
}

// What on_done releases is not released by this thread any more.
static void hand_over(flight_t* f, call_t* c, uint32_t device) {
  const uint32_t program = pick(kPrograms);
  f->releases = pick(2);
  if (c && pick(4) == 0) f->releases |= 2, c->handle = NULL;
  if (pick(8) == 0 && programs[program].handle) {
    f->releases |= 4, f->program = programs[program].handle, programs[program].handle = NULL;
  }
  if (pick(8) == 0 && !devices[device].is_lent) {
    f->releases |= 8, f->device_handle = devices[device].handle, devices[device].handle = NULL;
  }
}

static void submit(void) {
  const uint32_t at = pick(kCalls + 2), device = at < kCalls ? calls[at].device : pick(kDevices), count = pick(kAfter + 1);
  call_t* c = at < kCalls ? &calls[at] : NULL;
  if (!device_of(device) || flight_count == kFlights || (c && (!c->handle || is_busy(c)))) return;
  flight_t* f = &flights[flight_count];
  const uint32_t event = free_event();
  pyd_api_event_t* after[kAfter];
  bool is_foreign = false;
  *f = (flight_t){.device = device, .closed_before = atomic_load(&devices[device].closed)};
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t first = pick(kEvents);
    if (!events[first].handle) continue;
    f->after[f->after_count] = events[first].flight;
    after[f->after_count++] = events[first].handle;
    is_foreign |= events[first].flight->device != device;
  }
  pyd_api_submit_t options = {.struct_size = sizeof(options), .priority = pick(3), .after_count = f->after_count, .after = after,
                              .on_done = on_done, .context = f, .workers = pick(4)};
  const uint64_t count_of_loop = pick(3000);
  if (c) {
    f->kind = c->kind, f->size = c->size, f->in = c->in, f->other = c->other, f->out = c->out, f->call = c->handle;
    f->fails = fails(c);
  } else {
    f->fails = pick(4) == 0 && count_of_loop > 7;
  }
  pyd_api_call_t* handle = c ? c->handle : NULL;
  pyd_api_device_t* device_handle = devices[device].handle;
  const bool wants_event = !events[event].handle && pick(4);
  if (!is_foreign) hand_over(f, c, device);
  if (!wants_event) f->releases &= ~1u;
  say("submit %s %u as flight %u, %u after, event %d, releases %u, %s\n", c ? "call" : "loop", at, flight_count, f->after_count,
      wants_event ? (int)event : -1, f->releases, f->fails ? "fails" : "");
  pyd_api_event_t* made = NULL;
  if (c && !is_foreign) c->flight = f;
  if (!is_foreign) ++flight_count;
  pyd_status_t status = c ? pd.call_submit(handle, &options, wants_event ? &made : NULL)
                          : pd.parallel_range_submit(device_handle, count_of_loop, loop_body, f, NULL, &options, wants_event ? &made : NULL);
  if (is_foreign) {
    CHECK(pd.status_code(status) == PYD_CODE_INVALID_ARGUMENT);
    pd.status_free(status);
    return;
  }
  CHECK_OK(status);
  if (wants_event && !(f->releases & 1)) events[event].handle = made, events[event].flight = f;
}

static void wait_for_event(void) {
  static const uint64_t kTimes[] = {0, 1000, 100000, PYD_API_FOREVER, 2000000};
  const uint32_t at = pick(kEvents);
  uint64_t time = kTimes[pick(5)];
  uint32_t outcome;
  if (!events[at].handle) return;
  const flight_t* f = events[at].flight;
  if (devices[f->device].is_lent && time == PYD_API_FOREVER) time = 1000;
  say("wait for event %u, %llu ns\n", at, (unsigned long long)time);
  CHECK_OK(pd.event_wait(events[at].handle, time, NULL, &outcome));
  CHECK(outcome != PYD_API_PENDING || time != PYD_API_FOREVER);
}

static void cancel(void) {
  const uint32_t at = pick(kEvents);
  if (!events[at].handle) return;
  flight_t* f = events[at].flight;
  atomic_store(&f->cancelled, 1);
  const bool was_pending = pd.event_cancel(events[at].handle);
  say("cancel event %u: %d\n", at, was_pending);
  f->is_cancelled |= was_pending;
}

static void release_event(uint32_t at) {
  pd.event_release(events[at].handle);
  events[at].handle = NULL;
}
static void release_call(uint32_t at) {
  pd.call_release(calls[at].handle);
  calls[at].handle = NULL;
}
static void release_program(uint32_t at) {
  pd.program_release(programs[at].handle);
  programs[at].handle = NULL;
}
// The last handle of a device that is lent stays: somebody has to run what is in flight.
static void release_device(uint32_t at) {
  if (devices[at].is_lent) return;
  pd.device_release(devices[at].handle);
  devices[at].handle = NULL;
}
static void release(void) {
  const uint32_t kind = pick(8), at = pick(kEvents);
  say("release %u of kind %u\n", at, kind);
  if (kind < 3) release_event(at);
  if (kind >= 3 && kind < 6) release_call(at % kCalls);
  if (kind == 6) release_program(at % kPrograms);
  if (kind == 7) release_device(at % kDevices);
}

static void close_device(void) {
  const uint32_t at = pick(kDevices);
  device_t* d = device_of(at);
  if (!d) return;
  say("close device %u\n", at);
  atomic_fetch_add(&d->closed, 1);
  CHECK_OK(pd.device_close(d->handle));
}

static void use_block(void) {
  const uint32_t at = pick(kBlocks), device = pick(kDevices), size = pick(2) ? pick(5000) : 1 << 21;
  if (blocks[at].device) {
    pd.pool_release(blocks[at].device, blocks[at].data);
    blocks[at].device = NULL;
    return;
  }
  if (!device_of(device) || devices[device].is_lent) return;
  CHECK_OK(pd.pool_acquire(devices[device].handle, size, &blocks[at].data));
  blocks[at].device = devices[device].handle;
  if (size) memset(blocks[at].data, 1, size);
}

static int32_t grid_body(void* context, uint32_t x, uint32_t y, uint32_t z) {
  return context && x == 3 && y == 1 && z == 0 ? 4 : 0;
}
static void loop(void) {
  const uint32_t at = pick(kDevices);
  device_t* d = device_of(at);
  if (!d) return;
  const bool does_fail = pick(2);
  pyd_status_t status = pd.parallel_for(d->handle, 4 + pick(300), 2, 2, grid_body, does_fail ? d : NULL, NULL);
  CHECK(pd.status_code(status) == (does_fail ? PYD_CODE_KERNEL : 0));
  pd.status_free(status);
}

// The child runs a call: its devices have no thread until then. Only where fork() copies no lock of a sanitizer.
static void fork_child(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const uint32_t at = pick(kCalls), luck = pick(4);
  call_t* c = &calls[at];
  if (luck || !c->handle || is_busy(c) || c->kind == kTally || c->kind == kAskState) return;
  say("fork, and run call %u\n", at);
  for (uint32_t i = 0; i < kDevices; ++i) {
    if (devices[i].handle) pyd_sched_fork_prepare(devices[i].handle->sched), pyd_pool_fork_prepare(devices[i].handle->pool);
  }
  const pid_t child = fork();
  for (uint32_t i = 0; i < kDevices; ++i) {
    if (!devices[i].handle) continue;
    pyd_pool_fork_done(devices[i].handle->pool);
    (child ? pyd_sched_fork_parent : pyd_sched_fork_child)(devices[i].handle->sched);
  }
  if (!child) {
    alarm(20);
    if (devices[c->device].handle) {
      pyd_status_t status = pd.call_run(c->handle);
      CHECK(pyd_ok(status) != fails(c));
      for (uint32_t i = 0; i < kEvents; ++i) {
        if (!events[i].handle || !devices[events[i].flight->device].handle) continue;  // without: its scheduler was not told of the fork
        CHECK(pd.event_outcome(events[i].handle) != PYD_API_PENDING);
      }
    }
    _exit(0);
  }
  int ended;
  CHECK(waitpid(child, &ended, 0) == child && ended == 0);
#endif
}

// ---- sequences

static void check_flight(const flight_t* f) {
  const int outcome = atomic_load(&f->outcome);
  bool has_all = true;
  for (uint32_t i = 0; i < f->after_count; ++i) has_all &= atomic_load(&f->after[i]->outcome) == PYD_API_SUCCEEDED;
  const bool may_be_cancelled = atomic_load(&f->cancelled) || atomic_load(&devices[f->device].closed) != f->closed_before;
  CHECK(outcome != PYD_API_SUCCEEDED || (has_all && !f->fails && !f->is_cancelled));
  CHECK(outcome != PYD_API_FAILED || (has_all && f->fails));
  CHECK(outcome != PYD_API_SKIPPED || !has_all);
  CHECK(outcome != PYD_API_CANCELLED || may_be_cancelled);
}

static void await(atomic_int* value, int least) {
  while (atomic_load(value) < least) usleep(20);  // the watchdog ends it
}

static void finish(void) {
  for (uint32_t i = 0; i < kDevices; ++i) {
    if (!devices[i].handle || (!devices[i].is_lent && pick(3))) continue;
    say("close device %u in the end\n", i);
    for (uint32_t k = 0; k < kLent; ++k) take_back(&devices[i], k);
    atomic_fetch_add(&devices[i].closed, 1);
    CHECK_OK(pd.device_close(devices[i].handle));
    devices[i].is_lent = false;
  }
  for (uint32_t left = 200; left-- > 0;) {
    const uint32_t at = pick(kEvents), kind = pick(4);
    if (kind == 0) release_event(at);
    if (kind == 1) release_call(at % kCalls);
    if (kind == 2) release_program(at % kPrograms);
    if (kind == 3) release_device(at % kDevices);
  }
  for (uint32_t i = 0; i < kEvents; ++i) release_event(i);
  for (uint32_t i = 0; i < kCalls; ++i) release_call(i);
  for (uint32_t i = 0; i < kPrograms; ++i) release_program(i);
  for (uint32_t i = 0; i < kDevices; ++i) release_device(i);
  for (uint32_t i = 0; i < kBlocks; ++i) {
    if (blocks[i].device) pd.pool_release(blocks[i].device, blocks[i].data);
  }
  for (uint32_t i = 0; i < flight_count; ++i) await(&flights[i].ended, 1);
  for (uint32_t i = 0; i < flight_count; ++i) check_flight(&flights[i]);
  for (uint32_t i = 0; i < kDevices; ++i) {
    await(&devices[i].stopped, atomic_load(&devices[i].started));
    while (atomic_load(&devices[i].bytes)) usleep(20);
  }
  for (uint32_t i = 0; i < garbage_count; ++i) free(garbage[i]);
}

static void (*const kSteps[])(void) = {open_device, open_device, load, load, load, prepare, prepare, prepare, prepare, submit, submit, submit, submit,
                                       submit, submit, wait_for_event, wait_for_event, cancel, release, release, release, run, run, lend,
                                       close_device, use_block, use_block, loop, fork_child};

static void run_sequence(uint64_t number, uint32_t steps, int dropped_count, char** dropped) {
  seed = number;
  memset(devices, 0, sizeof(devices)), memset(programs, 0, sizeof(programs)), memset(calls, 0, sizeof(calls));
  memset(events, 0, sizeof(events)), memset(blocks, 0, sizeof(blocks)), memset(flights, 0, sizeof(flights));
  flight_count = garbage_count = 0;
  alarm(kWatchdog);
  for (uint32_t i = 0; i < steps; ++i) {
    bool is_dropped = false;
    for (int k = 0; k < dropped_count; ++k) is_dropped |= atoi(dropped[k]) == (int)i && dropped[k][0] != '-';
    if (is_dropped) continue;
    random_state = number * 1000003 + i;  // each step by itself, so that others may be dropped
    if (is_loud) fprintf(stderr, "%u: ", i);
    kSteps[i < 2 ? 0 : i < 5 ? 2 : i < 8 ? 5 : pick(sizeof(kSteps) / sizeof(*kSteps))]();
    say("%s", "\n");
  }
  random_state = number * 1000003 + steps;
  finish();
}

static void read_file(const char* path, char** out_data, size_t* out_size) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) exit(2);
  *out_size = (size_t)ftell(file);
  rewind(file);
  *out_data = malloc(*out_size);
  if (!*out_data || fread(*out_data, 1, *out_size, file) != *out_size) exit(2);
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  for (int i = 0; i < 2; ++i) read_file(argv[1 + i], &artifacts[i].data, &artifacts[i].size);
  is_loud = argc > 6;
  pyd_standalone_fill(&pd);
  const uint64_t first = strtoull(argv[3], NULL, 10), count = strtoull(argv[4], NULL, 10);
  for (uint64_t i = first; i < first + count; ++i) {
    printf("%llu\n", (unsigned long long)i);
    fflush(stdout);
    run_sequence(i, (uint32_t)atoi(argv[5]), argc - 6, argv + 6);
  }
  for (int i = 0; i < 2; ++i) free(artifacts[i].data);
  usleep(50000);  // threads that end by themselves
  puts("done");
  return 0;
}
