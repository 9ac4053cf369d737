// What a plugin may hand back, and what a manager does with it. The first bytes are the answers of its functions, and
// commands for a manager; what is left is the plugin's file. The file is checked and loaded as always (FatELF, ELF,
// relocations, what the system's loader is not shown), but its code does not run: only the address of its query
// function is exchanged.
// links: base platform elf fatelf imports plugin
// flags: -DPYD_EMBEDDED_CALL= -Wl,--wrap=pyd_elf_module_load,--wrap=pyd_elf_module_symbol,--wrap=pyd_dl_open_bytes
#include "elf/view.h"
#include "plugin/internal.h"
#include "pydispatch/fatelf.h"
#include "take.h"

typedef struct plugin_answer_s {
  pyd_plugin_header_t header;
  pyd_plugin_table_t table;
  char name[8];
} plugin_answer_t;

static plugin_answer_t given;
static take_t input;
static int loaded, released_owners;
static bool answers;

static int import(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 0; }
static int other_import(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 1; }

static pyd_plugin_status_t on_load(const pyd_plugin_environment_t* environment, size_t count,
                                   const pyd_plugin_param_t* params, void** out_self) {
  require(count == 0 || params != NULL);
  pyd_plugin_alloc_params_t size = {take_u8(&input)};
  void* memory = NULL;
  for (int i = 0; i < 3; ++i) {
    uint8_t command = take_u8(&input) % 5;
    if (memory && command < PYD_PLUGIN_REALLOC) continue;  // would lose it
    environment->allocator.control(environment->allocator.self, (pyd_plugin_alloc_command_t)command, &size, &memory);
  }
  environment->allocator.control(environment->allocator.self, PYD_PLUGIN_FREE, NULL, &memory);
  *out_self = &given;
  pyd_plugin_status_t result = take_u8(&input) < 200 ? 0 : take_u64(&input);
  loaded += result == 0;
  return result;
}
static void on_unload(void* self) {
  require(self == &given);
  --loaded;
}
static pyd_plugin_status_t on_resolve(void* self, const pyd_plugin_resolve_params_t* params,
                                      pyd_plugin_resolution_t* out_resolution) {
  require(self == &given);
  for (size_t i = 0; i < params->count; ++i) {
    require(params->names[i] != NULL);
    uint8_t kind = take_u8(&input);
    if (kind < 8)
      params->out_functions[i] = NULL;  // takes away what somebody gave
    else if (kind < 16)
      params->out_functions[i] = (void*)other_import;  // changes it
    else if (kind < 128 && !params->out_functions[i])
      params->out_functions[i] = (void*)import;
    if (kind & 1) params->out_contexts[i] = self;
  }
  *out_resolution = take_u8(&input);
  return take_u8(&input) < 224 ? (take_u8(&input) & 1 ? PYD_PLUGIN_NOT_FOUND : PYD_PLUGIN_OK) : take_u64(&input);
}

static const pyd_plugin_header_t* const* on_query(uint32_t version, void* reserved) {
  require(version == PYD_PLUGIN_VERSION && !reserved);
  return answers ? &given.table.header : NULL;
}

void* __real_pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name);
void* __wrap_pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name);
void* __wrap_pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name) {
  return __real_pyd_elf_module_symbol(module, name) ? (void*)(uintptr_t)on_query : NULL;
}

// Loads what has no initialisers of its own. Code is mapped and protected, never run.
pyd_status_t __real_pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module);
pyd_status_t __wrap_pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module);
pyd_status_t __wrap_pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module) {
  pyd_elf_view_t view;
  *out_module = (pyd_elf_module_t){0};
  pyd_status_t status = pyd_elf_parse(file, 4096, &view);
  bool is_safe = pyd_ok(status) && !view.init && !view.fini && !view.init_array.size && !view.fini_array.size &&
                 view.high - view.low < 1 << 22 && view.alignment <= 1 << 21;
  if (pyd_ok(status) && !is_safe) return pyd_status_make(PYD_CODE_UNSUPPORTED, "not loaded here");
  pyd_status_free(status);
  return __real_pyd_elf_module_load(file, out_module);
}

