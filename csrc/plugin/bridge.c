// Bridges from the host's calling convention to the calling convention of embedded code. Each distinct function and
// context gets one, which lives as long as its plugin: a list that only grows needs no lock.
#include <stdlib.h>

#include "plugin/internal.h"

#if PYD_HAS_BRIDGES

// Calls the function of a bridge, which is embedded code, in the calling convention of that code. Host code calls this
// as the function of every bridge. |context|: the bridge.
static int32_t cross(void* params, void* context, void* reserved) {
  const pyd_plugin_bridge_t* bridge = context;
  return bridge->function(params, bridge->context, reserved);
}

// Returns the bridge of a function and its context from |list|, which links them by |next|; NULL when there is none.
static pyd_plugin_bridge_t* find(pyd_plugin_bridge_t* list, pyd_embedded_import_fn_t function, void* context) {
  while (list && !(list->function == function && list->context == context)) list = list->next;
  return list;
}

// Replaces a function of embedded code and its context by a pair that the host may call in its own calling convention:
// cross() and a bridge, which |plugin| owns. Any thread. Returns false without memory; the pair is then unchanged.
bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context) {
  pyd_embedded_import_fn_t wanted = (pyd_embedded_import_fn_t)*function;
  pyd_plugin_bridge_t* head = atomic_load_explicit(&plugin->bridges, memory_order_acquire);
  pyd_plugin_bridge_t* bridge = find(head, wanted, *context);
  if (!bridge) {
    bridge = malloc(sizeof(*bridge));
    if (!bridge) return false;
    *bridge = (pyd_plugin_bridge_t){head, wanted, *context};
    // Pushes it to the list; a failed exchange loads the new head into bridge->next. Two threads may add the same pair;
    // both bridges stay valid.
    while (!atomic_compare_exchange_weak_explicit(&plugin->bridges, &bridge->next, bridge, memory_order_acq_rel,
                                                  memory_order_acquire)) {
    }
  }
  *function = cross;
  *context = bridge;
  return true;
}

#else  // host and embedded code have one calling convention

// Leaves the pair unchanged: host code can call functions of embedded code directly. Returns true.
bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context) {
  (void)plugin, (void)function, (void)context;
  return true;
}

#endif

// Frees all bridges of a plugin, when no thread can call its functions any more.
void pyd_plugin_free_bridges(pyd_plugin_t* plugin) {
  pyd_plugin_bridge_t* bridge = atomic_load_explicit(&plugin->bridges, memory_order_acquire);
  while (bridge) {
    pyd_plugin_bridge_t* next = bridge->next;
    free(bridge);
    bridge = next;
  }
}
