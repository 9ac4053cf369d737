// The host's side of plugins (plugin.h): loading them, resolving the imports of a program through several of them, and
// keeping each alive while it may be called. Every function may be called from any thread.
//
// Plugins print through C stdio: a caller of load, resolve, unload or an import that has streams of its own must flush
// before and after.
#ifndef PYDISPATCH_PLUGIN_HOST_H_
#define PYDISPATCH_PLUGIN_HOST_H_

#include "pydispatch/elf.h"
#include "pydispatch/executable.h"
#include "pydispatch/plugin.h"
#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- a plugin: one loaded instance, counted

// Way in which a plugin is loaded.
typedef enum pyd_plugin_kind_e {
  PYD_PLUGIN_KIND_AUTO = 0,      // embedded where the embedded loader accepts it, system otherwise
  PYD_PLUGIN_KIND_SYSTEM = 1,    // a shared library, opened by the operating system
  PYD_PLUGIN_KIND_EMBEDDED = 2,  // an embedded ELF, or a FatELF of them
  PYD_PLUGIN_KIND_STATIC = 3,    // linked into the process
} pyd_plugin_kind_t;

// Returns "auto", "system", "embedded" or "static", a constant.
const char* pyd_plugin_kind_name(pyd_plugin_kind_t kind);

// Options with which a plugin is loaded.
typedef struct pyd_plugin_options_s {
  pyd_plugin_kind_t kind;
  const char* name;                  // for messages; NULL: the path, or "plugin"
  const pyd_plugin_param_t* params;  // passed to load
  size_t param_count;
} pyd_plugin_options_t;

typedef struct pyd_plugin_s pyd_plugin_t;

// Each returns a plugin with one reference, or a failure that begins "plugin 'NAME'" and names the broken rule: the
// file (format, machine), no query symbol, a version other than 0.1, a NULL in a table, a sanitizer that is not the
// host's, an embedded plugin that does not declare itself standalone, a load that returned non-zero. A failed load has
// no side effects (except for a system library that the process keeps for other reasons) and never calls unload.
// UNSUPPORTED, CORRUPT, INVALID_ARGUMENT, SYSTEM, OUT_OF_MEMORY (also when the plugin reports that).
//
// A path may begin "embedded:" or "system:", which overrides |kind|; one that ends in ".sos" is embedded. A system
// library is checked before it is opened: opening runs its constructors.
pyd_status_t pyd_plugin_load_file(const char* path, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin);
// |bytes| may be freed afterwards. A system library from bytes needs an operating system with anonymous files.
pyd_status_t pyd_plugin_load_bytes(pyd_span_t bytes, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin);
// |query| must stay valid while the plugin is.
pyd_status_t pyd_plugin_load_static(pyd_plugin_query_fn_t query, const pyd_plugin_options_t* options,
                                    pyd_plugin_t** out_plugin);

// The last release calls unload and then unmaps the code. NULL is allowed.
pyd_plugin_t* pyd_plugin_retain(pyd_plugin_t* plugin);
void pyd_plugin_release(pyd_plugin_t* plugin);

// Valid while the plugin is. |label| is its name in messages, the others are stated by the plugin itself.
const char* pyd_plugin_label(const pyd_plugin_t* plugin);
const char* pyd_plugin_name(const pyd_plugin_t* plugin);
const char* pyd_plugin_description(const pyd_plugin_t* plugin);
pyd_plugin_kind_t pyd_plugin_kind(const pyd_plugin_t* plugin);
// Whether it may write through C stdio: a static one always, a shared library unless all its imports are known not to
// print, an embedded one never.
bool pyd_plugin_may_print(const pyd_plugin_t* plugin);
// The image of an embedded plugin, for debuggers; NULL for other kinds.
const pyd_elf_module_t* pyd_plugin_module(const pyd_plugin_t* plugin);

// Resolves through this plugin only, by the rules of plugin.h: it fills slots that are NULL. NOT_FOUND is no failure;
// any other failure names the plugin.
pyd_status_t pyd_plugin_resolve(pyd_plugin_t* plugin, size_t count, const char* const* names,
                                pyd_import_fn_t* functions, void** contexts);

// ---- a manager: the providers and their order

typedef struct pyd_plugin_manager_s pyd_plugin_manager_t;
typedef uint64_t pyd_provider_id_t;  // never 0, never used twice by one manager