// The system's loader is no part of what is tested.
pyd_status_t __wrap_pyd_dl_open_bytes(pyd_span_t file, void** out_handle);
pyd_status_t __wrap_pyd_dl_open_bytes(pyd_span_t file, void** out_handle) {
  *out_handle = NULL;
  require(file.size > 0);
  return pyd_status_make(PYD_CODE_SYSTEM, "not opened here");
}

static void release_owner(void* owner) { *(int*)owner += 1; }
static pyd_status_t on_callback(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                                void** contexts) {
  (void)self, (void)names;
  for (size_t i = 0; i < count; ++i) {
    uint8_t kind = take_u8(&input);
    if (kind < 4)
      functions[i] = other_import;
    else if (kind < 64 && !functions[i])
      functions[i] = import, contexts[i] = &input;
  }
  return take_u8(&input) < 8 ? pyd_status_make(PYD_CODE_UNAVAILABLE, "the callback failed") : PYD_STATUS_OK;
}

static void describe(void) {
  uint8_t lacks = take_u8(&input);
  memset(&given, 0, sizeof(given));
  for (size_t i = 0; i < sizeof(given.name) - 1; ++i) given.name[i] = (char)(take_u8(&input) | 1);
  answers = lacks != 255;
  given.header =
      (pyd_plugin_header_t){.version = lacks & 1 && lacks & 128 ? take_u8(&input) : PYD_PLUGIN_VERSION,
                            .name = lacks & 2 && lacks & 128 ? NULL : given.name,
                            .description = lacks & 4 ? NULL : "d",
                            .features = lacks & 8 && lacks & 128 ? take_u8(&input) : PYD_PLUGIN_FEATURE_STANDALONE,
                            .sanitizer = lacks & 16 && lacks & 128 ? take_u8(&input) % 7 : 0};
  given.table =
      (pyd_plugin_table_t){lacks & 32 && lacks & 128 ? NULL : &given.header, lacks & 64 && lacks & 2 ? NULL : on_load,
                           lacks & 4 ? NULL : on_unload, lacks & 64 && lacks & 8 ? NULL : on_resolve};
}

static bool settle(pyd_status_t status, const void* made) {
  require(pyd_ok(status) == (made != NULL));
  require(pyd_ok(status) || pyd_status_text(status)[0]);
  bool ok = pyd_ok(status);
  pyd_status_free(status);
  return ok;
}

