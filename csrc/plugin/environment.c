// The environment that a plugin gets from its host: an allocator.
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

// Runs one command of the allocator: malloc, calloc, realloc or free. |*inout_memory|: the block, before and after it;
// unchanged by a failure.
static pyd_plugin_status_t control(pyd_plugin_alloc_command_t command, const pyd_plugin_alloc_params_t* params,
                                   void** inout_memory) {
  if (!inout_memory) return PYD_PLUGIN_INVALID_ARGUMENT;
  if (command == PYD_PLUGIN_FREE) {
    free(*inout_memory);
    *inout_memory = NULL;
    return PYD_PLUGIN_OK;
  }
  if (!params || params->size == 0) return PYD_PLUGIN_INVALID_ARGUMENT;
  void* memory = NULL;
  switch (command) {
    case PYD_PLUGIN_MALLOC: memory = malloc(params->size); break;
    case PYD_PLUGIN_CALLOC: memory = calloc(1, params->size); break;
    case PYD_PLUGIN_REALLOC: memory = realloc(*inout_memory, params->size); break;
    default: return PYD_PLUGIN_UNIMPLEMENTED;
  }
  if (!memory) return PYD_PLUGIN_RESOURCE_EXHAUSTED;
  *inout_memory = memory;
  return PYD_PLUGIN_OK;
}

// Implements the allocator that plugins are passed, in the calling convention of the host. It has no state, so |self|
// is NULL.
static pyd_plugin_status_t host_control(void* self, pyd_plugin_alloc_command_t command, const void* params,
                                        void** inout_memory) {
  (void)self;
  return control(command, params, inout_memory);
}

// The environment of plugins in the host's calling convention.
static const pyd_plugin_environment_t kHost = {{NULL, host_control}};

#if PYD_HAS_BRIDGES
typedef pyd_plugin_status_t(PYD_EMBEDDED_CALL* embedded_control_fn_t)(void*, pyd_plugin_alloc_command_t, const void*,
                                                                      void**);

// Implements the allocator that embedded plugins are passed, in their calling convention.
static pyd_plugin_status_t PYD_EMBEDDED_CALL embedded_control(void* self, pyd_plugin_alloc_command_t command,
                                                              const void* params, void** inout_memory) {
  (void)self;
  return control(command, params, inout_memory);
}

// pyd_plugin_environment_t, with a function in the convention of embedded code.
static const struct {
  void* self;
  embedded_control_fn_t control;
} kEmbedded = {NULL, embedded_control};
#endif

// Returns what load functions of plugins of |kind| get from the host: an allocator, with the calling convention of the
// plugin. It is static and immutable.
const pyd_plugin_environment_t* pyd_plugin_environment(pyd_plugin_kind_t kind) {
#if PYD_HAS_BRIDGES
  if (kind == PYD_PLUGIN_KIND_EMBEDDED) return (const pyd_plugin_environment_t*)(const void*)&kEmbedded;
#endif
  (void)kind;
  return &kHost;
}
