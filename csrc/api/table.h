// The functions of the table of api.h that need no Python; _core/capi fills in the rest and makes
// handles around the objects that Python owns.
#ifndef PYD_API_TABLE_H_
#define PYD_API_TABLE_H_

#include "pydispatch/api.h"
#include "pydispatch/pool.h"
#include "pydispatch/procedure.h"
#include "pydispatch/program.h"
#include "pydispatch/sched.h"

// Something that keeps the C objects of a handle alive. |drop| is called once, on any thread, when the handle goes; it
// may be NULL.
typedef struct pyd_api_owner_s {
  void* self;
  void (*drop)(void* self);
} pyd_api_owner_t;

// |sched| and |pool| are not NULL. On failure |owner| stays with the caller.
pyd_status_t pyd_api_device_make(pyd_sched_t* sched, pyd_pool_t* pool, pyd_api_owner_t owner,
                                 pyd_api_device_t** out_device);
// Reads the options of a device that owns its threads and its pool. INVALID_ARGUMENT names what is wrong in |options|,
// which may be NULL.
// |*out_allocator| is for its pool, all zero for the system's memory.
pyd_status_t pyd_api_read_device_options(const pyd_api_device_options_t* options, pyd_sched_options_t* out_options,
                                         pyd_allocator_t* out_allocator);
// Checks that the options name exactly one source.
pyd_status_t pyd_api_check_load(const char* function, const pyd_api_load_t* options);
// Retains |device|. On failure |owner| stays with the caller. |state|: of |program|; NULL without public procedures.
pyd_status_t pyd_api_program_make(pyd_api_device_t* device, const pyd_program_t* program, pyd_state_t* state,
                                  pyd_api_owner_t owner, pyd_api_program_t** out_program);

// The object that a handle was made around; for a device that nobody else holds any more it is still there.
void* pyd_api_device_owner(const pyd_api_device_t* device);

// Writes version, size and every slot that needs no Python; the others become NULL.
void pyd_api_fill(pyd_api_t* out_table);

#endif  // PYD_API_TABLE_H_
