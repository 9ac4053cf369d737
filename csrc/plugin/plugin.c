// One plugin: file → code → query → checks → load, and back.
#include <stdlib.h>
#include <string.h>

#include "platform/dl.h"
#include "plugin/internal.h"
#include "pydispatch/artifact.h"
#include "pydispatch/fatelf.h"

// Returns the name of a kind: "auto", "system", "embedded" or "static"; "unknown" for any other value.
const char* pyd_plugin_kind_name(pyd_plugin_kind_t kind) {
  static const char* const kNames[] = {"auto", "system", "embedded", "static"};  // by pyd_plugin_kind_t
  return (unsigned)kind < sizeof(kNames) / sizeof(kNames[0]) ? kNames[kind] : "unknown";
}

// NOT_INLINED keeps calls into embedded code in functions of their own where the calling convention of that code
// differs from the host's: gcc 12 merges two calls that differ only in their convention.
#if PYD_HAS_BRIDGES
#define NOT_INLINED __attribute__((noinline))
#else
#define NOT_INLINED
#endif

// Calls the load function of an embedded plugin, in the calling convention of its code.
static NOT_INLINED pyd_plugin_status_t embedded_load(const pyd_plugin_t* plugin, const pyd_plugin_options_t* options,
                                                     void** out_self) {
  pyd_embedded_load_fn_t function = (pyd_embedded_load_fn_t)plugin->table->load;
  return function(pyd_plugin_environment(plugin->kind), options->param_count, options->params, out_self);
}

// Calls the unload function of an embedded plugin, in the calling convention of its code.
static NOT_INLINED void embedded_unload(const pyd_plugin_t* plugin) {
  pyd_embedded_unload_fn_t function = (pyd_embedded_unload_fn_t)plugin->table->unload;
  function(plugin->self);
}

// Calls the resolve function of an embedded plugin, in the calling convention of its code.
static NOT_INLINED pyd_plugin_status_t embedded_resolve(const pyd_plugin_t* plugin,
                                                        const pyd_plugin_resolve_params_t* params,
                                                        pyd_plugin_resolution_t* out_resolution) {
  pyd_embedded_resolve_fn_t function = (pyd_embedded_resolve_fn_t)plugin->table->resolve;
  return function(plugin->self, params, out_resolution);
}

// Prefixes a failure with the plugin's label. |separator| follows the label: ":" unless the text continues the
// sentence.
static pyd_status_t named(const pyd_plugin_t* plugin, const char* separator, pyd_status_t status) {
  return pyd_status_annotate(status, "plugin '%s'%s %s", plugin->label, separator, pyd_status_text(status));
}

// Creates a plugin whose code is not loaded yet.
static pyd_status_t create(const char* label, pyd_plugin_kind_t kind, pyd_plugin_t** out_plugin) {
  size_t size = strlen(label) + 1;
  pyd_plugin_t* plugin = calloc(1, sizeof(*plugin) + size);
  *out_plugin = plugin;
  if (!plugin) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "plugin '%s': no memory for its state", label);
  atomic_init(&plugin->references, 1);
  atomic_init(&plugin->bridges, NULL);
  plugin->kind = kind;
  // The imports of a static plugin are unknown; attach_system() checks those of a system library.
  plugin->may_print = kind == PYD_PLUGIN_KIND_STATIC;
  plugin->label = memcpy(plugin + 1, label, size);
  return PYD_STATUS_OK;
}

// Unloads the plugin's instance, then its code, and frees its state. Accepts a plugin whose loading failed half-way.
static void destroy(pyd_plugin_t* plugin) {
  if (plugin->is_loaded && plugin->table->unload) {
    if (plugin->kind == PYD_PLUGIN_KIND_EMBEDDED) {
      embedded_unload(plugin);
    } else {
      plugin->table->unload(plugin->self);
    }
  }
  pyd_elf_module_unload(&plugin->module);
  pyd_dl_close(plugin->library);
  pyd_plugin_free_bridges(plugin);
  free(plugin);
}

