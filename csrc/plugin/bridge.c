// Bridges from the host's calling convention to that of embedded code. Each distinct function and context gets one,
// which lives as long as its plugin: a list that only grows needs no lock.
#include <stdlib.h>

#include "plugin/internal.h"

#if PYD_HAS_BRIDGES

// Calls the function of a bridge, which is its context, in the convention of embedded code.
static int32_t cross(void* params, void* context, void* reserved) {
  const pyd_plugin_bridge_t* bridge = context;
  return bridge->function(params, bridge->context, reserved);
}

// Returns the bridge of a function and its context; NULL when there is none.
static pyd_plugin_bridge_t* find(pyd_plugin_bridge_t* list, pyd_embedded_import_fn_t function, void* context) {
  while (list && !(list->function == function && list->context == context)) list = list->next;
  return list;
}

bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context) {
  pyd_embedded_import_fn_t wanted = (pyd_embedded_import_fn_t)*function;
  pyd_plugin_bridge_t* head = atomic_load_explicit(&plugin->bridges, memory_order_acquire);
  pyd_plugin_bridge_t* bridge = find(head, wanted, *context);
  if (!bridge) {
    bridge = malloc(sizeof(*bridge));
    if (!bridge) return false;
    *bridge = (pyd_plugin_bridge_t){head, wanted, *context};
    // Two threads may add the same pair; both stay valid.
    while (!atomic_compare_exchange_weak_explicit(&plugin->bridges, &bridge->next, bridge, memory_order_acq_rel,
                                                  memory_order_acquire)) {
    }
  }
  *function = cross;
  *context = bridge;
  return true;
}

#else

bool pyd_plugin_bridge(pyd_plugin_t* plugin, pyd_import_fn_t* function, void** context) {
  (void)plugin, (void)function, (void)context;
  return true;
}

#endif

void pyd_plugin_free_bridges(pyd_plugin_t* plugin) {
  pyd_plugin_bridge_t* bridge = atomic_load_explicit(&plugin->bridges, memory_order_acquire);
  while (bridge) {
    pyd_plugin_bridge_t* next = bridge->next;
    free(bridge);
    bridge = next;
  }
}
