// The list of providers, sorted by falling priority. It is never changed in place (read-copy-update): registering
// builds a new list and swaps the pointer, resolving takes a reference to the current list. Only the swap and the
// taking of a reference exclude each other, a few instructions under |swap|. Copying, unloading and callbacks happen
// outside of it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

// The providers of a device. A change replaces the whole list, so that readers need no lock while they use one.
struct pyd_plugin_manager_s {
  _Atomic uint32_t references;
  pthread_mutex_t writers;       // one change at a time; taken before |swap|
  pthread_mutex_t swap;          // of |current|
  pyd_provider_list_t* current;  // never NULL; the manager holds a reference
  pyd_provider_id_t next_id;     // from 1 on: 0 is no provider
};

// Returns a list with one reference and room for |count| providers, which the caller fills; NULL without memory.
static pyd_provider_list_t* allocate(uint32_t count) {
  pyd_provider_list_t* list = calloc(1, sizeof(*list) + count * sizeof(list->items[0]));
  if (!list) return NULL;
  atomic_init(&list->references, 1);
  list->count = count;
  return list;
}

// Drops a reference to an immutable list of providers. With the last reference, releases the providers.
void pyd_provider_list_release(pyd_provider_list_t* list) {
  if (!list || atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) != 1) return;
  for (uint32_t i = 0; i < list->count; ++i) pyd_provider_release(list->items[i]);
  free(list);
}

// Returns the current list, which never changes, with a reference for the caller.
pyd_provider_list_t* pyd_plugin_manager_snapshot(pyd_plugin_manager_t* manager) {
  pthread_mutex_lock(&manager->swap);
  pyd_provider_list_t* list = manager->current;
  atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
  pthread_mutex_unlock(&manager->swap);
  return list;
}

// Makes |list| the current list. Returns the old list. The caller releases it after unlocking |writers|, as releasing
// it may unload plugins.
static pyd_provider_list_t* publish(pyd_plugin_manager_t* manager, pyd_provider_list_t* list) {
  pthread_mutex_lock(&manager->swap);
  pyd_provider_list_t* before = manager->current;
  manager->current = list;
  pthread_mutex_unlock(&manager->swap);
  return before;
}

// Creates a manager of providers with one reference.
pyd_status_t pyd_plugin_manager_create(pyd_plugin_manager_t** out_manager) {
  *out_manager = NULL;
  pyd_plugin_manager_t* manager = calloc(1, sizeof(*manager));
  pyd_provider_list_t* list = manager ? allocate(0) : NULL;
  if (!list) {
    free(manager);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a plugin manager");
  }
  atomic_init(&manager->references, 1);
  pthread_mutex_init(&manager->writers, NULL);
  pthread_mutex_init(&manager->swap, NULL);
  manager->current = list;
  manager->next_id = 1;
  *out_manager = manager;
  return PYD_STATUS_OK;
}

pyd_plugin_manager_t* pyd_plugin_manager_retain(pyd_plugin_manager_t* manager) {
  atomic_fetch_add_explicit(&manager->references, 1, memory_order_relaxed);
  return manager;
}

// Drops a reference; the last one releases all providers.
void pyd_plugin_manager_release(pyd_plugin_manager_t* manager) {
  if (!manager || atomic_fetch_sub_explicit(&manager->references, 1, memory_order_acq_rel) != 1) return;
  pyd_provider_list_release(manager->current);
  pthread_mutex_destroy(&manager->swap);
  pthread_mutex_destroy(&manager->writers);
  free(manager);
}

// Adds a provider to the list, and takes over the caller's reference if it succeeds.
static pyd_status_t add(pyd_plugin_manager_t* manager, pyd_provider_t* provider, pyd_provider_id_t* out_id) {
  pthread_mutex_lock(&manager->writers);
  const pyd_provider_list_t* before = manager->current;  // only writers change it
  pyd_provider_list_t* list = before->count < UINT32_MAX - 1 ? allocate(before->count + 1) : NULL;
  if (!list) {
    pthread_mutex_unlock(&manager->writers);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to register '%s'", provider->label);
  }
  uint32_t place = 0;  // before the first provider of the same or a lower priority: newer ones are queried first
  while (place < before->count && before->items[place]->priority > provider->priority) ++place;
  for (uint32_t i = 0; i < before->count; ++i) list->items[i + (i >= place)] = pyd_provider_retain(before->items[i]);
  list->items[place] = provider;
  *out_id = provider->id = manager->next_id++;
  pyd_provider_list_t* old = publish(manager, list);
  pthread_mutex_unlock(&manager->writers);
  pyd_provider_list_release(old);
  return PYD_STATUS_OK;
}

