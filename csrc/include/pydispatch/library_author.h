// For authors of whole kernels, C functions that compute a workgroup of a dispatch: turns functions of (environment,
// dispatch, workgroup) into an executable library. Compile with pydispatch.get_include() on the include path (set for
// objects of a program) and pass the result as the only object of a variant without a module, or to
// device.add_executable at run time:
//
//   #include "pydispatch/library_author.h"
//
//   static int32_t mul(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
//                      const pyd_workgroup_state_t* workgroup) {
//     const float* a = pyd_binding(dispatch, 0);
//     ...
//     return 0;
//   }
//
//   #define EXPORTS(X) X(mul, 3, 1, 0) X(add, 3, 1, 0)
//   PYD_LIBRARY("my kernels", EXPORTS)
//
// X(function, bindings, constants, local_memory) in the order of the exports' ordinals: the numbers of bindings and of
// 32-bit constants, and the bytes of workgroup memory that the function needs.
#ifndef PYDISPATCH_LIBRARY_AUTHOR_H_
#define PYDISPATCH_LIBRARY_AUTHOR_H_

#include "pydispatch/library.h"

#ifdef __cplusplus
#define PYD_LIBRARY_LINKAGE_ extern "C"
#else
#define PYD_LIBRARY_LINKAGE_
#endif
#if defined(_WIN32)
#define PYD_LIBRARY_EXPORT_ PYD_LIBRARY_LINKAGE_ __declspec(dllexport)
#else
#define PYD_LIBRARY_EXPORT_ PYD_LIBRARY_LINKAGE_ __attribute__((visibility("default")))
#endif

// Returns the address of a binding, a buffer of the dispatch.
static inline void* pyd_binding(const pyd_dispatch_state_t* dispatch, size_t ordinal) {
  return dispatch->binding_ptrs[ordinal];
}
// Returns the bytes of a binding.
static inline size_t pyd_binding_length(const pyd_dispatch_state_t* dispatch, size_t ordinal) {
  return dispatch->binding_lengths[ordinal];
}
// Returns a 32-bit constant of the dispatch.
static inline uint32_t pyd_constant(const pyd_dispatch_state_t* dispatch, size_t ordinal) {
  return dispatch->constants[ordinal];
}
// Returns a 64-bit constant, which occupies the words |ordinal| (low) and |ordinal| + 1.
static inline uint64_t pyd_constant64(const pyd_dispatch_state_t* dispatch, size_t ordinal) {
  return dispatch->constants[ordinal] | (uint64_t)dispatch->constants[ordinal + 1] << 32;
}

// Calls import |ordinal| with |params|, a structure of results, arguments and extra fields (hal.import.fields, see
// docs/plugins.md); `program.imports` prints its members. Returns the code of the import, 0 for success;
// PYD_LIBRARY_CODE_MISSING_IMPORT when it is optional and missing.
static inline int32_t pyd_call_import(const pyd_environment_t* environment, size_t ordinal, void* params) {
  pyd_import_fn_t function = environment->import_funcs[ordinal];
  if (!function) return PYD_LIBRARY_CODE_MISSING_IMPORT;
  return environment->import_thunk(function, params, environment->import_contexts[ordinal], NULL);
}

// What PYD_LIBRARY_TABLES_ expands an export to in each table. Zeros of the attributes: flags, a size of the workgroup
// that is chosen at run time, no named parameters.
#define PYD_LIBRARY_PTR_(function, bindings, constants, local_memory) function,
#define PYD_LIBRARY_NAME_(function, bindings, constants, local_memory) #function,
#define PYD_LIBRARY_ATTRS_(function, bindings, constants, local_memory)  \
  {0,                                                                    \
   ((local_memory) + PYD_LIBRARY_PAGE_SIZE - 1) / PYD_LIBRARY_PAGE_SIZE, \
   (constants),                                                          \
   (bindings),                                                           \
   0,                                                                    \
   0,                                                                    \
   0,                                                                    \
   0,                                                                    \
   {0, 0, 0, 0, 0}},
#define PYD_LIBRARY_SYMBOL_(symbol) symbol,

// |imports|: a macro like |exports| that applies X to strings, with a leading '?' for optional imports.
#define PYD_LIBRARY_WITH_IMPORTS(library_name, exports, imports)                                    \
  static const char* const pyd_library_import_names_[] = {imports(PYD_LIBRARY_SYMBOL_) NULL};       \
  PYD_LIBRARY_TABLES_(library_name, exports, sizeof(pyd_library_import_names_) / sizeof(char*) - 1, \
                      pyd_library_import_names_)

// Defines a library without imports. |exports|: a macro that applies its parameter X to each kernel.
#define PYD_LIBRARY(library_name, exports) PYD_LIBRARY_TABLES_(library_name, exports, 0, NULL)

// Defines the tables, and the query function under the name by which hosts look it up. Exports have no tables of
// parameters, occupancy, tags and locations.
#define PYD_LIBRARY_TABLES_(library_name, exports, import_count, import_names)                                      \
  static const pyd_dispatch_fn_t pyd_library_ptrs_[] = {exports(PYD_LIBRARY_PTR_)};                                 \
  static const pyd_library_export_attrs_t pyd_library_attrs_[] = {exports(PYD_LIBRARY_ATTRS_)};                     \
  static const char* const pyd_library_names_[] = {exports(PYD_LIBRARY_NAME_)};                                     \
  static const pyd_library_header_t pyd_library_header_ = {PYD_LIBRARY_VERSION, library_name, 0,                    \
                                                           PYD_LIBRARY_SANITIZER_NONE};                             \
  static const pyd_library_t pyd_library_ = {                                                                       \
      &pyd_library_header_,                                                                                         \
      {(uint32_t)(import_count), import_names},                                                                     \
      {sizeof(pyd_library_ptrs_) / sizeof(pyd_library_ptrs_[0]), pyd_library_ptrs_, pyd_library_attrs_, NULL, NULL, \
       pyd_library_names_, NULL, NULL, NULL, NULL},                                                                 \
      {0},                                                                                                          \
      {0, NULL}};                                                                                                   \
  PYD_LIBRARY_EXPORT_ const pyd_library_header_t* const* iree_hal_executable_library_query(                         \
      uint32_t max_version, const pyd_environment_t* environment);                                                  \
  const pyd_library_header_t* const* iree_hal_executable_library_query(uint32_t max_version,                        \
                                                                       const pyd_environment_t* environment) {      \
    (void)environment;                                                                                              \
    return max_version >= PYD_LIBRARY_VERSION ? &pyd_library_.header : NULL;                                        \
  }

#endif  // PYDISPATCH_LIBRARY_AUTHOR_H_