// Returns the failure of a file without the function through which a plugin describes itself.
static pyd_status_t missing_query(const pyd_plugin_t* plugin) {
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "plugin '%s' does not export '" PYD_PLUGIN_QUERY_SYMBOL
                         "': end its source with PYD_PLUGIN(...), or build "
                         "it with --export=NAME",
                         plugin->label);
}

// Returns the host's code for the failure |result| of a plugin: OUT_OF_MEMORY, or INVALID_ARGUMENT for all others.
static pyd_code_t code_of(pyd_plugin_status_t result) {
  bool is_memory = (result & PYD_PLUGIN_STATUS_CODE_MASK) == PYD_PLUGIN_RESOURCE_EXHAUSTED;
  return is_memory ? PYD_CODE_OUT_OF_MEMORY : PYD_CODE_INVALID_ARGUMENT;
}

// Calls the plugin's load function, which creates its instance: plugin->self.
static pyd_status_t start(pyd_plugin_t* plugin, const pyd_plugin_options_t* options) {
  pyd_plugin_status_t result;
  if (plugin->kind == PYD_PLUGIN_KIND_EMBEDDED) {
    result = embedded_load(plugin, options, &plugin->self);
  } else {
    result =
        plugin->table->load(pyd_plugin_environment(plugin->kind), options->param_count, options->params, &plugin->self);
  }
  if (result != 0) {
    return pyd_status_make(code_of(result), "plugin '%s' refused to load: it returned %s (%u)%s", plugin->label,
                           pyd_plugin_code_name(result), (unsigned)(result & PYD_PLUGIN_STATUS_CODE_MASK),
                           options->param_count ? "; does it take these parameters?" : "");
  }
  plugin->is_loaded = true;
  return PYD_STATUS_OK;
}

// Loads an ELF or FatELF file with the loader of this library, queries the plugin's table of functions, and creates its
// instance. |*out_is_for_other_loader|: after a failure, whether the file is valid, but needs the loader of the system.
static pyd_status_t attach_embedded(pyd_plugin_t* plugin, pyd_span_t file, const pyd_plugin_options_t* options,
                                    bool* out_is_for_other_loader) {
  pyd_span_t elf;
  uint32_t host = pyd_elf_machine_host();
  const char* host_name = pyd_elf_machine_name(host);
  *out_is_for_other_loader = false;
  pyd_status_t status = pyd_fatelf_select(file, host, host_name ? host_name : "this machine", &elf);
  if (pyd_ok(status)) {
    status = pyd_elf_module_load(elf, &plugin->module);
    *out_is_for_other_loader = pyd_status_code(status) == PYD_CODE_UNSUPPORTED;  // such as for shared libraries
  }
  if (!pyd_ok(status)) return named(plugin, ":", status);
  void* symbol = pyd_elf_module_symbol(&plugin->module, PYD_PLUGIN_QUERY_SYMBOL);
  pyd_embedded_query_fn_t query;
  memcpy(&query, &symbol, sizeof(query));  // ISO C has no conversion from object to function pointers
  if (!query) return missing_query(plugin);
  status = pyd_plugin_check_address(plugin, "'" PYD_PLUGIN_QUERY_SYMBOL "'", (uintptr_t)symbol);
  if (!pyd_ok(status)) return status;
  const pyd_plugin_header_t* const* answer = query(PYD_PLUGIN_VERSION, NULL);
  status = pyd_plugin_check_answer(plugin, answer);
  if (!pyd_ok(status)) return status;
  // A plugin of the right version that is not STANDALONE needs libraries of the system. pyd_plugin_check() refuses it.
  *out_is_for_other_loader = answer && *answer && (*answer)->version == PYD_PLUGIN_VERSION &&
                             !((*answer)->features & PYD_PLUGIN_FEATURE_STANDALONE);
  status = pyd_plugin_check(plugin, answer);
  if (pyd_ok(status)) status = start(plugin, options);
  return status;
}

static bool is_elf(pyd_span_t file) { return file.size >= 4 && memcmp(file.data, "\177ELF", 4) == 0; }