// Adds a plugin as a provider of imports, and retains it. Providers are queried by falling |priority|; among equal ones
// the last added is the first.
pyd_status_t pyd_plugin_manager_add_plugin(pyd_plugin_manager_t* manager, pyd_plugin_t* plugin, int32_t priority,
                                           pyd_provider_id_t* out_id) {
  pyd_provider_t* provider;
  *out_id = 0;
  pyd_status_t status = pyd_provider_create(pyd_plugin_label(plugin), priority, &provider);
  if (!pyd_ok(status)) return status;
  provider->plugin = pyd_plugin_retain(plugin);
  status = add(manager, provider, out_id);
  if (!pyd_ok(status)) pyd_provider_release(provider);
  return status;
}

// Adds a provider that calls |resolve| with |self|. |release| is called with |owner| when the provider is freed; after
// a failure it is not.
pyd_status_t pyd_plugin_manager_add_callback(pyd_plugin_manager_t* manager, const char* label,
                                             pyd_provider_fn_t resolve, void* self, int32_t priority,
                                             void (*release)(void* owner), void* owner, pyd_provider_id_t* out_id) {
  pyd_provider_t* provider;
  *out_id = 0;
  if (!resolve) return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "provider '%s': no function to ask", label);
  pyd_status_t status = pyd_provider_create(label, priority, &provider);
  if (!pyd_ok(status)) return status;
  provider->resolve = resolve;
  provider->self = self;
  provider->release = release;
  provider->owner = owner;
  status = add(manager, provider, out_id);
  if (!pyd_ok(status)) {
    provider->release = NULL;  // after a failure, |owner| stays the caller's
    pyd_provider_release(provider);
  }
  return status;
}

// Adds a provider with a copy of |count| functions. |release| is called with |owner|, which keeps them valid, when the
// provider is freed; after a failure it is not.
pyd_status_t pyd_plugin_manager_add_functions(pyd_plugin_manager_t* manager, const char* label,
                                              const pyd_provider_function_t* functions, size_t count, int32_t priority,
                                              void (*release)(void* owner), void* owner, pyd_provider_id_t* out_id) {
  pyd_provider_t* provider;
  *out_id = 0;
  pyd_status_t status = pyd_provider_create(label, priority, &provider);
  if (!pyd_ok(status)) return status;
  status = pyd_provider_set_table(provider, functions, count);
  if (pyd_ok(status)) {
    provider->release = release;
    provider->owner = owner;
    status = add(manager, provider, out_id);
  }
  if (!pyd_ok(status)) {
    provider->release = NULL;  // after a failure, |owner| stays the caller's
    pyd_provider_release(provider);
  }
  return status;
}

// Removes provider |id| from the list. Earlier snapshots keep it.
pyd_status_t pyd_plugin_manager_remove(pyd_plugin_manager_t* manager, pyd_provider_id_t id) {
  pthread_mutex_lock(&manager->writers);
  const pyd_provider_list_t* before = manager->current;
  uint32_t removed = 0;  // its index
  while (removed < before->count && before->items[removed]->id != id) ++removed;
  bool is_there = removed < before->count;
  pyd_provider_list_t* list = is_there ? allocate(before->count - 1) : NULL;
  pyd_provider_list_t* old = NULL;
  if (list) {
    for (uint32_t i = 0; i < list->count; ++i) list->items[i] = pyd_provider_retain(before->items[i + (i >= removed)]);
    old = publish(manager, list);
  }
  pthread_mutex_unlock(&manager->writers);
  pyd_provider_list_release(old);
  if (list) return PYD_STATUS_OK;
  return is_there ? pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to remove provider %llu", (unsigned long long)id)
                  : pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "provider %llu is not registered (any more)",
                                    (unsigned long long)id);
}

// Holds both locks during fork(), so that the child's copy of the list is complete.
void pyd_plugin_manager_before_fork(pyd_plugin_manager_t* manager) {
  pthread_mutex_lock(&manager->writers);
  pthread_mutex_lock(&manager->swap);
}

// Releases the locks, in the parent and in the child.
void pyd_plugin_manager_after_fork(pyd_plugin_manager_t* manager) {
  pthread_mutex_unlock(&manager->swap);
  pthread_mutex_unlock(&manager->writers);
}
