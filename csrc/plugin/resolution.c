// Resolves the imports of one program: asks the providers of one snapshot of a manager in their order, and records
// which one supplied each symbol.
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

// The imports of one program that is being loaded, and who has supplied them.
struct pyd_resolution_s {
  pyd_resolver_t resolver;    // what executables call; its |self| is this resolution
  pyd_provider_list_t* list;  // providers in the order of queries; NULL once the resolution has ended
  uint32_t provider_count;
  pyd_resolution_provider_t* providers;  // for reports: a copy of what |list| says of each, in its order
  pyd_provider_t** used;                 // by provider: retained when it supplied a symbol, else NULL
  pyd_resolution_symbol_t* symbols;      // imports of all tables so far
  uint32_t symbol_count, symbol_capacity;
  uint32_t group_count;  // tables resolved so far, without empty ones: the |group| of the next table's symbols
};

static pyd_status_t no_memory(uint32_t count) {
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to resolve %u imports", count);
}

// Returns a name without the '?' of optional imports.
static const char* bare(const char* name) { return name + (name[0] == '?'); }

// ---- one table

// An import with its index in the table, to sort by name and back.
typedef struct order_s {
  const char* name;
  uint32_t index;
} order_t;

// Compares two imports, of type order_t, for qsort: by name without the '?' of optional imports, then by index, as
// qsort is not stable.
static int by_bare_name(const void* a, const void* b) {
  const order_t* x = a;
  const order_t* y = b;
  int order = strcmp(bare(x->name), bare(y->name));
  return order ? order : (x->index > y->index) - (x->index < y->index);
}

// Appends the names of a table of imports to the report of the resolution, with no provider yet. A '?' before a name
// marks an optional import.
static pyd_status_t append_symbols(pyd_resolution_t* r, uint32_t count, const char* const* names) {
  if (count > UINT32_MAX / 2 - r->symbol_count) return no_memory(count);  // so that twice the sum fits 32 bits
  if (r->symbol_count + count > r->symbol_capacity) {
    uint32_t capacity = 2 * (r->symbol_count + count);
    pyd_resolution_symbol_t* grown = realloc(r->symbols, capacity * sizeof(*grown));
    if (!grown) return no_memory(count);
    r->symbols = grown;
    r->symbol_capacity = capacity;
  }
  for (uint32_t i = 0; i < count; ++i) {
    // Copied: after a failed load the report outlives the code that the names lie in.
    size_t size = strlen(bare(names[i])) + 1;
    char* name = malloc(size);
    if (!name) return no_memory(count);
    memcpy(name, bare(names[i]), size);
    r->symbols[r->symbol_count++] = (pyd_resolution_symbol_t){
        .name = name, .is_optional = names[i][0] == '?', .group = r->group_count, .provider = PYD_RESOLUTION_NOBODY};
  }
  return PYD_STATUS_OK;
}

// Content of a slot for an imported function before a provider was queried, to detect a provider that changes a filled
// slot.
typedef struct filled_s {
  pyd_import_fn_t function;
  void* context;
} filled_t;

// Returns the failure of a provider that changed the filled slot of |symbol|. |what|: its part, "" for the function.
static pyd_status_t refuse_change(const pyd_resolution_t* r, const pyd_provider_t* provider, const char* what,
                                  const pyd_resolution_symbol_t* symbol) {
  const char* supplier =
      symbol->provider == PYD_RESOLUTION_NOBODY ? "the caller" : r->list->items[symbol->provider]->label;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "plugin '%s' changed %s'%s', which '%s' had supplied: it must skip slots that are filled",
                         provider->label, what, symbol->name, supplier);
}

// Queries provider number |index| for the symbols whose slot in |functions| is NULL, and fails when it changes other
// slots. |before|: the slots before the query, which this function updates. |symbols|: the report's entries of this
// table.
static pyd_status_t ask(pyd_resolution_t* r, uint32_t index, uint32_t count, const char* const* names,
                        pyd_import_fn_t* functions, void** contexts, filled_t* before,
                        pyd_resolution_symbol_t* symbols) {
  pyd_provider_t* provider = r->list->items[index];
  pyd_status_t status = pyd_provider_resolve(provider, count, names, functions, contexts);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    if (before[i].function == NULL) {
      symbols[i].asked_count = index + 1;  // providers 0 to |index|
      if (functions[i]) {
        symbols[i].provider = index;
        if (!r->used[index]) r->used[index] = pyd_provider_retain(provider);
      } else {
        contexts[i] = NULL;  // a context without a function means nothing
      }
    } else if (functions[i] != before[i].function || contexts[i] != before[i].context) {
      const char* what = functions[i] != before[i].function ? "" : "the context of ";
      status = refuse_change(r, provider, what, &symbols[i]);
    }
    before[i] = (filled_t){functions[i], contexts[i]};
  }
  return status;
}

