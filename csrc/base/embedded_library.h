// Calling between the host and an embedded executable, by the convention of base/embedded_call.h. The types of
// library.h are what a library and its host agree on where both follow one convention; where they do not, functions of
// an embedded executable are called through the types below. There imports need no bridge: the thunk that they are
// called through is one.
#ifndef PYD_BASE_EMBEDDED_LIBRARY_H_
#define PYD_BASE_EMBEDDED_LIBRARY_H_

#include <stdbool.h>

#include "base/embedded_call.h"
#include "pydispatch/library.h"

typedef const pyd_library_header_t* const*(PYD_EMBEDDED_CALL* pyd_embedded_library_query_fn_t)(
    uint32_t, const pyd_environment_t*);
typedef int32_t(PYD_EMBEDDED_CALL* pyd_embedded_dispatch_fn_t)(const pyd_environment_t*, const pyd_dispatch_state_t*,
                                                               const pyd_workgroup_state_t*);

#if PYD_HAS_BRIDGES
// Separate functions, not inlined: gcc 12 merges two calls of one pointer with the same arguments into one, even if
// their calling conventions differ.
static __attribute__((noinline, unused)) const pyd_library_header_t* const* pyd_library_query_across(
    pyd_library_query_fn_t query, uint32_t version, const pyd_environment_t* environment) {
  return ((pyd_embedded_library_query_fn_t)(void (*)(void))query)(version, environment);
}

static __attribute__((noinline, unused)) int32_t pyd_dispatch_across(pyd_dispatch_fn_t function,
                                                                     const pyd_environment_t* environment,
                                                                     const pyd_dispatch_state_t* dispatch,
                                                                     const pyd_workgroup_state_t* workgroup) {
  return ((pyd_embedded_dispatch_fn_t)(void (*)(void))function)(environment, dispatch, workgroup);
}
#endif

// Calls the query function of a library. |is_embedded|: it is code of an embedded executable, compiled for the
// convention of base/embedded_call.h; ignored where the host has the same convention.
static inline const pyd_library_header_t* const* pyd_library_query_call(pyd_library_query_fn_t query, bool is_embedded,
                                                                        uint32_t version,
                                                                        const pyd_environment_t* environment) {
#if PYD_HAS_BRIDGES
  if (is_embedded) return pyd_library_query_across(query, version, environment);
#endif
  (void)is_embedded;
  return query(version, environment);
}

// Calls a kernel for one workgroup; |is_embedded| as in pyd_library_query_call. Returns its code, 0 for success.
static inline int32_t pyd_dispatch_call(pyd_dispatch_fn_t function, bool is_embedded,
                                        const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                                        const pyd_workgroup_state_t* workgroup) {
#if PYD_HAS_BRIDGES
  if (is_embedded) return pyd_dispatch_across(function, environment, dispatch, workgroup);
#endif
  (void)is_embedded;
  return function(environment, dispatch, workgroup);
}

#endif  // PYD_BASE_EMBEDDED_LIBRARY_H_
