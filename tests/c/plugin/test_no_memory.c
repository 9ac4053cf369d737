// links: base platform elf fatelf
// Loading, registering and resolving when the n-th request for memory is refused, for every n: an OUT_OF_MEMORY status,
// and nothing left behind (the address sanitizer counts).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int requests, refused;

static void* refuse(void* memory) {
  if (++requests != refused) return memory;
  free(memory);
  return NULL;
}
static void* refuse_growth(void* memory, size_t size) { return ++requests == refused ? NULL : realloc(memory, size); }

#define malloc(size) refuse(malloc(size))
#define calloc(count, size) refuse(calloc(count, size))
#define realloc(memory, size) refuse_growth(memory, size)
#include "imports/resolve.c"
#include "plugin/resolution.c"
#include "plugin/check.c"
#include "plugin/environment.c"
#include "plugin/manager.c"
#include "plugin/plugin.c"
#include "plugin/provider.c"
#undef malloc
#undef calloc
#undef realloc
bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context) {
  return plugin && function && context;
}
void pyd_plugin_free_bridges(pyd_plugin_t* plugin) { (void)plugin; }

#include "plugin/check.h"

static int f(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 0; }
PYD_PLUGIN_STATIC(query, "p", "", PYD_PLUGIN_FN("f", f))

static int released;
static void release(void* owner) { *(int*)owner += 1; }
static pyd_status_t nothing(void* self, size_t n, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  (void)self, (void)n, (void)names, (void)functions, (void)contexts;
  return PYD_STATUS_OK;
}

static pyd_status_t scenario(int* out_owned) {
  enum { COUNT = 40 };  // more names than fit on the stack of imports/resolve.c
  pyd_plugin_options_t options = {.name = "p"};
  pyd_plugin_t* plugin = NULL;
  pyd_plugin_manager_t* manager = NULL;
  pyd_resolution_t* resolution = NULL;
  pyd_provider_id_t ids[3] = {0};
  const pyd_provider_function_t table[] = {{"g", f, NULL}};
  const char* names[COUNT];
  pyd_import_fn_t functions[COUNT] = {0};
  void* contexts[COUNT] = {0};
  for (int i = 0; i < COUNT; ++i) names[i] = i % 2 ? "g" : "?f";  // not sorted
  *out_owned = 0;
  pyd_status_t status = pyd_plugin_load_static(query, &options, &plugin);
  if (pyd_ok(status)) status = pyd_plugin_manager_create(&manager);
  if (pyd_ok(status)) status = pyd_plugin_manager_add_plugin(manager, plugin, 0, &ids[0]);
  if (pyd_ok(status)) status = pyd_plugin_manager_add_functions(manager, "g", table, 1, 0, release, &released, &ids[1]);
  *out_owned += ids[1] != 0;
  if (pyd_ok(status))
    status = pyd_plugin_manager_add_callback(manager, "n", nothing, NULL, 0, release, &released, &ids[2]);
  *out_owned += ids[2] != 0;
  if (pyd_ok(status)) status = pyd_resolution_begin(manager, &resolution);
  if (pyd_ok(status)) {
    status = pyd_imports_resolve("exe", COUNT, names, pyd_resolution_resolver(resolution), functions, contexts);
    CHECK(!pyd_ok(status) || (functions[0] == f && functions[COUNT - 1] == f));
  }
  if (pyd_ok(status)) status = pyd_plugin_manager_remove(manager, ids[1]);
  pyd_resolution_free(resolution);
  pyd_plugin_manager_release(manager);
  pyd_plugin_release(plugin);
  return status;
}

int main(void) {
  int owned, total;
  refused = 0;
  EXPECT_OK(scenario(&owned));
  total = requests;
  CHECK(owned == 2 && released == 2 && total > 60);
  for (refused = 1; refused <= total; ++refused) {
    requests = released = 0;
    pyd_status_t status = scenario(&owned);
    if (pyd_status_code(status) != PYD_CODE_OUT_OF_MEMORY)
      fprintf(stderr, "request %d of %d: '%s'\n", refused, total, pyd_status_text(status));
    CHECK(pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && strstr(pyd_status_text(status), "no memory") &&
          !strstr(pyd_status_text(status), " 0 ") && released == owned);
    pyd_status_free(status);
  }
  return 0;
}
