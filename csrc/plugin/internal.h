// Declarations that the files of this folder share: plugins, providers and resolutions of imports.
#ifndef PYD_PLUGIN_INTERNAL_H_
#define PYD_PLUGIN_INTERNAL_H_

#include <stdatomic.h>

#include "plugin/call.h"
#include "pydispatch/plugin_host.h"

// ---- a plugin

// A function of embedded code with its context, which the host calls through a function of its own (bridge.c).
typedef struct pyd_plugin_bridge_s {
  struct pyd_plugin_bridge_s* next;
  pyd_embedded_import_fn_t function;
  void* context;
} pyd_plugin_bridge_t;

// A loaded plugin, an extension that provides functions to programs. |self|: the pointer that its load returned.
struct pyd_plugin_s {
  _Atomic uint32_t references;
  pyd_plugin_kind_t kind;                 // embedded, system or static
  char* label;                            // for messages; after this structure in one allocation
  const pyd_plugin_table_t* table;        // its functions, in its own memory; NULL until pyd_plugin_check()
  void* self;                             // passed to its functions
  bool is_loaded;                         // load returned OK, so unload is due
  bool may_print;                         // through C stdio
  pyd_elf_module_t module;                // of an embedded plugin
  void* library;                          // of a system plugin: its handle from dl.h
  _Atomic(pyd_plugin_bridge_t*) bridges;  // a list that only grows; freed with the plugin
};

// Checks |answer|, which the plugin's query returned, and fills plugin->table. (check.c)
pyd_status_t pyd_plugin_check(pyd_plugin_t* plugin, const pyd_plugin_header_t* const* answer);
// Checks that |address|, which will be called, is in the code of |plugin|, which is embedded. |what| names it in the
// message. (check.c)
pyd_status_t pyd_plugin_check_address(const pyd_plugin_t* plugin, const char* what, uintptr_t address);
// Checks that what the query of |plugin|, which is embedded, returned is in its file. (check.c)
pyd_status_t pyd_plugin_check_answer(const pyd_plugin_t* plugin, const pyd_plugin_header_t* const* answer);
// Returns the name of the code in the lower bits of |status|, such as "NOT_FOUND"; "an unknown code" for others.
// (check.c)
const char* pyd_plugin_code_name(pyd_plugin_status_t status);
// Returns the environment that a plugin's load function receives, with functions in the calling convention of |kind|.
// It is never freed. (environment.c)
const pyd_plugin_environment_t* pyd_plugin_environment(pyd_plugin_kind_t kind);

// Replaces |*function| and |*context|, of embedded code, by a function that the host can call, which calls the original
// one in its own convention, and by its context. Returns false without memory. Any thread may call it. (bridge.c)
bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context);
void pyd_plugin_free_bridges(pyd_plugin_t* plugin);

// ---- a provider: whoever a manager may ask. Counted. (provider.c)

// A source of functions: a plugin, or a callback. A table of functions is a callback that searches the table.
typedef struct pyd_provider_s {
  _Atomic uint32_t references;
  pyd_provider_id_t id;          // from the manager; 0 until it is added
  int32_t priority;              // the highest is queried first
  char* label;                   // for reports; after this structure in one allocation
  pyd_plugin_t* plugin;          // retained; NULL: |resolve| is called
  pyd_provider_fn_t resolve;     // the callback
  void* self;                    // passed to |resolve|
  void* table;                   // of a table of functions: the copy, which is also |self|; freed with the provider
  void (*release)(void* owner);  // called when the provider is freed; may be NULL
  void* owner;                   // passed to |release|
} pyd_provider_t;

// One reference. The caller sets the plugin or the callback, and |release| and |owner|.
pyd_status_t pyd_provider_create(const char* label, int32_t priority, pyd_provider_t** out_provider);
pyd_provider_t* pyd_provider_retain(pyd_provider_t* provider);
void pyd_provider_release(pyd_provider_t* provider);
pyd_status_t pyd_provider_resolve(pyd_provider_t* provider, size_t count, const char* const* names,
                                  pyd_import_fn_t* functions, void** contexts);
// Copies a table of functions into |provider|, which answers from it from then on.
pyd_status_t pyd_provider_set_table(pyd_provider_t* provider, const pyd_provider_function_t* functions, size_t count);

// ---- a picture of a manager's providers: never changed after it is published. Counted. (manager.c)

// An immutable list of providers. A list that the manager has replaced lives until its last reference is dropped, which
// releases the providers.
typedef struct pyd_provider_list_s {
  _Atomic uint32_t references;
  uint32_t count;
  pyd_provider_t* items[];  // in the order in which they are queried; each retained
} pyd_provider_list_t;

// Returns the current providers, which later changes of the manager do not affect.
pyd_provider_list_t* pyd_plugin_manager_snapshot(pyd_plugin_manager_t* manager);  // retained
void pyd_provider_list_release(pyd_provider_list_t* list);

#endif  // PYD_PLUGIN_INTERNAL_H_
