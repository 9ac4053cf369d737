// For authors of plugins: everything that a plugin needs, in one file without dependencies. A plugin supplies
// functions, by name, to programs that were compiled without them. The layout is that of IREE's executable plugin 0.1,
// so one binary works in both systems.
//
// All that a plugin of plain functions needs:
//
//   #include "pydispatch/plugin.h"
//   static int my_mul(void* params, void* context, void* reserved) { ...; return 0; }
//   PYD_PLUGIN("my_plugin", "what it is for", PYD_PLUGIN_FN("my_mul", my_mul))
//
// `pydispatch plugin build my.c -o my.sos` compiles it to a file that runs on every operating system ("standalone": no
// C library, no thread-local storage); `pydispatch plugin build --system my.c -o my.so` an ordinary shared library.
#ifndef PYDISPATCH_PLUGIN_H_
#define PYDISPATCH_PLUGIN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The one symbol that a plugin exports, of type pyd_plugin_query_fn_t.
#define PYD_PLUGIN_QUERY_SYMBOL "iree_hal_executable_plugin_query"
#define PYD_PLUGIN_VERSION 1u  // 0.1

#if defined(_WIN32)
#define PYD_PLUGIN_EXPORT __declspec(dllexport)
#else
#define PYD_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

// ---- status: a code in the low 5 bits of a word. The rest of the word is zero unless the plugin sets
// PYD_PLUGIN_FEATURE_FULL_STATUS; hosts read only the code.

typedef uintptr_t pyd_plugin_status_t;

// The bits of a status that hold its code.
#define PYD_PLUGIN_STATUS_CODE_MASK 0x1Fu

// Codes of statuses, with the numbers of IREE's.
typedef enum pyd_plugin_code_e {
  PYD_PLUGIN_OK = 0,
  PYD_PLUGIN_CANCELLED = 1,
  PYD_PLUGIN_UNKNOWN = 2,
  PYD_PLUGIN_INVALID_ARGUMENT = 3,
  PYD_PLUGIN_DEADLINE_EXCEEDED = 4,
  PYD_PLUGIN_NOT_FOUND = 5,
  PYD_PLUGIN_ALREADY_EXISTS = 6,
  PYD_PLUGIN_PERMISSION_DENIED = 7,
  PYD_PLUGIN_RESOURCE_EXHAUSTED = 8,
  PYD_PLUGIN_FAILED_PRECONDITION = 9,
  PYD_PLUGIN_ABORTED = 10,
  PYD_PLUGIN_OUT_OF_RANGE = 11,
  PYD_PLUGIN_UNIMPLEMENTED = 12,
  PYD_PLUGIN_INTERNAL = 13,
  PYD_PLUGIN_UNAVAILABLE = 14,
  PYD_PLUGIN_DATA_LOSS = 15,
  PYD_PLUGIN_UNAUTHENTICATED = 16,
  PYD_PLUGIN_DEFERRED = 17,
} pyd_plugin_code_t;

// ---- what the host passes

// Not terminated.
typedef struct pyd_plugin_string_s {
  const char* data;
  size_t size;  // bytes
} pyd_plugin_string_t;

// A parameter of a plugin, such as key="value" in `device.add_plugin("my.sos", key="value")`. Valid only until load
// returns: copy strings that are needed later.
typedef struct pyd_plugin_param_s {
  pyd_plugin_string_t key;
  pyd_plugin_string_t value;
} pyd_plugin_param_t;

// What |control| of an allocator does.
typedef enum pyd_plugin_alloc_command_e {
  PYD_PLUGIN_MALLOC = 0,   // contents undefined
  PYD_PLUGIN_CALLOC = 1,   // zeroed
  PYD_PLUGIN_REALLOC = 2,  // of *inout_memory
  PYD_PLUGIN_FREE = 3,     // *inout_memory; has no parameters
} pyd_plugin_alloc_command_t;

// The |params| of |control|, but for PYD_PLUGIN_FREE.
typedef struct pyd_plugin_alloc_params_s {
  size_t size;  // bytes
} pyd_plugin_alloc_params_t;

