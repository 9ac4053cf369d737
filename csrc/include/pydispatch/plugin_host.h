// The host's side of plugins (plugin.h): loading them, asking several of them for the imports of a program, and keeping
// each alive as long as somebody may call into it. Every function may be called from any thread.
//
// Plugins print through C stdio and know nothing of the host's own streams: whoever calls load, resolve, unload or an
// import on behalf of another language flushes around it.
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

typedef enum pyd_plugin_kind_e {
  PYD_PLUGIN_KIND_AUTO = 0,      // embedded where the embedded loader takes it, system otherwise
  PYD_PLUGIN_KIND_SYSTEM = 1,    // a shared library, opened by the operating system
  PYD_PLUGIN_KIND_EMBEDDED = 2,  // an embedded ELF, or a FatELF of them
  PYD_PLUGIN_KIND_STATIC = 3,    // in the process already
} pyd_plugin_kind_t;

const char* pyd_plugin_kind_name(pyd_plugin_kind_t kind);

typedef struct pyd_plugin_options_s {
  pyd_plugin_kind_t kind;
  const char* name;  // for messages; NULL: the path, or "plugin"
  const pyd_plugin_param_t* params;  // handed to load
  size_t param_count;
} pyd_plugin_options_t;

typedef struct pyd_plugin_s pyd_plugin_t;

// Each returns a plugin with one reference, or a failure that begins "plugin 'NAME'" and says which rule was broken: the
// file (format, machine), no query symbol, a version other than 0.1, a NULL in a table, a sanitizer that is not the
// host's, an embedded plugin that does not declare itself standalone, a load that returned non-zero. A failed load leaves
// nothing behind (a system library that the process keeps for other reasons aside) and never calls unload.
// UNSUPPORTED, CORRUPT, INVALID_ARGUMENT, SYSTEM, OUT_OF_MEMORY
// (also when the plugin itself says that memory ran out).
//
// A path may begin "embedded:" or "system:", which overrides |kind|; one that ends in ".sos" is embedded. A system library is
// looked at before it is opened: opening runs its constructors.
pyd_status_t pyd_plugin_load_file(const char* path, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin);
// |bytes| may be freed afterwards. A system library from bytes needs an operating system that opens files without a name.
pyd_status_t pyd_plugin_load_bytes(pyd_span_t bytes, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin);
// |query| stays valid as long as the plugin.
pyd_status_t pyd_plugin_load_static(pyd_plugin_query_fn_t query, const pyd_plugin_options_t* options,
                                    pyd_plugin_t** out_plugin);

// The last release calls unload and then gives the code back. NULL is allowed.
pyd_plugin_t* pyd_plugin_retain(pyd_plugin_t* plugin);
void pyd_plugin_release(pyd_plugin_t* plugin);

// Valid as long as the plugin. |label| is what messages call it, the others are what it says of itself.
const char* pyd_plugin_label(const pyd_plugin_t* plugin);
const char* pyd_plugin_name(const pyd_plugin_t* plugin);
const char* pyd_plugin_description(const pyd_plugin_t* plugin);
pyd_plugin_kind_t pyd_plugin_kind(const pyd_plugin_t* plugin);
// Whether it may write through C stdio: a static one always, a shared library unless all that it asks of others is known to be
// silent, an embedded one never.
bool pyd_plugin_may_print(const pyd_plugin_t* plugin);
// The image of an embedded plugin, for debuggers; NULL for other kinds.
const pyd_elf_module_t* pyd_plugin_module(const pyd_plugin_t* plugin);

// Asks this plugin alone, by the rules of plugin.h: it fills slots that are NULL. NOT_FOUND is no failure; any other code is
// one that names the plugin.
pyd_status_t pyd_plugin_resolve(pyd_plugin_t* plugin, size_t count, const char* const* names, pyd_import_fn_t* functions,
                                void** contexts);

// ---- a manager: who is asked, in which order

typedef struct pyd_plugin_manager_s pyd_plugin_manager_t;
typedef uint64_t pyd_provider_id_t;  // never 0, never used twice by one manager

// Supplies functions in another way: fills the slots of |functions| that are NULL, as pyd_resolver_t does. |names| are
// sorted and carry '?'. Called from any thread.
typedef pyd_status_t (*pyd_provider_fn_t)(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                                          void** contexts);