// Returns whether one of |count| functions is NULL: an import that is not resolved.
static bool has_missing(uint32_t count, const pyd_import_fn_t* functions) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!functions[i]) return true;
  }
  return false;
}

// Queries the providers in their order until no function of a table of |count| imports is missing, and adds the table
// to the report. Functions that no provider supplies stay NULL; the caller decides about them. |before|: scratch memory
// for the values of the table before a query.
static pyd_status_t ask_all(pyd_resolution_t* r, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts, filled_t* before) {
  pyd_status_t status = append_symbols(r, count, names);
  pyd_resolution_symbol_t* symbols = pyd_ok(status) ? r->symbols + (r->symbol_count - count) : NULL;
  r->group_count += 1;
  for (uint32_t i = 0; i < count; ++i) before[i] = (filled_t){functions[i], contexts[i]};
  for (uint32_t i = 0; i < r->list->count && pyd_ok(status) && has_missing(count, functions); ++i) {
    status = ask(r, i, count, names, functions, contexts, before, symbols);
  }
  return status;
}

// Returns whether a table is sorted by the names without '?', as plugins may expect. The compiler's tables are; for
// those of hand-written libraries that are not, resolve_sorted() passes sorted copies to the providers.
static bool is_sorted(uint32_t count, const char* const* names) {
  for (uint32_t i = 1; i < count; ++i) {
    if (strcmp(bare(names[i - 1]), bare(names[i])) > 0) return false;
  }
  return true;
}

// Resolves a table that is not sorted: passes sorted copies of its arrays to the providers, and copies the results
// back.
static pyd_status_t resolve_sorted(pyd_resolution_t* r, uint32_t count, const char* const* names,
                                   pyd_import_fn_t* functions, void** contexts, filled_t* before) {
  order_t* order = malloc(count * sizeof(*order));
  const char** sorted_names = malloc(count * sizeof(*sorted_names));
  pyd_import_fn_t* sorted_functions = malloc(count * sizeof(*sorted_functions));
  void** sorted_contexts = malloc(count * sizeof(*sorted_contexts));
  pyd_status_t status = PYD_STATUS_OK;
  if (!order || !sorted_names || !sorted_functions || !sorted_contexts) {
    status = no_memory(count);
  } else {
    for (uint32_t i = 0; i < count; ++i) order[i] = (order_t){names[i], i};
    qsort(order, count, sizeof(*order), by_bare_name);
    for (uint32_t i = 0; i < count; ++i) {
      sorted_names[i] = order[i].name;
      sorted_functions[i] = functions[order[i].index];
      sorted_contexts[i] = contexts[order[i].index];
    }
    status = ask_all(r, count, sorted_names, sorted_functions, sorted_contexts, before);
    for (uint32_t i = 0; i < count; ++i) {
      functions[order[i].index] = sorted_functions[i];
      contexts[order[i].index] = sorted_contexts[i];
    }
  }
  free(order);
  free(sorted_names);
  free(sorted_functions);
  free(sorted_contexts);
  return status;
}

// Resolves the table of imports of one executable. Implements pyd_resolver_t.resolve. |self|: the resolution.
static pyd_status_t answer(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                           void** contexts) {
  pyd_resolution_t* r = self;
  if (!r->list) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "the resolution has ended: begin another one for further executables");
  }
  if (count == 0) return PYD_STATUS_OK;
  filled_t* before = malloc(count * sizeof(*before));
  if (!before) return no_memory(count);
  pyd_status_t status = is_sorted(count, names) ? ask_all(r, count, names, functions, contexts, before)
                                                : resolve_sorted(r, count, names, functions, contexts, before);
  free(before);
  return status;
}