// The host's memory, aligned for any type. Usable from any thread until unload returns; may be copied.
typedef struct pyd_plugin_allocator_s {
  void* self;
  pyd_plugin_status_t (*control)(void* self, pyd_plugin_alloc_command_t command, const void* params,
                                 void** inout_memory);
} pyd_plugin_allocator_t;

// What the host provides to a plugin when it loads it.
typedef struct pyd_plugin_environment_s {
  pyd_plugin_allocator_t allocator;
} pyd_plugin_environment_t;

// A function that a program imports. |params|: the struct of results, arguments and extra fields that the program's
// declaration implies. |context|: set by resolve with the function. Returns 0, or another value to fail
// the dispatch. Called from many threads at once.
typedef int (*pyd_plugin_fn_t)(void* params, void* context, void* reserved);

// Imported functions that |resolve| has to supply. The |count| names are sorted without regard to the leading '?' of
// optional ones. Slot i of |out_functions| and |out_contexts| receives the function of |names|[i] and the context that
// kernels call it with; a slot with a function belongs to another plugin. All arrays are valid only until resolve
// returns.
typedef struct pyd_plugin_resolve_params_s {
  size_t count;
  const char* const* names;
  void** out_functions;
  void** out_contexts;
} pyd_plugin_resolve_params_t;

typedef uint32_t pyd_plugin_resolution_t;
#define PYD_PLUGIN_MISSING_OPTIONAL 1u  // an optional name has no function

// ---- what a plugin states

#define PYD_PLUGIN_FEATURE_STANDALONE 1u   // needs no operating system: required of an embedded ELF
#define PYD_PLUGIN_FEATURE_FULL_STATUS 2u  // statuses may carry a pointer above the code

// The sanitizer that a plugin was compiled with.
typedef enum pyd_plugin_sanitizer_e {
  PYD_PLUGIN_SANITIZER_NONE = 0,
  PYD_PLUGIN_SANITIZER_ADDRESS = 1,
  PYD_PLUGIN_SANITIZER_MEMORY = 2,
  PYD_PLUGIN_SANITIZER_THREAD = 3,
  PYD_PLUGIN_SANITIZER_UNDEFINED = 4,
} pyd_plugin_sanitizer_t;

// What a plugin states of itself, with texts for people.
typedef struct pyd_plugin_header_s {
  uint32_t version;  // PYD_PLUGIN_VERSION
  const char* name;
  const char* description;
  uint32_t features;     // PYD_PLUGIN_FEATURE_*
  uint32_t sanitizer;    // pyd_plugin_sanitizer_t
  uint64_t reserved[8];  // 0
} pyd_plugin_header_t;

// The functions of a plugin, as its query symbol returns them.
typedef struct pyd_plugin_table_s {
  const pyd_plugin_header_t* header;
  // Creates an instance; a plugin may have several. A failed load is not followed by unload.
  pyd_plugin_status_t (*load)(const pyd_plugin_environment_t* environment, size_t param_count,
                              const pyd_plugin_param_t* params, void** out_self);
  // May be NULL. No function of the instance is called during it or afterwards.
  void (*unload)(void* self);
  // For each name that the plugin knows and whose element of |out_functions| is still NULL, sets that element, and the
  // element of |out_contexts| if the function needs a context. OK when nothing is missing, or only optional names (then
  // PYD_PLUGIN_MISSING_OPTIONAL in |*out_resolution|). NOT_FOUND when a required name is missing, after filling all
  // others. Called from any thread, also concurrently.
  pyd_plugin_status_t (*resolve)(void* self, const pyd_plugin_resolve_params_t* params,
                                 pyd_plugin_resolution_t* out_resolution);
} pyd_plugin_table_t;

// Returns the address of the table's first member, or NULL when |max_version| is older than the plugin. |reserved| is
// NULL.
typedef const pyd_plugin_header_t* const* (*pyd_plugin_query_fn_t)(uint32_t max_version, void* reserved);

// ---- helpers, in place of a C library

// Compares two strings as strcmp does.
static inline int pyd_plugin_strcmp(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return (int)*(const unsigned char*)a - (int)*(const unsigned char*)b;
}

static inline bool pyd_plugin_is_optional(const char* name) { return name && name[0] == '?'; }

