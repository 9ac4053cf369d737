// The cache of plans, and of idle calls of each plan, that a loaded program keeps for its procedures.
#include <stdlib.h>

#include "program/plan/plan.h"
#include "program/procedure/state.h"
#include "program/traced.h"

// Frees an entry of the cache, with its plan and idle calls.
void pyd_state_free_entry(pyd_state_entry_t* entry) {
  if (!entry) return;
  for (uint32_t i = 0; i < entry->idle_count; ++i) pyd_call_free(entry->idle[i]);
  pyd_plan_free(entry->plan);
  free(entry);
}

// Returns the entry of the plan for these sizes and scalars, whose pyd_plan_hash() is |key|; NULL if none is cached.
// The caller holds the mutex.
static pyd_state_entry_t* find_entry(const pyd_state_cache_t* cache, uint64_t key, const int64_t* dims,
                                     const uint64_t* scalars) {
  for (uint32_t i = 0; i < PYD_STATE_PLANS && cache->entries[i]; ++i) {
    pyd_state_entry_t* entry = cache->entries[i];
    if (entry->key == key && pyd_plan_matches(entry->plan, dims, scalars)) return entry;
  }
  return NULL;
}

// Inserts |entry| into the cache in place of the oldest entry. Returns the evicted entry, for the caller to free.
// Returns NULL if there is none or calls of it are leased: then the last of them to be returned frees it. The caller
// holds the mutex.
static pyd_state_entry_t* insert_entry(pyd_state_cache_t* cache, pyd_state_entry_t* entry) {
  pyd_state_entry_t* old = cache->entries[cache->next];
  cache->entries[cache->next] = entry;
  cache->next = (cache->next + 1) % PYD_STATE_PLANS;
  entry->is_cached = true;
  if (!old) return NULL;
  old->is_cached = false;
  return old->users ? NULL : old;
}

// Adds an entry for |plan|, which one lease uses, to the cache. Takes over the plan. Returns NULL without memory.
static pyd_state_entry_t* add_entry(pyd_state_t* state, pyd_state_cache_t* cache, uint64_t key, pyd_plan_t* plan) {
  pyd_state_entry_t* entry = calloc(1, sizeof(*entry));
  if (!entry) {
    pyd_plan_free(plan);
    return NULL;
  }
  *entry = (pyd_state_entry_t){.key = key, .plan = plan, .users = 1};
  pthread_mutex_lock(&state->mutex);
  // Another thread may have inserted an equal plan meanwhile; two entries for the same sizes do no harm.
  pyd_state_entry_t* old = insert_entry(cache, entry);
  pthread_mutex_unlock(&state->mutex);
  pyd_state_free_entry(old);
  return entry;
}

// Leases an idle call of the cached plan for these sizes and scalars. Creates the call, and before it the plan, if the
// cache does not have them, without holding the mutex.
static pyd_status_t lease(pyd_state_t* state, uint32_t function, const int64_t* dims, const uint64_t* scalars,
                          pyd_state_lease_t* out_lease) {
  pyd_state_cache_t* cache = &state->caches[function];
  uint64_t key = pyd_plan_hash(state->program, function, dims, scalars);
  *out_lease = (pyd_state_lease_t){NULL, NULL};
  pthread_mutex_lock(&state->mutex);
  pyd_state_entry_t* entry = find_entry(cache, key, dims, scalars);
  if (entry) {
    ++entry->users;
    if (entry->idle_count) out_lease->call = entry->idle[--entry->idle_count];
  }
  pthread_mutex_unlock(&state->mutex);
  pyd_status_t status = PYD_STATUS_OK;
  if (!entry) {  // no plan for these sizes is cached: create one, and add it to the cache
    pyd_plan_t* plan = NULL;
    status = pyd_plan_create(state->program, function, dims, scalars, &plan);
    if (!pyd_ok(status)) return status;
    entry = add_entry(state, cache, key, plan);
    if (!entry) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to keep a plan");
  }
  out_lease->entry = entry;
  if (!out_lease->call) status = pyd_call_create(entry->plan, state->sched, state->memory.pool, &out_lease->call);
  if (!pyd_ok(status)) pyd_state_return(state, *out_lease);
  return status;
}

// Leases a prepared call of |function| for the sizes |dims| and the values |scalars|: a cached one, or a new one.
// Records a trace event if a trace is on.
pyd_status_t pyd_state_lease(pyd_state_t* state, uint32_t function, const int64_t* dims, const uint64_t* scalars,
                             pyd_state_lease_t* out_lease) {
  pyd_trace_t* trace = pyd_sched_trace(state->sched);
  if (!pyd_trace_is_on(trace)) return lease(state, function, dims, scalars, out_lease);
  pyd_trace_event_t event = pyd_event_begin(PYD_TRACE_SCHEDULE, state->program->functions[function].info.name);
  pyd_status_t status = lease(state, function, dims, scalars, out_lease);
  pyd_event_end(trace, &event, status);
  return status;
}

// Returns a leased call to the cache, or frees it if the cache has no room.
void pyd_state_return(pyd_state_t* state, pyd_state_lease_t lease) {
  pyd_state_entry_t* entry = lease.entry;
  pthread_mutex_lock(&state->mutex);
  if (lease.call && entry->is_cached && entry->idle_count < PYD_STATE_IDLE_CALLS) {
    entry->idle[entry->idle_count++] = lease.call;
    lease.call = NULL;
  }
  const bool is_unused = --entry->users == 0 && !entry->is_cached;  // it was evicted while calls of it were leased
  pthread_mutex_unlock(&state->mutex);
  pyd_call_free(lease.call);  // NULL if the cache has it
  if (is_unused) pyd_state_free_entry(entry);
}