// ---- life

// Copies labels, ids and priorities of the providers, as their plugins may be unloaded before the report of the
// resolution is read. Returns false without memory.
static bool copy_providers(pyd_resolution_t* r) {
  size_t size = 0;
  uint32_t count = r->list->count;
  for (uint32_t i = 0; i < count; ++i) size += strlen(r->list->items[i]->label) + 1;
  // One element and one byte more than needed, as calloc may return NULL for no bytes. The labels follow the providers.
  r->used = calloc((size_t)count + 1, sizeof(*r->used));
  r->providers = calloc(1, (size_t)count * sizeof(*r->providers) + size + 1);
  if (!r->used || !r->providers) return false;
  char* label = (char*)(r->providers + count);
  for (uint32_t i = 0; i < count; ++i) {
    const pyd_provider_t* provider = r->list->items[i];
    size_t length = strlen(provider->label) + 1;
    r->providers[i] = (pyd_resolution_provider_t){provider->id, memcpy(label, provider->label, length),
                                                  provider->priority, provider->plugin};
    label += length;
  }
  r->provider_count = count;
  return true;
}

// Begins a resolution with the providers that |manager| has now; later changes of the manager do not affect it.
pyd_status_t pyd_resolution_begin(pyd_plugin_manager_t* manager, pyd_resolution_t** out_resolution) {
  *out_resolution = NULL;
  pyd_resolution_t* r = calloc(1, sizeof(*r));
  if (r) {
    // |keeps_marks|: answer() receives names with the '?' of optional imports.
    r->resolver = (pyd_resolver_t){.self = r, .resolve = answer, .keeps_marks = true};
    r->list = pyd_plugin_manager_snapshot(manager);
  }
  if (!r || !copy_providers(r)) {
    pyd_resolution_free(r);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to begin the resolution of a program's imports");
  }
  *out_resolution = r;
  return PYD_STATUS_OK;
}

const pyd_resolver_t* pyd_resolution_resolver(const pyd_resolution_t* resolution) { return &resolution->resolver; }

// Ends a resolution after its last executable: releases the list of providers. Providers that supplied a symbol are
// retained by |used|. The plugins of the others may be unloaded from here on, so they are removed from the report.
void pyd_resolution_end(pyd_resolution_t* resolution) {
  if (!resolution->list) return;  // has ended
  for (uint32_t i = 0; i < resolution->provider_count; ++i) {
    if (!resolution->used[i]) resolution->providers[i].plugin = NULL;
  }
  pyd_provider_list_release(resolution->list);
  resolution->list = NULL;
}

// Returns whether a plugin that supplied a symbol may write through C stdio. If so, a caller with buffered streams of
// its own must flush them before and after it calls functions of the plugin, to keep the order of the output.
bool pyd_resolution_may_print(const pyd_resolution_t* resolution) {
  for (uint32_t i = 0; i < resolution->provider_count; ++i) {
    const pyd_provider_t* used = resolution->used[i];
    if (used && used->plugin && pyd_plugin_may_print(used->plugin)) return true;
  }
  return false;
}

// Releases the functions that a program has imported, after its last executable is freed.
void pyd_resolution_free(pyd_resolution_t* resolution) {
  if (!resolution) return;
  for (uint32_t i = 0; i < resolution->provider_count; ++i) pyd_provider_release(resolution->used[i]);
  pyd_provider_list_release(resolution->list);
  for (uint32_t i = 0; i < resolution->symbol_count; ++i) free((void*)resolution->symbols[i].name);
  free(resolution->symbols);
  free(resolution->providers);
  free(resolution->used);
  free(resolution);
}

uint32_t pyd_resolution_provider_count(const pyd_resolution_t* resolution) { return resolution->provider_count; }

const pyd_resolution_provider_t* pyd_resolution_provider(const pyd_resolution_t* resolution, uint32_t index) {
  return index < resolution->provider_count ? &resolution->providers[index] : NULL;
}

uint32_t pyd_resolution_symbol_count(const pyd_resolution_t* resolution) { return resolution->symbol_count; }

const pyd_resolution_symbol_t* pyd_resolution_symbol(const pyd_resolution_t* resolution, uint32_t index) {
  return index < resolution->symbol_count ? &resolution->symbols[index] : NULL;
}