typedef struct pyd_provider_function_s {
  const char* name;  // copied
  pyd_import_fn_t function;
  void* context;
} pyd_provider_function_t;

// Counted; the last release lets all providers go.
pyd_status_t pyd_plugin_manager_create(pyd_plugin_manager_t** out_manager);
pyd_plugin_manager_t* pyd_plugin_manager_retain(pyd_plugin_manager_t* manager);
void pyd_plugin_manager_release(pyd_plugin_manager_t* manager);

// The provider with the highest |priority| is asked first; among equals, the one that came last. A program that is being
// loaded meanwhile sees all of a change or nothing. |label| is what reports call it.
pyd_status_t pyd_plugin_manager_add_plugin(pyd_plugin_manager_t* manager, pyd_plugin_t* plugin, int32_t priority,
                                           pyd_provider_id_t* out_id);  // retains the plugin
// |release|(|owner|) is called when neither the manager nor a program needs the functions any more, on any thread; it may
// be NULL. When adding fails it is not called.
pyd_status_t pyd_plugin_manager_add_functions(pyd_plugin_manager_t* manager, const char* label,
                                              const pyd_provider_function_t* functions, size_t count, int32_t priority,
                                              void (*release)(void* owner), void* owner, pyd_provider_id_t* out_id);
pyd_status_t pyd_plugin_manager_add_callback(pyd_plugin_manager_t* manager, const char* label, pyd_provider_fn_t resolve,
                                             void* self, int32_t priority, void (*release)(void* owner), void* owner,
                                             pyd_provider_id_t* out_id);
// Programs that were loaded before keep what they got. INVALID_ARGUMENT for an id that is not there (any more).
pyd_status_t pyd_plugin_manager_remove(pyd_plugin_manager_t* manager, pyd_provider_id_t id);

// Around a fork, from its handlers: the locks are held while the process is copied.
void pyd_plugin_manager_before_fork(pyd_plugin_manager_t* manager);
void pyd_plugin_manager_after_fork(pyd_plugin_manager_t* manager);

// ---- a resolution: the loading of one program

typedef struct pyd_resolution_s pyd_resolution_t;

// One symbol of one executable's import table.
typedef struct pyd_resolution_symbol_s {
  const char* name;  // without '?'
  bool is_optional;
  uint32_t group;        // which call of the resolver it came with: 0, 1, ...
  uint32_t provider;     // who gave it, or PYD_RESOLUTION_NOBODY
  uint32_t asked_count;  // the first so many providers were asked while it was missing
} pyd_resolution_symbol_t;

#define PYD_RESOLUTION_NOBODY UINT32_MAX

typedef struct pyd_resolution_provider_s {
  pyd_provider_id_t id;
  const char* label;
  int32_t priority;
  pyd_plugin_t* plugin;  // borrowed; NULL for functions and callbacks
} pyd_resolution_provider_t;

// Takes a picture of the manager's providers and holds all of them. A resolution is used by one thread at a time; any
// number of them may be at work at once, and none waits for a registration.
pyd_status_t pyd_resolution_begin(pyd_plugin_manager_t* manager, pyd_resolution_t** out_resolution);
// To be passed to every executable of the program. Valid as long as the resolution.
const pyd_resolver_t* pyd_resolution_resolver(const pyd_resolution_t* resolution);
// When all executables are loaded: lets go of the providers that gave nothing. Their labels stay.
void pyd_resolution_settle(pyd_resolution_t* resolution);
// Whether a plugin that gave something so far may print.
bool pyd_resolution_may_print(const pyd_resolution_t* resolution);
// After the last executable of the program is freed: the functions may go now. NULL is allowed.
void pyd_resolution_free(pyd_resolution_t* resolution);

// The report: providers in the order in which they are asked, and every symbol asked for. Valid until the next call of the
// resolver.
uint32_t pyd_resolution_provider_count(const pyd_resolution_t* resolution);
const pyd_resolution_provider_t* pyd_resolution_provider(const pyd_resolution_t* resolution, uint32_t index);
uint32_t pyd_resolution_symbol_count(const pyd_resolution_t* resolution);
const pyd_resolution_symbol_t* pyd_resolution_symbol(const pyd_resolution_t* resolution, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PLUGIN_HOST_H_