// Returns whether |string|, which has a size, equals |text|, which is terminated.
static inline bool pyd_plugin_string_is(pyd_plugin_string_t string, const char* text) {
  size_t i = 0;
  while (i < string.size && text[i] && string.data[i] == text[i]) ++i;
  return i == string.size && !text[i];
}

// Returns the value of the first parameter called |key|, or {NULL, 0}.
static inline pyd_plugin_string_t pyd_plugin_param(size_t count, const pyd_plugin_param_t* params, const char* key) {
  pyd_plugin_string_t none = {0, 0};
  for (size_t i = 0; i < count; ++i) {
    if (pyd_plugin_string_is(params[i].key, key)) return params[i].value;
  }
  return none;
}

// Returns |size| bytes of zeroed memory of the host, or NULL.
static inline void* pyd_plugin_alloc(const pyd_plugin_allocator_t* allocator, size_t size) {
  pyd_plugin_alloc_params_t params = {size};
  void* memory = 0;
  return allocator->control(allocator->self, PYD_PLUGIN_CALLOC, &params, &memory) == PYD_PLUGIN_OK ? memory : 0;
}

// Releases memory of pyd_plugin_alloc; NULL is allowed.
static inline void pyd_plugin_free(const pyd_plugin_allocator_t* allocator, void* memory) {
  if (memory) allocator->control(allocator->self, PYD_PLUGIN_FREE, 0, &memory);
}

// ---- resolving from a table

// A function that a plugin supplies, by the name under which programs import it.
typedef struct pyd_plugin_entry_s {
  const char* name;  // without '?'
  pyd_plugin_fn_t function;
  void* context;
} pyd_plugin_entry_t;

// Fills the slots of |params| that are still NULL from a table of functions, as |resolve| of pyd_plugin_table_t has to.
static inline pyd_plugin_status_t pyd_plugin_resolve_from(const pyd_plugin_entry_t* entries, size_t entry_count,
                                                          const pyd_plugin_resolve_params_t* params,
                                                          pyd_plugin_resolution_t* out_resolution) {
  bool is_missing = false;
  *out_resolution = 0;
  for (size_t i = 0; i < params->count; ++i) {
    if (params->out_functions[i]) continue;  // another plugin has filled it
    bool is_optional = pyd_plugin_is_optional(params->names[i]);
    const char* name = params->names[i] + (is_optional ? 1 : 0);
    size_t j = 0;
    while (j < entry_count && pyd_plugin_strcmp(entries[j].name, name) != 0) ++j;
    if (j < entry_count) {
      params->out_contexts[i] = entries[j].context;
      union {  // ISO C has no conversion from function to object pointers
        pyd_plugin_fn_t function;
        void* address;
      } found = {entries[j].function};
      params->out_functions[i] = found.address;
    } else if (is_optional) {
      *out_resolution |= PYD_PLUGIN_MISSING_OPTIONAL;
    } else {
      is_missing = true;
    }
  }
  return is_missing ? PYD_PLUGIN_NOT_FOUND : PYD_PLUGIN_OK;
}

// ---- a complete plugin

// Entries of the table of PYD_PLUGIN: a function without a context, and one that is called with a context.
#define PYD_PLUGIN_FN(name, function) {name, function, 0}
#define PYD_PLUGIN_FN_CONTEXT(name, function, context) {name, function, context}

#if defined(PYD_PLUGIN_SYSTEM)  // set by `pydispatch plugin build --system`
#define PYD_PLUGIN_FEATURES_ 0u
#else
#define PYD_PLUGIN_FEATURES_ PYD_PLUGIN_FEATURE_STANDALONE
#endif

#if defined(__SANITIZE_ADDRESS__)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_ADDRESS
#elif __has_feature(memory_sanitizer)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_MEMORY
#elif __has_feature(thread_sanitizer)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_THREAD
#endif
#endif
#if !defined(PYD_PLUGIN_SANITIZER_)
#define PYD_PLUGIN_SANITIZER_ PYD_PLUGIN_SANITIZER_NONE
#endif

#if defined(__cplusplus)
#define PYD_PLUGIN_LINKAGE_ extern "C"
#else
#define PYD_PLUGIN_LINKAGE_
#endif