// Loads a shared library with the system's loader, queries the plugin's table of functions, and creates its instance.
// Checks the file before opening it, since opening runs its constructors. |path|: NULL if |file| is in memory only.
static pyd_status_t attach_system(pyd_plugin_t* plugin, pyd_span_t file, const char* path,
                                  const pyd_plugin_options_t* options) {
  pyd_status_t status = pyd_dl_check(file);
  if (pyd_ok(status) && is_elf(file)) {
    status = pyd_elf_check_system(file);
    if (!pyd_ok(status)) return named(plugin, ":", status);
  }
  if (pyd_ok(status)) plugin->may_print = pyd_dl_may_print(file);
  if (pyd_ok(status)) status = path ? pyd_dl_open(path, &plugin->library) : pyd_dl_open_bytes(file, &plugin->library);
  if (!pyd_ok(status)) return named(plugin, "", status);
  void* symbol = pyd_dl_symbol(plugin->library, PYD_PLUGIN_QUERY_SYMBOL);
  pyd_plugin_query_fn_t query;
  memcpy(&query, &symbol, sizeof(query));
  if (!query) return missing_query(plugin);
  status = pyd_plugin_check(plugin, query(PYD_PLUGIN_VERSION, NULL));
  if (pyd_ok(status)) status = start(plugin, options);
  return status;
}

