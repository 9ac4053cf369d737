#include "xla/target.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"

enum { MAX_IDLE = 16 };  // prepared calls that are kept; those in use are not counted

struct pyd_target_s {
  atomic_uint references;
  const pyd_api_entry_t* entry;
  pthread_mutex_t mutex;  // of the rest; never held while a call is prepared, run or released
  uint32_t idle_count;
  pyd_api_call_t* idle[MAX_IDLE];  // in the order in which they were given back
};

pyd_status_t pyd_target_create(const pyd_api_function_t* function, pyd_target_t** out_target) {
  *out_target = NULL;
  pyd_target_t* target = calloc(1, sizeof(*target));
  if (!target || pthread_mutex_init(&target->mutex, NULL)) {
    free(target);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a target of '%s'", function->name);
  }
  atomic_init(&target->references, 1);
  target->entry = (const pyd_api_entry_t*)function;
  pyd_api_retain(&target->entry->program->references);
  *out_target = target;
  return PYD_STATUS_OK;
}

void pyd_target_retain(void* self) { pyd_api_retain(&((pyd_target_t*)self)->references); }

void pyd_target_release(pyd_target_t* target) {
  if (!target || !pyd_api_drop(&target->references)) return;
  pyd_api_program_t* program = target->entry->program;
  for (uint32_t i = 0; i < target->idle_count; ++i) pyd_api_call_release(target->idle[i]);
  pthread_mutex_destroy(&target->mutex);
  free(target);
  pyd_api_program_release(program);
}

const pyd_api_function_t* pyd_target_function(const pyd_target_t* target) { return &target->entry->info; }

bool pyd_target_is_procedure(const pyd_target_t* target) { return target->entry->is_procedure; }

static bool fits(const pyd_api_call_t* call, const int64_t* dims, const uint64_t* scalars) {
  static const uint64_t kNoScalars = 0;
  if (call->plan) return pyd_plan_matches(call->plan, dims, scalars ? scalars : &kNoScalars);
  uint32_t count = call->entry->info.dims_count;
  return !count || !memcmp(call->dims, dims, count * sizeof(*dims));
}

// The idle call that was used last among those that fit, taken out of the list; NULL when there is none.
static pyd_api_call_t* find_idle(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars) {
  pyd_api_call_t* found = NULL;
  pthread_mutex_lock(&target->mutex);
  for (uint32_t i = target->idle_count; i-- > 0 && !found;) {
    if (!fits(target->idle[i], dims, scalars)) continue;
    found = target->idle[i];
    --target->idle_count;
    memmove(&target->idle[i], &target->idle[i + 1], (target->idle_count - i) * sizeof(target->idle[0]));
  }
  pthread_mutex_unlock(&target->mutex);
  return found;
}

pyd_status_t pyd_target_take(pyd_target_t* target, const int64_t* dims, const uint64_t* scalars,
                             pyd_api_call_t** out_call) {
  const pyd_api_function_t* fn = &target->entry->info;
  *out_call = find_idle(target, dims, scalars);
  if (!*out_call) return pyd_api_call_prepare(fn, dims, fn->dims_count, scalars, fn->scalar_count, out_call);
  pyd_status_t status = pyd_api_call_set_scalars(*out_call, scalars, fn->scalar_count);
  if (!pyd_ok(status)) {
    pyd_api_call_release(*out_call);
    *out_call = NULL;
  }
  return status;
}

void pyd_target_give_back(pyd_target_t* target, pyd_api_call_t* call) {
  pyd_api_call_t* oldest = NULL;
  pthread_mutex_lock(&target->mutex);
  if (target->idle_count == MAX_IDLE) {
    oldest = target->idle[0];
    --target->idle_count;
    memmove(&target->idle[0], &target->idle[1], target->idle_count * sizeof(target->idle[0]));
  }
  target->idle[target->idle_count++] = call;
  pthread_mutex_unlock(&target->mutex);
  pyd_api_call_release(oldest);
}
