// The binary interface of an executable library: what the query symbol of an embedded ELF returns, and the parameters
// of a kernel. Layout compatible with IREE's executable library 0.6, so that files work in both systems. Has no
// dependencies.
#ifndef PYDISPATCH_LIBRARY_H_
#define PYDISPATCH_LIBRARY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PYD_LIBRARY_QUERY_SYMBOL "iree_hal_executable_library_query"
#define PYD_LIBRARY_VERSION 6u       // 0.6
#define PYD_LIBRARY_PAGE_SIZE 4096u  // unit of local_memory_pages
#define PYD_LIBRARY_MAX_CONSTANTS 64u
#define PYD_LIBRARY_MAX_BINDINGS 64u

// The sanitizer that a library was compiled with.
typedef enum pyd_library_sanitizer_e {
  PYD_LIBRARY_SANITIZER_NONE = 0,
  PYD_LIBRARY_SANITIZER_ADDRESS = 1,
  PYD_LIBRARY_SANITIZER_MEMORY = 2,
  PYD_LIBRARY_SANITIZER_THREAD = 3,
  PYD_LIBRARY_SANITIZER_UNDEFINED = 4,
} pyd_library_sanitizer_t;

// Version and build of a library; in every version the first member of the library points to it.
typedef struct pyd_library_header_s {
  uint32_t version;    // minor version: 6 for 0.6
  const char* name;    // for people
  uint32_t features;   // not read
  uint32_t sanitizer;  // pyd_library_sanitizer_t
} pyd_library_header_t;

// A function that kernels import, and the function of the host through which they call it. Returns 0, or a failure.
typedef int32_t (*pyd_import_fn_t)(void* params, void* context, void* reserved);
typedef int32_t (*pyd_import_thunk_fn_t)(pyd_import_fn_t import, void* params, void* context, void* reserved);

// The CPU that runs a kernel.
#define PYD_PROCESSOR_DATA_WORDS 8
typedef struct pyd_processor_s {
  uint64_t data[PYD_PROCESSOR_DATA_WORDS];  // word 0: the feature bits of docs/abi.md, the rest zero
} pyd_processor_t;

// What the host provides to the kernels of a loaded executable. All dispatches of the executable share it. 16-byte
// aligned.
typedef struct pyd_environment_s {
  const uint32_t* constants;            // executable constants, set when the executable is loaded; NULL: none
  pyd_import_thunk_fn_t import_thunk;   // through which kernels call imports; NULL without imports
  const pyd_import_fn_t* import_funcs;  // by import, in the order of the library; NULL: an optional one is missing
  void* const* import_contexts;         // by import: |context| for its function
  pyd_processor_t processor;
} pyd_environment_t;

// Arguments of a dispatch for its kernel: sizes, constants and bindings. All workgroups of the dispatch get the same
// one. 16-byte aligned.
typedef struct pyd_dispatch_state_s {
  uint32_t workgroup_size_x;
  uint32_t workgroup_size_y;
  uint16_t workgroup_size_z;
  uint16_t constant_count;
  uint32_t workgroup_count_x;
  uint32_t workgroup_count_y;
  uint16_t workgroup_count_z;
  uint8_t max_concurrency;  // workers that may run workgroups at the same time; 255 for more
  uint8_t binding_count;
  const uint32_t* constants;  // push constants of the dispatch
  void* const* binding_ptrs;
  const size_t* binding_lengths;  // bytes
} pyd_dispatch_state_t;

// Arguments of a workgroup for its kernel: its position in the grid, and its local memory. 16-byte aligned.
typedef struct pyd_workgroup_state_s {
  uint32_t workgroup_id_x;
  uint32_t workgroup_id_y;
  uint16_t workgroup_id_z;
  uint16_t reserved;
  uint32_t processor_id;       // index of the worker that runs the workgroup, from 0
  void* local_memory;          // of the worker, not cleared between workgroups; NULL when the kernel needs none
  uint32_t local_memory_size;  // bytes
} pyd_workgroup_state_t;

