// How to run: loops, early ends, devices with threads of their own, calls in flight (api.h).
#ifndef PYDISPATCH_API_RUNS_H_
#define PYDISPATCH_API_RUNS_H_

#include <stddef.h>
#include <stdint.h>

#include "pydispatch/allocator.h"
#include "pydispatch/api/values.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- loops

// One index of a grid. Returns 0, or a code that ends the loop.
typedef int32_t (*pyd_api_body_fn_t)(void* context, uint32_t x, uint32_t y, uint32_t z);

// Indices [begin, end), in order. |worker| < device_workers(): no two that run at the same time within a loop have the
// same, so it may index scratch memory. Returns 0, or a code after writing the failed index to |out_failed|.
typedef int32_t (*pyd_api_range_fn_t)(void* context, uint32_t worker, uint64_t begin, uint64_t end,
                                      uint64_t* out_failed);

// Cost estimate of a repeated loop. The caller stores one per loop, initially zero. Threads may share it. Without one,
// each run starts with a measurement.
typedef struct pyd_api_cost_s {
  uint32_t words[4];
} pyd_api_cost_t;

// ---- ending a call early

// Condition that ends a call early. |is_wanted| is polled on the thread that runs the call, while no lock is held:
// between two workgroups, after 1024 of them or a millisecond at the latest; at every iteration of a loop of host code;
// and every 50 milliseconds while the call waits for another call of its program. If it returns nonzero, the call ends
// with INTERRUPTED.
typedef struct pyd_api_interrupt_s {
  size_t size;  // sizeof(pyd_api_interrupt_t): the structure grows at its end
  int32_t (*is_wanted)(void* context);
  void* context;
} pyd_api_interrupt_t;

// ---- threads

// Options of device_create. Zero is the default of every field except |struct_size|.
typedef struct pyd_api_device_options_s {
  size_t struct_size;  // sizeof(pyd_api_device_options_t): the structure grows at its end
  uint32_t
      workers;  // threads that run one dispatch or loop, including the calling one, up to 1024; 0: one for each core
  uint32_t lends_threads;  // 1: the device starts no thread; device_lend_thread donates its threads
  // Called on each thread of the device, never on callers, before and after the thread works for the device. Use them
  // to name a thread, bind it to CPUs, or allocate its thread-local data. They may be NULL, and are called on any
  // thread, also after device_create has returned, until the device has no thread any more. |worker| is below
  // device_workers() for threads that run workgroups and not below it for threads that run submitted calls with host
  // commands. They are called again for a thread that is restarted or donated again.
  void (*on_thread_start)(void* context, uint32_t worker);
  void (*on_thread_stop)(void* context, uint32_t worker);
  void* context;
  // Allocates handles, plans, calls, blocks of pool_acquire and all memory of runs; used until the last handle of the
  // device and of its programs is released. NULL: the system's allocator. Threads and the tables of loaded programs are
  // allocated by the system.
  const pyd_allocator_t* allocator;
} pyd_api_device_options_t;

// ---- calls in flight

typedef enum pyd_api_priority_e {
  PYD_API_PRIORITY_NORMAL = 0,
  PYD_API_PRIORITY_HIGH = 1,
  PYD_API_PRIORITY_LOW = 2,
} pyd_api_priority_t;

// State of a submitted call, which ends with exactly one of the last four.
typedef enum pyd_api_outcome_e {
  PYD_API_PENDING = 0,  // it has not ended
  PYD_API_SUCCEEDED = 1,
  PYD_API_FAILED = 2,
  PYD_API_CANCELLED =
      3,                // by event_cancel, an interrupt, the end of the device's threads; perhaps after parts have run
  PYD_API_SKIPPED = 4,  // has not run, because a call that must succeed first has not
} pyd_api_outcome_t;

// Options of a submission. Zero is the default of every field except |struct_size|.
typedef struct pyd_api_submit_s {
  size_t struct_size;  // sizeof(pyd_api_submit_t): the structure grows at its end
  uint32_t priority;   // pyd_api_priority_t: which of the waiting calls begins first
  uint32_t after_count;
  pyd_api_event_t* const* after;  // calls of the same device that must succeed first; may be released afterwards
  // Called once when the call has ended, on the thread that ended it and with no lock held; waiting threads may
  // continue earlier. |event| is valid until it returns, also when it was released or not requested. It may submit, and
  // must not wait for calls.
  void (*on_done)(void* context, pyd_api_event_t* event);
  void* context;
  uint32_t workers;  // threads that work for it at once, at most; 0: all of the device. Results do not depend on it
} pyd_api_submit_t;

#define PYD_API_FOREVER UINT64_MAX

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_RUNS_H_
