// A target: a function that another runtime calls from its own threads, with a bounded cache of prepared calls.
#ifndef PYD_TARGET_TARGET_H_
#define PYD_TARGET_TARGET_H_

#include "api/table.h"

typedef struct pyd_target_s pyd_target_t;

// Holds the function's program, and handles forks. OUT_OF_MEMORY; SYSTEM if no fork can be handled.
pyd_status_t pyd_target_create(const pyd_api_function_t* function, pyd_target_t** out_target);
// |self|: a pyd_target_t; void*, as pyd_process_number_add() and pyd_process_number_find() take this function.
void pyd_target_retain(void* self);
// The last release frees the prepared calls and the program; it may take the GIL (api.h). NULL is allowed.
void pyd_target_release(pyd_target_t* target);

const pyd_api_function_t* pyd_target_function(const pyd_target_t* target);
// Returns whether the sizes of the results are known only after a run.
bool pyd_target_is_procedure(const pyd_target_t* target);

// Memory of one argument of a call of a target: the address of its elements, and its sizes.
typedef struct pyd_target_argument_s {
  const void* data;     // the elements of a tensor in row-major order; one element for a scalar
  const int64_t* dims;  // of a tensor, as many as its rank
} pyd_target_argument_t;

// Gets a call, as pyd_target_take, and binds |arguments| to it, one for each argument of the function.
pyd_status_t pyd_target_begin(pyd_target_t* target, const pyd_target_argument_t* arguments, pyd_api_call_t** out_call);
// Gets a call for these sizes and scalars (as in call_prepare): an idle one, or a new one. Nobody else uses it until it
// is given back.
pyd_status_t pyd_target_take(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars,
                             pyd_api_call_t** out_call);
// Makes the call idle; beyond the bound the one that has been idle for the longest time is released.
void pyd_target_give_back(pyd_target_t* target, pyd_api_call_t* call);

#endif  // PYD_TARGET_TARGET_H_
