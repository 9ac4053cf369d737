// Providers, which a manager queries for imported functions: a plugin, a callback, or a table of functions, which is a
// callback that searches a copy of the table.
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

// Creates a provider with one reference and a copy of |label| after it in memory. The caller sets its plugin or
// callback.
pyd_status_t pyd_provider_create(const char* label, int32_t priority, pyd_provider_t** out_provider) {
  size_t size = strlen(label) + 1;
  pyd_provider_t* provider = calloc(1, sizeof(*provider) + size);
  *out_provider = provider;
  if (!provider) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "provider '%s': no memory for its state", label);
  atomic_init(&provider->references, 1);
  provider->label = memcpy(provider + 1, label, size);
  provider->priority = priority;
  return PYD_STATUS_OK;
}

pyd_provider_t* pyd_provider_retain(pyd_provider_t* provider) {
  atomic_fetch_add_explicit(&provider->references, 1, memory_order_relaxed);
  return provider;
}

// Drops a reference; the last one releases the plugin.
void pyd_provider_release(pyd_provider_t* provider) {
  if (!provider || atomic_fetch_sub_explicit(&provider->references, 1, memory_order_acq_rel) != 1) return;
  pyd_plugin_release(provider->plugin);
  if (provider->release) provider->release(provider->owner);
  free(provider->table);
  free(provider);
}

// Fills the empty slots of |functions| and |contexts| whose |names| the provider knows. A '?' before a name: optional.
pyd_status_t pyd_provider_resolve(pyd_provider_t* provider, size_t count, const char* const* names,
                                  pyd_import_fn_t* functions, void** contexts) {
  if (provider->plugin) return pyd_plugin_resolve(provider->plugin, count, names, functions, contexts);
  return provider->resolve(provider->self, count, names, functions, contexts);
}

// A copy of a table of functions in one block of memory: the count, the entries sorted by name, the characters of their
// names.
typedef struct table_s {
  size_t count;
  pyd_provider_function_t entries[];
} table_t;

// Compares two functions by their names, for qsort() and bsearch().
static int by_name(const void* a, const void* b) {
  return strcmp(((const pyd_provider_function_t*)a)->name, ((const pyd_provider_function_t*)b)->name);
}

// Implements pyd_provider_t.resolve for a table of functions. |self|: its table_t. Slots that an earlier provider has
// filled stay as they are.
static pyd_status_t resolve_table(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                                  void** contexts) {
  const table_t* table = self;
  for (size_t i = 0; i < count; ++i) {
    if (functions[i]) continue;
    pyd_provider_function_t key = {.name = names[i] + (names[i][0] == '?')};  // '?' marks an optional import
    const pyd_provider_function_t* found = bsearch(&key, table->entries, table->count, sizeof(key), by_name);
    if (!found) continue;
    contexts[i] = found->context;
    functions[i] = found->function;
  }
  return PYD_STATUS_OK;
}

// Checks the names and addresses of |count| functions. |*out_names_size|: bytes of all names with their terminators.
static pyd_status_t check_functions(const char* label, const pyd_provider_function_t* functions, size_t count,
                                    size_t* out_names_size) {
  *out_names_size = 0;
  for (size_t i = 0; i < count; ++i) {
    const char* name = functions[i].name;
    if (!name || !name[0] || name[0] == '?') {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "provider '%s': function %zu of %zu has %s", label, i, count,
                             name && name[0] ? "a name with '?', which only the importing side writes" : "no name");
    }
    if (!functions[i].function) {
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "provider '%s': the address of '%s' is 0", label, name);
    }
    *out_names_size += strlen(name) + 1;
  }
  return PYD_STATUS_OK;
}

// Copies |count| functions with their names into the provider, whose callback then searches the copy.
pyd_status_t pyd_provider_set_table(pyd_provider_t* provider, const pyd_provider_function_t* functions, size_t count) {
  size_t names_size;
  pyd_status_t status = check_functions(provider->label, functions, count, &names_size);
  if (!pyd_ok(status)) return status;
  table_t* table = malloc(sizeof(*table) + count * sizeof(*functions) + names_size);
  if (!table) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "provider '%s': no memory for %zu functions", provider->label,
                           count);
  }
  char* name = (char*)(table->entries + count);
  table->count = count;
  for (size_t i = 0; i < count; ++i) {
    size_t size = strlen(functions[i].name) + 1;
    table->entries[i] = functions[i];
    table->entries[i].name = memcpy(name, functions[i].name, size);
    name += size;
  }
  qsort(table->entries, count, sizeof(*functions), by_name);  // for bsearch; equal names become neighbours
  for (size_t i = 1; i < count; ++i) {
    if (by_name(&table->entries[i - 1], &table->entries[i]) != 0) continue;
    status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "provider '%s': the function '%s' is there twice",
                             provider->label, table->entries[i].name);
    free(table);
    return status;
  }
  provider->resolve = resolve_table;
  provider->self = provider->table = table;
  return PYD_STATUS_OK;
}
