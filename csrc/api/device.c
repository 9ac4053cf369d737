// Devices: a scheduler and a memory pool that another object (|owner|) keeps alive, and the loops that run on them.
#include "api/call.h"
#include "base/sized.h"

// Creates a device, whose handles are in memory of the pool's allocator. |owner| keeps |sched| and |pool| alive and is
// dropped with the device.
pyd_status_t pyd_api_device_make(pyd_sched_t* sched, pyd_pool_t* pool, pyd_api_owner_t owner,
                                 pyd_api_device_t** out_device) {
  *out_device = NULL;
  const pyd_allocator_t* allocator = pyd_pool_allocator(pool);
  pyd_api_device_t* device = pyd_allocate(allocator, sizeof(*device));
  if (!device) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a device's %zu bytes", sizeof(*device));
  atomic_init(&device->references, 1);
  device->sched = sched;
  device->pool = pool;
  device->allocator = *allocator;
  device->owner = owner;
  *out_device = device;
  return PYD_STATUS_OK;
}

// Drops a reference to a device. The last one frees the handle, then drops the owner, which keeps scheduler and pool
// alive.
void pyd_api_device_release(pyd_api_device_t* device) {
  if (!device || !pyd_api_drop(&device->references)) return;
  pyd_api_owner_t owner = device->owner;
  const pyd_allocator_t allocator = device->allocator;
  pyd_deallocate(&allocator, device, sizeof(*device));
  if (owner.drop) owner.drop(owner.self);
}

void* pyd_api_device_owner(const pyd_api_device_t* device) { return device->owner.self; }

// Ends the threads of the device and waits for them.
pyd_status_t pyd_api_device_close(pyd_api_device_t* device) {
  if (!device) return pyd_api_null("device_close", "device");
  pyd_api_retain(&device->references);  // callbacks of tasks that end here may release the caller's handle
  pyd_status_t status = pyd_sched_stop(device->sched);
  pyd_api_device_release(device);
  return status;
}

// Donates the calling thread to the device, until |until| requests an end.
pyd_status_t pyd_api_device_lend_thread(pyd_api_device_t* device, const pyd_api_interrupt_t* until) {
  if (!device) return pyd_api_null("device_lend_thread", "device");
  pyd_interrupt_t asked;
  pyd_status_t status = until ? pyd_api_interrupt_of("device_lend_thread", until, &asked) : PYD_STATUS_OK;
  if (!pyd_ok(status)) return status;
  status = pyd_sched_lend(device->sched, until ? &asked : NULL);
  return pyd_status_annotate(status, "device_lend_thread: %s", pyd_status_text(status));
}

// Reads the options of a device that owns its threads and its pool. |options| may be NULL: then all defaults.
// |*out_allocator|: supplies the memory of the pool; all zero for the memory of the system.
pyd_status_t pyd_api_read_device_options(const pyd_api_device_options_t* options, pyd_sched_options_t* out_options,
                                         pyd_allocator_t* out_allocator) {
  *out_options = (pyd_sched_options_t){.spin_us = -1};  // -1: adaptive
  *out_allocator = (pyd_allocator_t){0};
  if (!options) return PYD_STATUS_OK;
  // The first version of the structure ended before |allocator|.
  if (options->struct_size < PYD_SIZE_UP_TO(pyd_api_device_options_t, context)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "device_create: the options have a struct_size of %zu; set it to "
                           "sizeof(pyd_api_device_options_t), which is %zu",
                           options->struct_size, sizeof(*options));
  }
  if (options->lends_threads > 1) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "device_create: lends_threads is 0 or 1, got %u",
                           options->lends_threads);
  }
  out_options->workers = options->workers;
  out_options->threads = (pyd_sched_threads_t){options->lends_threads, options->on_thread_start,
                                               options->on_thread_stop, options->context};
  return options->struct_size >= PYD_SIZE_UP_TO(pyd_api_device_options_t, allocator)
             ? pyd_allocator_read("device_create", options->allocator, out_allocator)
             : PYD_STATUS_OK;
}

uint32_t pyd_api_device_workers(const pyd_api_device_t* device) {
  return device ? pyd_sched_workers(device->sched) : 0;
}

// Acquires a block of the device's memory pool.
pyd_status_t pyd_api_pool_acquire(pyd_api_device_t* device, size_t bytes, void** out_block) {
  if (!out_block) return pyd_api_null("pool_acquire", "out_block");
  *out_block = NULL;
  if (!device) return pyd_api_null("pool_acquire", "device");
  pyd_status_t status = pyd_pool_acquire(device->pool, bytes, out_block);
  if (pyd_ok(status)) pyd_api_retain(&device->references);  // the block's, until pyd_api_pool_release
  return status;
}

