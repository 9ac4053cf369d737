// links: base platform elf fatelf imports
// The bridges between calling conventions, walked over on a system that needs none: here "embedded" code follows the
// convention of Windows, whose registers for arguments and saved values differ from the host's.
#if defined(__x86_64__) && !defined(_WIN32)
#define PYD_EMBEDDED_CALL __attribute__((ms_abi))
#include <stdlib.h>

static int requests, refused;
static void* refuse(void* memory) {
  if (++requests != refused) return memory;
  free(memory);
  return NULL;
}
#define malloc(size) refuse(malloc(size))
#include "plugin/bridge.c"
#include "plugin/check.c"
#include "plugin/environment.c"
#include "plugin/plugin.c"
#undef malloc

#include "plugin/check.h"

static const pyd_plugin_allocator_t* allocator;

static __attribute__((ms_abi)) int add(void* params, void* context, void* reserved) {
  CHECK(reserved == (void*)0x77);
  *(int*)params += *(int*)context;
  return 5;
}
static __attribute__((ms_abi)) pyd_plugin_status_t load_(const pyd_plugin_environment_t* environment, size_t count,
                                                         const pyd_plugin_param_t* params, void** out_self) {
  typedef __attribute__((ms_abi)) pyd_plugin_status_t (*control_fn_t)(void*, pyd_plugin_alloc_command_t, const void*,
                                                                      void**);
  CHECK(count == 1 && pyd_plugin_string_is(params[0].value, "v"));
  allocator = &environment->allocator;
  pyd_plugin_alloc_params_t size = {sizeof(int)};
  if (((control_fn_t)allocator->control)(allocator->self, PYD_PLUGIN_CALLOC, &size, out_self) != 0)
    return PYD_PLUGIN_INTERNAL;
  *(int*)*out_self = 30;
  return PYD_PLUGIN_OK;
}
static int unloads;
static __attribute__((ms_abi)) void unload_(void* self) {
  typedef __attribute__((ms_abi)) pyd_plugin_status_t (*control_fn_t)(void*, pyd_plugin_alloc_command_t, const void*,
                                                                      void**);
  CHECK(((control_fn_t)allocator->control)(allocator->self, PYD_PLUGIN_FREE, NULL, &self) == 0);
  unloads += 1;
}
static __attribute__((ms_abi)) pyd_plugin_status_t resolve_(void* self, const pyd_plugin_resolve_params_t* params,
                                                            pyd_plugin_resolution_t* out_resolution) {
  *out_resolution = 0;
  for (size_t i = 0; i < params->count; ++i) {
    if (params->out_functions[i] || params->names[i][0] == '?') continue;
    params->out_functions[i] = (void*)add;
    params->out_contexts[i] = self;
  }
  return PYD_PLUGIN_OK;
}

static int kept(void* params, void* context, void* reserved) { return (void)params, (void)context, (void)reserved, 1; }

int main(void) {
  static const pyd_plugin_header_t header = {.version = 1, .name = "w", .features = PYD_PLUGIN_FEATURE_STANDALONE};
  static const struct {
    const pyd_plugin_header_t* header;
    pyd_embedded_load_fn_t load;
    pyd_embedded_unload_fn_t unload;
    pyd_embedded_resolve_fn_t resolve;
  } table = {&header, load_, unload_, resolve_};
  const pyd_plugin_param_t param = {{"k", 1}, {"v", 1}};
  pyd_plugin_options_t options = {.params = &param, .param_count = 1};
  pyd_plugin_t* plugin;
  EXPECT_OK(create("w", PYD_PLUGIN_KIND_EMBEDDED, &plugin));
  EXPECT_OK(pyd_plugin_check(plugin, &table.header));
  EXPECT_OK(start(plugin, &options));
  void* self = plugin->self;
  const char* names[] = {"a", "b", "c"};
  pyd_import_fn_t functions[3] = {NULL, kept, NULL};
  void* contexts[3] = {0};
  EXPECT_OK(pyd_plugin_resolve(plugin, 3, names, functions, contexts));
  int value = 12;
  CHECK(functions[1] == kept && contexts[1] == NULL && functions[0](&value, contexts[0], (void*)0x77) == 5 &&
        value == 42);
  CHECK(functions[2] == functions[0] && contexts[2] == contexts[0]);  // one bridge for one pair
  // What it does not have stays empty, and so does everything when memory is short.
  const char* more[] = {"a", "?x"};
  memset(functions, 0, sizeof(functions));
  EXPECT_OK(pyd_plugin_resolve(plugin, 2, more, functions, contexts));
  CHECK(functions[0] && !functions[1]);
  for (refused = 1; refused <= 2; ++refused) {
    int other = 0;
    plugin->self = refused == 2 ? &other : plugin->self;  // a pair that has no bridge yet
    memset(functions, 0, sizeof(functions));
    requests = 0;
    EXPECT(pyd_plugin_resolve(plugin, 1, more, functions, contexts), OUT_OF_MEMORY,
           "plugin 'w' failed to resolve: it returned RESOURCE_EXHAUSTED (8)");
  }
  plugin->self = self;
  pyd_plugin_release(plugin);
  CHECK(unloads == 1);
  return 0;
}
#else
int main(void) { return 0; }
#endif
