// The handles of api.h.
//
// Order of the files. Each calls those above it alone:
//   handle.c      counts of references, and arguments that are no handle
//   device.c      devices and loops on them; owns pyd_api_device_t
//   memory.c      memory of the embedder; owns pyd_api_memory_t
//   program.c     programs and their functions; owns pyd_api_program_t
//   bind.c        memory of a call's tensors; owns pyd_api_buffer_t
//   procedure.c   calls of procedures
//   call.c        calls; owns pyd_api_call_t
//   event.c       calls and loops in flight
//   inspect.c     what programs and calls are made of
//   table.c       the table of all functions
#ifndef PYD_API_INTERNAL_H_
#define PYD_API_INTERNAL_H_

#include <stdatomic.h>

#include "api/table.h"
#include "base/allocator.h"

// A device of the CPU, behind the handle that embedders have.
struct pyd_api_device_s {
  atomic_uint references;     // the caller's, one per program, pool block, memory handle and task
  pyd_sched_t* sched;         // runs calls and loops
  pyd_pool_t* pool;           // of the blocks of pool_acquire and of temporary memory
  pyd_allocator_t allocator;  // the pool's allocator: for handles
  pyd_api_owner_t owner;      // keeps |sched| and |pool| alive
};

// A public function or procedure of a loaded program. |info|, its description, is first: callers have the address of
// |info|, and call_prepare casts it to the entry.
typedef struct pyd_api_entry_s {
  pyd_api_function_t info;
  pyd_api_program_t* program;  // the program that the entry is part of; not a reference
  uint32_t index;              // in the functions of the program, or in its procedures
  bool is_procedure;
} pyd_api_entry_t;

// A loaded program with its functions, behind the handle that embedders have.
struct pyd_api_program_s {
  atomic_uint references;    // the caller's, one per call
  pyd_api_device_t* device;  // a reference
  const pyd_program_t* program;
  pyd_state_t* state;     // NULL without procedures
  pyd_api_owner_t owner;  // keeps |program| and |state| alive
  size_t size;            // bytes of the block that holds this handle, then its entries
  uint32_t entry_count;
  pyd_api_entry_t* entries;  // the public functions, then the public procedures
};

// Adds a reference.
void pyd_api_retain(atomic_uint* references);
// Removes a reference, and returns whether it was the last one.
bool pyd_api_drop(atomic_uint* references);

// Returns the status of a loop that ended with |failure|.
pyd_status_t pyd_api_range_outcome(const char* function, const pyd_sched_failure_t* failure);

// Returns the INVALID_ARGUMENT failure of an argument |what| that is NULL.
pyd_status_t pyd_api_null(const char* function, const char* what);

// Functions of the table pyd_api_t, which pydispatch/api.h documents under their names without pyd_api_; by file.
void pyd_api_device_release(pyd_api_device_t* device);
pyd_status_t pyd_api_device_close(pyd_api_device_t* device);
pyd_status_t pyd_api_device_lend_thread(pyd_api_device_t* device, const pyd_api_interrupt_t* until);
uint32_t pyd_api_device_workers(const pyd_api_device_t* device);
pyd_status_t pyd_api_pool_acquire(pyd_api_device_t* device, size_t bytes, void** out_block);
void pyd_api_pool_release(pyd_api_device_t* device, void* block);

pyd_status_t pyd_api_parallel_for(pyd_api_device_t* device, uint32_t x, uint32_t y, uint32_t z, pyd_api_body_fn_t body,
                                  void* context, pyd_api_cost_t* cost);
pyd_status_t pyd_api_parallel_range(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body, void* context,
                                    pyd_api_cost_t* cost);

void pyd_api_program_release(pyd_api_program_t* program);
pyd_api_device_t* pyd_api_program_device(const pyd_api_program_t* program);
uint32_t pyd_api_program_function_count(const pyd_api_program_t* program);
const pyd_api_function_t* pyd_api_program_function(const pyd_api_program_t* program, uint32_t index);
pyd_status_t pyd_api_program_find(const pyd_api_program_t* program, const char* name,
                                  const pyd_api_function_t** out_function);