static void drive(pyd_plugin_manager_t* manager, pyd_plugin_t* plugin) {
  pyd_resolution_t* resolution = NULL;
  pyd_provider_id_t ids[4] = {0};
  int added = 0;
  static pyd_import_fn_t functions[40];
  static void* contexts[40];
  for (int steps = take_u8(&input) % 16; steps-- > 0;) {
    uint8_t command = take_u8(&input);
    pyd_provider_id_t id = 0;
    switch (command % 7) {
      case 0:
        if (plugin) settle(pyd_plugin_manager_add_plugin(manager, plugin, (int8_t)take_u8(&input), &id), &id);
        break;
      case 1: {
        pyd_provider_function_t table[3] = {0};
        for (int i = 0; i < 3; ++i)
          table[i] = (pyd_provider_function_t){take_name(&input), take_u8(&input) < 8 ? NULL : import, NULL};
        pyd_status_t status = pyd_plugin_manager_add_functions(
            manager, "t", table, command / 7 % 4, (int8_t)take_u8(&input), release_owner, &released_owners, &id);
        added += pyd_ok(status);
        settle(status, pyd_ok(status) ? &id : NULL);
        break;
      }
      case 2: {
        pyd_status_t status = pyd_plugin_manager_add_callback(manager, "c", on_callback, NULL, (int8_t)take_u8(&input),
                                                              release_owner, &released_owners, &id);
        added += pyd_ok(status);
        pyd_status_free(status);
        break;
      }
      case 3:
        pyd_status_free(pyd_plugin_manager_remove(manager, command & 64 ? take_u64(&input) : ids[command / 7 % 4]));
        break;
      case 4:
        pyd_resolution_free(resolution);
        resolution = NULL;
        settle(pyd_resolution_begin(manager, &resolution), resolution);
        break;
      case 5:
        if (resolution) {
          const char* names[40];
          uint32_t count = take_u8(&input) % 41;
          char texts[40][4];
          for (uint32_t i = 0; i < count; ++i) {
            uint8_t kind = take_u8(&input);
            names[i] =
                kind < 2 ? NULL
                         : memcpy(texts[i],
                                  (const char[4]){"?abf"[kind % 4], "abfg"[kind / 4 % 4], kind & 128 ? 'a' : 0, 0}, 4);
          }
          memset(functions, 0, sizeof(functions));
          memset(contexts, 0, sizeof(contexts));
          pyd_status_t status = pyd_imports_resolve("exe", count, take_u8(&input) < 2 ? NULL : names,
                                                    pyd_resolution_resolver(resolution), functions, contexts);
          for (uint32_t i = 0; i < count && pyd_ok(status); ++i) require(functions[i] || names[i][0] == '?');
          require(pyd_ok(status) || pyd_status_text(status)[0]);
          pyd_status_free(status);
          for (uint32_t i = 0; i < pyd_resolution_symbol_count(resolution); ++i) {
            const pyd_resolution_symbol_t* symbol = pyd_resolution_symbol(resolution, i);
            require(symbol->provider == PYD_RESOLUTION_NOBODY ||
                    symbol->provider < pyd_resolution_provider_count(resolution));
            require(strlen(symbol->name) < 8);
          }
        }
        break;
      case 6:
        if (resolution) pyd_resolution_end(resolution);
        break;
    }
    if (id) ids[id % 4] = id;
  }
  pyd_resolution_free(resolution);
  pyd_plugin_manager_release(manager);
  require(released_owners == added);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  input = (take_t){data, size < 96 ? size : 96};
  pyd_span_t file = {data + input.size, size - input.size};
  loaded = released_owners = 0;
  describe();
  uint8_t how = take_u8(&input);
  pyd_plugin_param_t param = {{"k", 1}, {"v", 1}};
  const pyd_plugin_options_t options = {.kind = (pyd_plugin_kind_t)(how & 128 && how & 1 ? take_u8(&input)
                                                                    : how & 1            ? 0
                                                                                         : PYD_PLUGIN_KIND_EMBEDDED),
                                        .name = how & 2 ? "p" : NULL,
                                        .params = how & 4 ? &param : NULL,
                                        .param_count = how >> 3 & 1};
  pyd_plugin_t* plugin = NULL;
  pyd_plugin_manager_t* manager = NULL;
  if (file.size && (options.kind || how & 64)) {
    settle(pyd_plugin_load_bytes(file, &options, &plugin), plugin);
  } else {
    settle(pyd_plugin_load_static(how & 16 && how & 32 && how & 64 ? NULL : on_query, &options, &plugin), plugin);
  }
  if (plugin) {
    pyd_import_fn_t function = import;
    void* context = &input;
    for (int i = 0; i < 3; ++i) require(pyd_plugin_bridge(plugin, &function, &context));
    require(function != import && pyd_plugin_name(plugin) && pyd_plugin_label(plugin)[0] &&
            pyd_plugin_description(plugin));
  }
  pyd_status_t status = pyd_plugin_manager_create(&manager);
  require(pyd_ok(status));
  pyd_status_free(status);
  drive(manager, plugin);
  pyd_plugin_release(plugin);
  require(loaded == 0 || !given.table.unload);
  return 0;
}