void pyd_api_pool_release(pyd_api_device_t* device, void* block) {
  if (!device || !block) return;
  pyd_pool_release(device->pool, block);
  pyd_api_device_release(device);
}

// ---- loops

// Runs the job on the device, with a reference to it: a body may release the caller's handle.
static void run_held(pyd_api_device_t* device, const pyd_sched_job_t* job, pyd_sched_failure_t* out_failure) {
  pyd_api_retain(&device->references);
  pyd_sched_run(device->sched, job, out_failure);
  pyd_api_device_release(device);
}

// The loop of pyd_api_parallel_for(), as the |self| of its body.
typedef struct grid_s {
  pyd_api_body_fn_t body;
  void* context;
  uint32_t x, y;  // numbers of points along the two faster axes; the index needs no third one
} grid_t;

// A point of the grid of a loop.
typedef struct point_s {
  uint32_t x, y, z;
} point_t;

// Returns the point of a grid with the row-major index |index|.
static point_t point_at(const grid_t* grid, uint64_t index) {
  uint64_t row = index / grid->x;
  return (point_t){(uint32_t)(index % grid->x), (uint32_t)(row % grid->y), (uint32_t)(row / grid->y)};
}

// Calls the body for the points with row-major index in [begin, end). Stops at the first nonzero code and returns it,
// with the index of its point in |*out_failed|.
static int32_t run_grid(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const grid_t* grid = self;
  (void)worker;
  point_t p = point_at(grid, begin);
  for (uint64_t i = begin; i < end; ++i) {
    int32_t code = grid->body(grid->context, p.x, p.y, p.z);
    if (code) {
      *out_failed = i;
      return code;
    }
    if (++p.x < grid->x) continue;
    p.x = 0;
    if (++p.y < grid->y) continue;
    p.y = 0;
    ++p.z;
  }
  return 0;
}

// Runs |body| for each point of a grid of |x| times |y| times |z| points on the threads of the device, and waits for
// the end. |cost|: cost estimate of a point, which this run updates; may be NULL. KERNEL if |body| returned a code
// other than 0.
pyd_status_t pyd_api_parallel_for(pyd_api_device_t* device, uint32_t x, uint32_t y, uint32_t z, pyd_api_body_fn_t body,
                                  void* context, pyd_api_cost_t* cost) {
  if (!device) return pyd_api_null("parallel_for", "device");
  if (!body) return pyd_api_null("parallel_for", "body");
  uint64_t plane = (uint64_t)x * y;
  if (plane && z > UINT64_MAX / plane) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "parallel_for: a grid of %u x %u x %u has more than 2^64 points",
                           x, y, z);
  }
  grid_t grid = {body, context, x, y};
  const pyd_sched_job_t job = {run_grid, &grid, plane * z, (pyd_sched_cost_t*)cost, .interrupt = NULL};
  pyd_sched_failure_t failure;
  run_held(device, &job, &failure);
  if (!failure.code) return PYD_STATUS_OK;
  point_t p = point_at(&grid, failure.index);
  const int64_t values[5] = {/* command */ 0, p.x, p.y, p.z, failure.code};
  return pyd_status_make_values(PYD_CODE_KERNEL, values, "parallel_for: the body returned %d at (%u, %u, %u)",
                                failure.code, p.x, p.y, p.z);
}

// Runs |body| for ranges of the indices from 0 to |count| - 1 on the threads of the device, and waits for the end.
// |cost|: cost estimate of an index, which this run updates; may be NULL.
pyd_status_t pyd_api_parallel_range(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body, void* context,
                                    pyd_api_cost_t* cost) {
  if (!device) return pyd_api_null("parallel_range", "device");
  if (!body) return pyd_api_null("parallel_range", "body");
  const pyd_sched_job_t job = {body, context, count, (pyd_sched_cost_t*)cost, .interrupt = NULL};
  pyd_sched_failure_t failure;
  run_held(device, &job, &failure);
  return pyd_api_range_outcome("parallel_range", &failure);
}

// Returns the status of a loop that ended with |failure|.
pyd_status_t pyd_api_range_outcome(const char* function, const pyd_sched_failure_t* failure) {
  if (!failure->code) return PYD_STATUS_OK;
  if (failure->is_interrupted) return pyd_status_make(PYD_CODE_INTERRUPTED, "%s: the loop was interrupted", function);
  // {command, x, y, z, code}: an index of a range is an x.
  const int64_t values[5] = {0, (int64_t)failure->index, 0, 0, failure->code};
  return pyd_status_make_values(PYD_CODE_KERNEL, values, "%s: the body returned %d at %llu", function, failure->code,
                                (unsigned long long)failure->index);
}