// A provider other than a plugin: fills the slots of |functions| that are NULL, as pyd_resolver_t does. |names| are
// sorted, with leading '?'. Called from any thread.
typedef pyd_status_t (*pyd_provider_fn_t)(void* self, size_t count, const char* const* names,
                                          pyd_import_fn_t* functions, void** contexts);

// A function that a provider supplies.
typedef struct pyd_provider_function_s {
  const char* name;  // copied
  pyd_import_fn_t function;
  void* context;
} pyd_provider_function_t;

// Reference-counted; the last release releases all providers.
pyd_status_t pyd_plugin_manager_create(pyd_plugin_manager_t** out_manager);
pyd_plugin_manager_t* pyd_plugin_manager_retain(pyd_plugin_manager_t* manager);
void pyd_plugin_manager_release(pyd_plugin_manager_t* manager);

// The provider with the highest |priority| is queried first; among equals, the last added. Changes are atomic for
// programs being loaded. |label| is its name in reports.
pyd_status_t pyd_plugin_manager_add_plugin(pyd_plugin_manager_t* manager, pyd_plugin_t* plugin, int32_t priority,
                                           pyd_provider_id_t* out_id);  // retains the plugin
// |release|(|owner|) is called when neither the manager nor a program needs the functions any more, on any thread; it
// may be NULL. It is not called when adding fails.
pyd_status_t pyd_plugin_manager_add_functions(pyd_plugin_manager_t* manager, const char* label,
                                              const pyd_provider_function_t* functions, size_t count, int32_t priority,
                                              void (*release)(void* owner), void* owner, pyd_provider_id_t* out_id);
pyd_status_t pyd_plugin_manager_add_callback(pyd_plugin_manager_t* manager, const char* label,
                                             pyd_provider_fn_t resolve, void* self, int32_t priority,
                                             void (*release)(void* owner), void* owner, pyd_provider_id_t* out_id);
// Loaded programs keep the functions that they use. INVALID_ARGUMENT for an unknown or removed id.
pyd_status_t pyd_plugin_manager_remove(pyd_plugin_manager_t* manager, pyd_provider_id_t id);

// Handlers of a fork. The locks are held while the process is copied.
void pyd_plugin_manager_before_fork(pyd_plugin_manager_t* manager);
void pyd_plugin_manager_after_fork(pyd_plugin_manager_t* manager);

// ---- a resolution: the loading of one program

typedef struct pyd_resolution_s pyd_resolution_t;

// One symbol of one executable's import table.
typedef struct pyd_resolution_symbol_s {
  const char* name;  // without '?'
  bool is_optional;
  uint32_t group;        // index of the resolver call that requested it: 0, 1, ...
  uint32_t provider;     // index of its provider, or PYD_RESOLUTION_NOBODY
  uint32_t asked_count;  // number of providers queried for it, in order
} pyd_resolution_symbol_t;

// The provider of a symbol that none supplies.
#define PYD_RESOLUTION_NOBODY UINT32_MAX

// A provider that the resolution asks, as it was when the resolution began.
typedef struct pyd_resolution_provider_s {
  pyd_provider_id_t id;
  const char* label;
  int32_t priority;
  pyd_plugin_t* plugin;  // borrowed; NULL for functions and callbacks
} pyd_resolution_provider_t;

// Takes a snapshot of the manager's providers and retains all of them. A resolution is used by one thread at a time;
// resolutions are independent of each other, and none waits for a registration.
pyd_status_t pyd_resolution_begin(pyd_plugin_manager_t* manager, pyd_resolution_t** out_resolution);
// To be passed to every executable of the program. Valid while the resolution is.
const pyd_resolver_t* pyd_resolution_resolver(const pyd_resolution_t* resolution);
// After all executables are loaded: releases the providers that supplied nothing. Their labels stay.
void pyd_resolution_end(pyd_resolution_t* resolution);
// Whether a plugin that has supplied something may print.
bool pyd_resolution_may_print(const pyd_resolution_t* resolution);
// After the last executable of the program is freed: releases the functions. NULL is allowed.
void pyd_resolution_free(pyd_resolution_t* resolution);

// The report: providers in the order in which they are queried, and every requested symbol. Valid until the next call
// of the resolver.
uint32_t pyd_resolution_provider_count(const pyd_resolution_t* resolution);
const pyd_resolution_provider_t* pyd_resolution_provider(const pyd_resolution_t* resolution, uint32_t index);
uint32_t pyd_resolution_symbol_count(const pyd_resolution_t* resolution);
const pyd_resolution_symbol_t* pyd_resolution_symbol(const pyd_resolution_t* resolution, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PLUGIN_HOST_H_