pyd_status_t pyd_api_call_prepare(const pyd_api_function_t* function, const int64_t* dims, uint32_t dims_count,
                                  const uint64_t* scalars, uint32_t scalar_count, pyd_api_call_t** out_call);
void pyd_api_call_release(pyd_api_call_t* call);
uint64_t pyd_api_call_argument_bytes(const pyd_api_call_t* call, uint32_t index);
uint64_t pyd_api_call_result_bytes(const pyd_api_call_t* call, uint32_t index);
const int64_t* pyd_api_call_result_dims(const pyd_api_call_t* call, uint32_t index);
uint32_t pyd_api_call_argument_alignment(const pyd_api_call_t* call, uint32_t index);
uint32_t pyd_api_call_result_alignment(const pyd_api_call_t* call, uint32_t index);
pyd_status_t pyd_api_call_bind_argument(pyd_api_call_t* call, uint32_t index, const void* data, size_t bytes);
pyd_status_t pyd_api_call_bind_result(pyd_api_call_t* call, uint32_t index, void* data, size_t bytes);
pyd_status_t pyd_api_call_set_scalars(pyd_api_call_t* call, const uint64_t* scalars, uint32_t scalar_count);
pyd_status_t pyd_api_call_run(pyd_api_call_t* call);
pyd_status_t pyd_api_call_run_until(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt);
const void* pyd_api_call_result_data(const pyd_api_call_t* call, uint32_t index);
pyd_status_t pyd_api_call_scalar_result(const pyd_api_call_t* call, uint32_t index, uint64_t* out_word);

pyd_status_t pyd_api_call_submit(pyd_api_call_t* call, const pyd_api_submit_t* options, pyd_api_event_t** out_event);
pyd_status_t pyd_api_parallel_range_submit(pyd_api_device_t* device, uint64_t count, pyd_api_range_fn_t body,
                                           void* context, pyd_api_cost_t* cost, const pyd_api_submit_t* options,
                                           pyd_api_event_t** out_event);
pyd_status_t pyd_api_event_wait(pyd_api_event_t* event, uint64_t nanoseconds, const pyd_api_interrupt_t* interrupt,
                                uint32_t* out_outcome);
uint32_t pyd_api_event_outcome(pyd_api_event_t* event);
pyd_status_t pyd_api_event_status(pyd_api_event_t* event);
uint32_t pyd_api_event_cancel(pyd_api_event_t* event);
void pyd_api_event_release(pyd_api_event_t* event);

pyd_status_t pyd_api_memory_import(pyd_api_device_t* device, const pyd_api_memory_info_t* info,
                                   pyd_api_memory_t** out_memory);
void pyd_api_memory_release(pyd_api_memory_t* memory);
pyd_status_t pyd_api_call_bind_argument_memory(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory);
pyd_status_t pyd_api_call_bind_result_memory(pyd_api_call_t* call, uint32_t index, pyd_api_memory_t* memory);
pyd_status_t pyd_api_call_set_result_allocator(pyd_api_call_t* call, const pyd_allocator_t* allocator);
pyd_status_t pyd_api_call_take_result(pyd_api_call_t* call, uint32_t index, void** out_data, size_t* out_bytes);

uint32_t pyd_api_program_executable_count(const pyd_api_program_t* program);
pyd_status_t pyd_api_program_executable(const pyd_api_program_t* program, uint32_t index,
                                        pyd_api_executable_t* out_executable);
uint32_t pyd_api_program_host_command_count(const pyd_api_program_t* program);
pyd_api_text_t pyd_api_program_host_command(const pyd_api_program_t* program, uint32_t index);
uint32_t pyd_api_call_command_count(const pyd_api_call_t* call);
pyd_status_t pyd_api_call_command(const pyd_api_call_t* call, uint32_t index, pyd_api_command_t* out_command);
uint64_t pyd_api_call_arena_bytes(const pyd_api_call_t* call);
pyd_status_t pyd_api_call_run_timed(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt,
                                    pyd_api_time_t* out_times, uint32_t count);

#endif  // PYD_API_INTERNAL_H_
