// Calling into an embedded plugin, by the convention of base/embedded_call.h.
//
// An import of an embedded plugin is called through a pointer that says nothing about its origin. Where conventions
// differ it is therefore replaced by a bridge, a function of the host whose context holds the real pair (bridge.c).
#ifndef PYD_PLUGIN_CALL_H_
#define PYD_PLUGIN_CALL_H_

#include "base/embedded_call.h"
#include "pydispatch/plugin.h"

typedef const pyd_plugin_header_t* const*(PYD_EMBEDDED_CALL* pyd_embedded_query_fn_t)(uint32_t max_version,
                                                                                      void* reserved);
typedef pyd_plugin_status_t(PYD_EMBEDDED_CALL* pyd_embedded_load_fn_t)(const pyd_plugin_environment_t*, size_t,
                                                                       const pyd_plugin_param_t*, void**);
typedef void(PYD_EMBEDDED_CALL* pyd_embedded_unload_fn_t)(void*);
typedef pyd_plugin_status_t(PYD_EMBEDDED_CALL* pyd_embedded_resolve_fn_t)(void*, const pyd_plugin_resolve_params_t*,
                                                                          pyd_plugin_resolution_t*);
typedef int(PYD_EMBEDDED_CALL* pyd_embedded_import_fn_t)(void*, void*, void*);

#endif  // PYD_PLUGIN_CALL_H_