// Returns whether |text| ends with |end|.
static bool ends_with(const char* text, const char* end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

// Loads a plugin as |kind|: EMBEDDED or SYSTEM. |path|: NULL if |file| is in memory only. |*out_is_for_other_loader|:
// after a failure of an embedded plugin, whether the file is valid, but needs the loader of the system. |*out_plugin|
// is unchanged by a failure.
static pyd_status_t load_as(pyd_plugin_kind_t kind, const char* label, pyd_span_t file, const char* path,
                            const pyd_plugin_options_t* options, bool* out_is_for_other_loader,
                            pyd_plugin_t** out_plugin) {
  pyd_plugin_t* plugin = NULL;
  *out_is_for_other_loader = false;
  pyd_status_t status = create(label, kind, &plugin);
  if (pyd_ok(status)) {
    status = kind == PYD_PLUGIN_KIND_EMBEDDED ? attach_embedded(plugin, file, options, out_is_for_other_loader)
                                              : attach_system(plugin, file, path, options);
  }
  if (pyd_ok(status)) {
    *out_plugin = plugin;
  } else if (plugin) {
    destroy(plugin);
  }
  return status;
}

// Loads a plugin. With PYD_PLUGIN_KIND_AUTO, an ELF file is first loaded as an embedded plugin. If the embedded loader
// reports that the file needs the loader of the system, the file is loaded as a system library.
static pyd_status_t load(pyd_plugin_kind_t kind, const char* label, pyd_span_t file, const char* path,
                         const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin) {
  bool is_for_other_loader = false;
  bool is_only_kind = kind != PYD_PLUGIN_KIND_AUTO;  // no other kind is tried
  if (kind == PYD_PLUGIN_KIND_AUTO) {
    // The system opens no FatELF; ".sos" is the suffix of embedded libraries.
    is_only_kind = pyd_fatelf_is(file) || (path && ends_with(path, ".sos"));
    kind = is_only_kind || is_elf(file) ? PYD_PLUGIN_KIND_EMBEDDED : PYD_PLUGIN_KIND_SYSTEM;
  }
  pyd_status_t status = load_as(kind, label, file, path, options, &is_for_other_loader, out_plugin);
  const bool may_try_system = !is_only_kind && is_for_other_loader;
  if (pyd_ok(status) || !may_try_system) return status;
  // A system whose libraries are not ELF files, such as macOS, refuses the file only for its format. Then the failure
  // of the embedded loader is more helpful.
  pyd_status_t check = pyd_dl_check(file);
  bool is_other_format = pyd_status_code(check) == PYD_CODE_CORRUPT;
  pyd_status_free(check);
  if (is_other_format) return status;
  pyd_status_free(status);
  return load_as(PYD_PLUGIN_KIND_SYSTEM, label, file, path, options, &is_for_other_loader, out_plugin);
}

// Checks the kind and the parameters of the options. |is_linked|: the plugin is linked into this process, so that its
// kind must be STATIC or AUTO; otherwise the plugin is a file or bytes, and every kind but STATIC is valid.
static pyd_status_t check_options(const pyd_plugin_options_t* options, bool is_linked) {
  bool is_valid_kind;
  if (is_linked) {
    is_valid_kind = options->kind == PYD_PLUGIN_KIND_STATIC || options->kind == PYD_PLUGIN_KIND_AUTO;
  } else {
    is_valid_kind = (unsigned)options->kind < PYD_PLUGIN_KIND_STATIC;  // the last kind
  }
  bool lacks_params = options->param_count && !options->params;
  if (is_valid_kind && !lacks_params) return PYD_STATUS_OK;
  return pyd_status_make(
      PYD_CODE_INVALID_ARGUMENT, "plugin '%s': %s", options->name ? options->name : "plugin",
      is_valid_kind ? "a number of parameters without the parameters" : "this way of loading it has no such kind");
}

// Loads a plugin from a file. The prefix "embedded:" or "system:" of |path| overrides the kind in |options|.
pyd_status_t pyd_plugin_load_file(const char* path, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin) {
  static const char kEmbedded[] = "embedded:", kSystem[] = "system:";
  pyd_plugin_kind_t kind = options->kind;
  *out_plugin = NULL;
  pyd_status_t status = check_options(options, /* is_linked */ false);
  if (!pyd_ok(status)) return status;
  if (strncmp(path, kEmbedded, sizeof(kEmbedded) - 1) == 0) {
    kind = PYD_PLUGIN_KIND_EMBEDDED;
    path += sizeof(kEmbedded) - 1;
  } else if (strncmp(path, kSystem, sizeof(kSystem) - 1) == 0) {
    kind = PYD_PLUGIN_KIND_SYSTEM;
    path += sizeof(kSystem) - 1;
  }
  const char* label = options->name ? options->name : path;
  pyd_file_map_t map;
  status = pyd_file_map(path, &map);
  if (pyd_ok(status)) {
    status = load(kind, label, map.span, path, options, out_plugin);
    pyd_file_unmap(&map);
  } else {
    status = pyd_status_annotate(status, "plugin '%s': %s", label, pyd_status_text(status));
  }
  return status;
}

// Loads a plugin from the bytes of a library, which are copied.
pyd_status_t pyd_plugin_load_bytes(pyd_span_t bytes, const pyd_plugin_options_t* options, pyd_plugin_t** out_plugin) {
  *out_plugin = NULL;
  pyd_status_t status = check_options(options, /* is_linked */ false);
  if (pyd_ok(status)) {
    const char* label = options->name ? options->name : "plugin";
    status = load(options->kind, label, bytes, /* path */ NULL, options, out_plugin);
  }
  return status;
}

// Loads a plugin that is linked into this process, by its query function.
pyd_status_t pyd_plugin_load_static(pyd_plugin_query_fn_t query, const pyd_plugin_options_t* options,
                                    pyd_plugin_t** out_plugin) {
  const char* label = options->name ? options->name : "plugin";
  pyd_plugin_t* plugin = NULL;
  *out_plugin = NULL;
  pyd_status_t status = check_options(options, /* is_linked */ true);
  if (pyd_ok(status) && !query) {
    status = pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "plugin '%s': no query function given", label);
  }
  if (pyd_ok(status)) status = create(label, PYD_PLUGIN_KIND_STATIC, &plugin);
  if (pyd_ok(status)) status = pyd_plugin_check(plugin, query(PYD_PLUGIN_VERSION, NULL));
  if (pyd_ok(status)) status = start(plugin, options);
  if (pyd_ok(status)) {
    *out_plugin = plugin;
  } else if (plugin) {
    destroy(plugin);
  }
  return status;
}

pyd_plugin_t* pyd_plugin_retain(pyd_plugin_t* plugin) {
  atomic_fetch_add_explicit(&plugin->references, 1, memory_order_relaxed);
  return plugin;
}

