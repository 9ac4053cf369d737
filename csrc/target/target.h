// Functions that another runtime calls from its own threads: a handle with a bounded set of prepared calls.
#ifndef PYD_TARGET_TARGET_H_
#define PYD_TARGET_TARGET_H_

#include "api/table.h"

typedef struct pyd_target_s pyd_target_t;

// Holds the function's program. OUT_OF_MEMORY.
pyd_status_t pyd_target_create(const pyd_api_function_t* function, pyd_target_t** out_target);
// |self|: a pyd_target_t. The type is that of pyd_process_number_find.
void pyd_target_retain(void* self);
// The last release frees the prepared calls and the program; it may take the GIL (api.h). NULL is allowed.
void pyd_target_release(pyd_target_t* target);

const pyd_api_function_t* pyd_target_function(const pyd_target_t* target);
// Whether results have the sizes that only a run decides.
bool pyd_target_is_procedure(const pyd_target_t* target);

// Where an argument is.
typedef struct pyd_target_argument_s {
  const void* data;     // the elements of a tensor in row-major order; one element for a scalar
  const int64_t* dims;  // of a tensor, as many as its rank
} pyd_target_argument_t;

// A call for these arguments, one for each of the function's, bound to them; as pyd_target_take.
pyd_status_t pyd_target_begin(pyd_target_t* target, const pyd_target_argument_t* arguments, pyd_api_call_t** out_call);
// A call for these sizes and scalars (as call_prepare) that nobody else uses until it is given back.
pyd_status_t pyd_target_take(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars,
                             pyd_api_call_t** out_call);
void pyd_target_give_back(pyd_target_t* target, pyd_api_call_t* call);

#endif  // PYD_TARGET_TARGET_H_