// Codes returned by generated kernels; every other code comes from a user's function.
#define PYD_LIBRARY_CODE_MISSING_IMPORT 0x50594405    // a missing optional import was called
#define PYD_LIBRARY_CODE_FAILED_ASSERTION 0x50594409  // a cf.assert failed

// Returns 0, or anything else for a fatal error. All three pointers are 16-byte aligned and do not alias.
typedef int32_t (*pyd_dispatch_fn_t)(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                                     const pyd_workgroup_state_t* workgroup);

// Names of the functions that a library imports.
typedef struct pyd_library_imports_s {
  uint32_t count;
  const char* const* symbols;  // a leading '?' marks an optional import; in any order
} pyd_library_imports_t;

// Requirements of a kernel: how many constants and bindings a dispatch passes to it, and the sizes of its workgroups.
// |local_memory_pages|: memory of each workgroup, in PYD_LIBRARY_PAGE_SIZE bytes. This runtime does not read |flags|
// and |parameter_count|.
typedef struct pyd_library_export_attrs_s {
  uint64_t flags;
  uint16_t local_memory_pages;
  uint8_t constant_count;  // 32-bit words
  uint8_t binding_count;
  uint32_t workgroup_size_x;  // 0: chosen at run time
  uint32_t workgroup_size_y;
  uint16_t workgroup_size_z;
  uint16_t parameter_count;
  uint64_t reserved[5];
} pyd_library_export_attrs_t;

// Where the source of a kernel is; |path| is not terminated.
typedef struct pyd_library_source_location_s {
  uint32_t line;
  uint32_t path_length;
  const char* path;
} pyd_library_source_location_t;

// The kernels of a library: arrays of |count| entries by ordinal. All but |ptrs|, |attrs| and |names| may be NULL. This
// runtime does not use |params|, |occupancy|, |tags|, |parameter_names| and |stage_locations|.
typedef struct pyd_library_exports_s {
  uint32_t count;
  const pyd_dispatch_fn_t* ptrs;
  const pyd_library_export_attrs_t* attrs;
  const void* const* params;
  const void* occupancy;
  const char* const* names;
  const char* const* tags;
  const char* const* parameter_names;
  const pyd_library_source_location_t* source_locations;
  const void* stage_locations;
} pyd_library_exports_t;

// A library, as the query symbol returns it. |constants|: number of words that |constants| of the environment has, or
// 0 if the library does not state it. |sources|: source files that are embedded in the library; not used.
typedef struct pyd_library_s {
  const pyd_library_header_t* header;
  pyd_library_imports_t imports;
  pyd_library_exports_t exports;
  struct {
    uint32_t count;
  } constants;
  struct {
    uint32_t count;
    const void* files;
  } sources;
} pyd_library_t;

// The query symbol. Returns NULL when the library does not support |max_version|.
typedef const pyd_library_header_t* const* (*pyd_library_query_fn_t)(uint32_t max_version,
                                                                     const pyd_environment_t* environment);

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(pyd_library_header_t) == 24, "header");
_Static_assert(sizeof(pyd_environment_t) == 96, "environment");
_Static_assert(sizeof(pyd_dispatch_state_t) == 48, "dispatch state");
_Static_assert(offsetof(pyd_dispatch_state_t, constants) == 24, "dispatch state");
_Static_assert(sizeof(pyd_workgroup_state_t) == 32, "workgroup state");
_Static_assert(sizeof(pyd_library_export_attrs_t) == 64, "export attributes");
_Static_assert(offsetof(pyd_library_t, exports) == 24, "exports");
_Static_assert(offsetof(pyd_library_t, constants) == 104, "constants");
_Static_assert(sizeof(pyd_library_t) == 128, "library");
#endif

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_LIBRARY_H_
