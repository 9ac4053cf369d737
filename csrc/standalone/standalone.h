// Devices and programs without Python objects.
#ifndef PYD_STANDALONE_STANDALONE_H_
#define PYD_STANDALONE_STANDALONE_H_

#include "api/memory.h"
#include "pydispatch/artifact.h"
#include "pydispatch/plugin_host.h"
#include "standalone/choose.h"

// A device and the objects that it owns.
typedef struct pyd_standalone_device_s {
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_allocator_t allocator;  // of the pool, and of this structure
  pyd_plugin_manager_t* manager;
} pyd_standalone_device_t;

// Returns the objects behind the handle |device|, which table.c has created and which owns them.
static inline pyd_standalone_device_t* pyd_standalone_device(const pyd_api_device_t* device) {
  return (pyd_standalone_device_t*)pyd_api_device_owner(device);
}

// providers.c: the slots that register imports, host commands and plugins.
pyd_status_t pyd_standalone_add_import(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function,
                                       void* context, int32_t priority, void (*release)(void* owner), void* owner,
                                       uint64_t* out_id);
pyd_status_t pyd_standalone_add_command(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function,
                                        void* context, int32_t priority, void (*release)(void* owner), void* owner,
                                        uint64_t* out_id);
pyd_status_t pyd_standalone_add_plugin(pyd_api_device_t* device, const char* name, pyd_plugin_query_fn_t query,
                                       int32_t priority, uint64_t* out_id);
pyd_status_t pyd_standalone_remove_provider(pyd_api_device_t* device, uint64_t id);
// Finds and links the host commands of a program. MISSING_IMPORT names those that nothing provides.
pyd_status_t pyd_standalone_link_commands(pyd_program_t* program, const pyd_resolver_t* resolver);

// choose.c: queries of programs about |machine|. |out_found|: whether the answer is known. UNSUPPORTED.
pyd_status_t pyd_standalone_answer(const pyd_program_query_t* query, const pyd_standalone_machine_t* machine,
                                   uint32_t workers, bool* out_found, uint64_t* out_value);

// load.c: the bytes of an artifact, in a mapped file or in memory. pyd_standalone_load() owns them: it frees or unmaps
// them with the program, and after a failure.
typedef struct pyd_standalone_source_s {
  pyd_span_t file;     // all bytes, in |map| or in |copy|
  pyd_file_map_t map;  // the mapping of the file; zero without a file
  void* copy;          // a block of the device's pool, 64-byte aligned; NULL with a file
} pyd_standalone_source_t;
pyd_status_t pyd_standalone_load(pyd_api_device_t* device, pyd_standalone_source_t source,
                                 const pyd_api_load_t* options, pyd_api_program_t** out_program);

// parameters.c: the parameters of a program, held until they are freed. INVALID_ARGUMENT names the parameter that is
// missing or does not fit.
typedef struct pyd_standalone_parameters_s pyd_standalone_parameters_t;
pyd_status_t pyd_standalone_parameters_open(const pyd_program_t* program, pyd_api_device_t* device,
                                            const pyd_api_load_t* options,
                                            pyd_standalone_parameters_t** out_parameters);
const pyd_api_memory_t* pyd_standalone_parameter(const pyd_standalone_parameters_t* parameters, uint32_t index);
// Returns whether |bytes| are in the mapping of a file of |parameters|.
bool pyd_standalone_is_mapped(const pyd_standalone_parameters_t* parameters, pyd_span_t bytes);
void pyd_standalone_parameters_free(pyd_standalone_parameters_t* parameters);

#endif  // PYD_STANDALONE_STANDALONE_H_