// Defines a statically linked plugin whose query function, by which it is registered, is |query|.
// PYD_PLUGIN_STATIC(my_plugin_query, "name", "description", PYD_PLUGIN_FN(...), ...)
#define PYD_PLUGIN_STATIC(query, plugin_name, plugin_description, ...)                                                \
  static const pyd_plugin_entry_t query##_entries[] = {__VA_ARGS__};                                                  \
  static pyd_plugin_status_t query##_load(const pyd_plugin_environment_t* environment, size_t param_count,            \
                                          const pyd_plugin_param_t* params, void** out_self) {                        \
    (void)environment, (void)param_count, (void)params;                                                               \
    *out_self = 0;                                                                                                    \
    return PYD_PLUGIN_OK;                                                                                             \
  }                                                                                                                   \
  static pyd_plugin_status_t query##_resolve(void* self, const pyd_plugin_resolve_params_t* params,                   \
                                             pyd_plugin_resolution_t* out_resolution) {                               \
    (void)self;                                                                                                       \
    return pyd_plugin_resolve_from(query##_entries, sizeof(query##_entries) / sizeof(query##_entries[0]), params,     \
                                   out_resolution);                                                                   \
  }                                                                                                                   \
  static const pyd_plugin_header_t query##_header = {PYD_PLUGIN_VERSION,   plugin_name,           plugin_description, \
                                                     PYD_PLUGIN_FEATURES_, PYD_PLUGIN_SANITIZER_, {0}};               \
  static const pyd_plugin_table_t query##_table = {&query##_header, query##_load, 0, query##_resolve};                \
  PYD_PLUGIN_LINKAGE_ const pyd_plugin_header_t* const* query(uint32_t max_version, void* reserved);                  \
  const pyd_plugin_header_t* const* query(uint32_t max_version, void* reserved) {                                     \
    (void)reserved;                                                                                                   \
    return max_version >= PYD_PLUGIN_VERSION ? &query##_table.header : 0;                                             \
  }

// Defines the plugin of a separately loaded file.
#define PYD_PLUGIN(plugin_name, plugin_description, ...)                                                    \
  PYD_PLUGIN_LINKAGE_ PYD_PLUGIN_EXPORT const pyd_plugin_header_t* const* iree_hal_executable_plugin_query( \
      uint32_t max_version, void* reserved);                                                                \
  PYD_PLUGIN_STATIC(iree_hal_executable_plugin_query, plugin_name, plugin_description, __VA_ARGS__)

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(pyd_plugin_status_t) == sizeof(void*), "status");
_Static_assert(sizeof(pyd_plugin_string_t) == 16, "string");
_Static_assert(sizeof(pyd_plugin_param_t) == 32 && offsetof(pyd_plugin_param_t, value) == 16, "parameter");
_Static_assert(sizeof(pyd_plugin_environment_t) == 16, "environment");
_Static_assert(offsetof(pyd_plugin_allocator_t, control) == 8, "allocator");
_Static_assert(sizeof(pyd_plugin_alloc_command_t) == 4, "allocator command");
_Static_assert(sizeof(pyd_plugin_resolve_params_t) == 32, "resolve parameters");
_Static_assert(offsetof(pyd_plugin_resolve_params_t, names) == 8, "resolve parameters");
_Static_assert(offsetof(pyd_plugin_resolve_params_t, out_functions) == 16, "resolve parameters");
_Static_assert(offsetof(pyd_plugin_resolve_params_t, out_contexts) == 24, "resolve parameters");
_Static_assert(sizeof(pyd_plugin_header_t) == 96, "header");
_Static_assert(offsetof(pyd_plugin_header_t, name) == 8, "header");
_Static_assert(offsetof(pyd_plugin_header_t, description) == 16, "header");
_Static_assert(offsetof(pyd_plugin_header_t, features) == 24, "header");
_Static_assert(offsetof(pyd_plugin_header_t, sanitizer) == 28, "header");
_Static_assert(offsetof(pyd_plugin_header_t, reserved) == 32, "header");
_Static_assert(sizeof(pyd_plugin_table_t) == 32 && offsetof(pyd_plugin_table_t, load) == 8, "table");
_Static_assert(offsetof(pyd_plugin_table_t, unload) == 16 && offsetof(pyd_plugin_table_t, resolve) == 24, "table");
#endif

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PLUGIN_H_