// Drops a reference; the last one calls the plugin's unload function and unmaps its code.
void pyd_plugin_release(pyd_plugin_t* plugin) {
  // acq_rel: all uses of the plugin by other holders happen before it is unloaded.
  if (plugin && atomic_fetch_sub_explicit(&plugin->references, 1, memory_order_acq_rel) == 1) destroy(plugin);
}

const char* pyd_plugin_label(const pyd_plugin_t* plugin) { return plugin->label; }

const char* pyd_plugin_name(const pyd_plugin_t* plugin) { return plugin->table->header->name; }

const char* pyd_plugin_description(const pyd_plugin_t* plugin) {
  return plugin->table->header->description ? plugin->table->header->description : "";
}

pyd_plugin_kind_t pyd_plugin_kind(const pyd_plugin_t* plugin) { return plugin->kind; }

bool pyd_plugin_may_print(const pyd_plugin_t* plugin) { return plugin->may_print; }

const pyd_elf_module_t* pyd_plugin_module(const pyd_plugin_t* plugin) {
  return plugin->kind == PYD_PLUGIN_KIND_EMBEDDED ? &plugin->module : NULL;
}

// Calls the plugin's resolve function. For each import that the plugin supplies, the function stores its address and
// context in the arrays of |params|.
static pyd_plugin_status_t ask_plugin(pyd_plugin_t* plugin, const pyd_plugin_resolve_params_t* params) {
  pyd_plugin_resolution_t resolution = 0;  // unused: the slots show which imports it supplied
  if (plugin->kind == PYD_PLUGIN_KIND_EMBEDDED) {
    return embedded_resolve(plugin, params, &resolution);
  }
  return plugin->table->resolve(plugin->self, params, &resolution);
}

// Calls ask_plugin() for an embedded plugin on a host with another calling convention. Replaces each function that the
// plugin puts in a NULL entry of |functions|, the array of |params|, by a bridge: code that the host can call, and that
// calls the function in its own convention.
static pyd_plugin_status_t ask_across(pyd_plugin_t* plugin, const pyd_plugin_resolve_params_t* params,
                                      pyd_import_fn_t* functions) {
  bool* was_empty = malloc(params->count + 1);  // not 0 bytes, for which malloc may return NULL
  if (!was_empty) return PYD_PLUGIN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < params->count; ++i) was_empty[i] = !functions[i];
  pyd_plugin_status_t result = ask_plugin(plugin, params);
  for (size_t i = 0; i < params->count; ++i) {
    if (was_empty[i] && functions[i] && !pyd_plugin_bridge(plugin, &functions[i], &params->out_contexts[i])) {
      result = PYD_PLUGIN_RESOURCE_EXHAUSTED;
    }
  }
  free(was_empty);
  return result;
}

// Asks the plugin for the functions of |count| imports, and their contexts. The plugin writes into the arrays that
// kernels read later, so that it can change its entries at any time. Where calling conventions differ, the arrays hold
// bridges instead of its functions. An import that the plugin does not supply is no failure.
pyd_status_t pyd_plugin_resolve(pyd_plugin_t* plugin, size_t count, const char* const* names,
                                pyd_import_fn_t* functions, void** contexts) {
  pyd_plugin_resolve_params_t params = {count, names, (void**)(void*)functions, contexts};
  bool is_across = PYD_HAS_BRIDGES && plugin->kind == PYD_PLUGIN_KIND_EMBEDDED;
  pyd_plugin_status_t result = is_across ? ask_across(plugin, &params, functions) : ask_plugin(plugin, &params);
  uint32_t code = (uint32_t)(result & PYD_PLUGIN_STATUS_CODE_MASK);
  if (code == PYD_PLUGIN_OK || code == PYD_PLUGIN_NOT_FOUND) return PYD_STATUS_OK;
  return pyd_status_make(code_of(result), "plugin '%s' failed to resolve: it returned %s (%u)", plugin->label,
                         pyd_plugin_code_name(result), code);
}
