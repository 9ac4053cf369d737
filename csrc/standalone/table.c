// The functions of api.h that are implemented by Python objects in the Python package.
#include "pydispatch/standalone.h"

#include <string.h>

#include "pydispatch/process.h"
#include "standalone/standalone.h"

// Free memory that the pool of a device keeps for later calls. Larger: fewer allocations; smaller: less idle memory.
static const uint64_t kRetainBytes = UINT64_C(256) << 20;

// Frees a device in any stage of its creation. |self|: a pyd_standalone_device_t.
static void drop_device(void* self) {
  pyd_standalone_device_t* t = self;
  pyd_sched_destroy(t->sched);
  pyd_plugin_manager_release(t->manager);
  if (t->pool) pyd_pool_destroy(t->pool);
  const pyd_allocator_t allocator = t->allocator;  // a copy, as it frees the memory that it is stored in
  pyd_deallocate(&allocator, t, sizeof(*t));
}

// Creates a device. Its threads share the compute permits of the process. |allocator|: NULL for the C library.
static pyd_status_t make_device(const pyd_sched_options_t* threads, const pyd_allocator_t* allocator,
                                pyd_api_device_t** out_device) {
  pyd_sched_options_t options = *threads;
  options.scopes = (pyd_scope_access_t){pyd_process_scope_get, pyd_process_scope_set};
  options.permits = pyd_process_permits();
  pyd_standalone_device_t* t = pyd_allocate_zeroed(allocator, sizeof(*t));
  if (!t) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a device");
  if (allocator) t->allocator = *allocator;
  pyd_status_t status = pyd_pool_create_with(kRetainBytes, allocator, &t->pool);
  if (pyd_ok(status)) status = pyd_sched_create(&options, &t->sched);
  if (pyd_ok(status)) status = pyd_plugin_manager_create(&t->manager);
  if (pyd_ok(status)) status = pyd_api_device_make(t->sched, t->pool, (pyd_api_owner_t){t, drop_device}, out_device);
  if (!pyd_ok(status)) drop_device(t);
  return status;
}

// ---- slots

// Parses the name of a device: "cpu" has the default number of workers (|*out_workers| is 0), "cpu?workers=N" has N,
// and "local-sync" has 1. Returns false for other names.
static bool read_name(const char* name, uint32_t* out_workers) {
  static const char kCount[] = "cpu?workers=";
  *out_workers = strcmp(name, "local-sync") == 0;  // 1 for this name, 0 for all others
  if (*out_workers || strcmp(name, "cpu") == 0) return true;
  if (strncmp(name, kCount, sizeof(kCount) - 1) != 0) return false;
  const char* digit = name + sizeof(kCount) - 1;
  const uint32_t bound = 100000;  // above the scheduler's limit, which refuses the number, and far from an overflow
  for (; *digit >= '0' && *digit <= '9' && *out_workers < bound; ++digit)
    *out_workers = *out_workers * 10 + (uint32_t)(*digit - '0');
  return !*digit && *out_workers;
}

// Opens a device by its name; the slot |device_open| of the table.
static pyd_status_t device_open(const char* name, pyd_api_device_t** out_device) {
  pyd_sched_options_t options = {.spin_us = -1};  // adaptive; read_name() sets the number of workers
  if (!out_device) return pyd_api_null("device_open", "out_device");
  *out_device = NULL;
  if (!name) return pyd_api_null("device_open", "name");
  if (read_name(name, &options.workers)) return make_device(&options, NULL, out_device);
  return pyd_status_make(PYD_CODE_UNAVAILABLE,
                         "device_open: there is no device '%s'; without Python there are 'cpu', 'local-sync' and "
                         "'cpu?workers=N'",
                         name);
}

// Creates a CPU device with options; the slot |device_create| of the table.
static pyd_status_t device_create(const pyd_api_device_options_t* options, pyd_api_device_t** out_device) {
  pyd_sched_options_t threads;
  pyd_allocator_t allocator;
  if (!out_device) return pyd_api_null("device_create", "out_device");
  *out_device = NULL;
  pyd_status_t status = pyd_api_read_device_options(options, &threads, &allocator);
  return pyd_ok(status) ? make_device(&threads, &allocator, out_device) : status;
}

// Loads a program from a file, which is mapped, or from bytes, which are copied. |function|: the slot that was called,
// for messages.
static pyd_status_t load(const char* function, pyd_api_device_t* device, const pyd_api_load_t* options,
                         pyd_api_program_t** out_program) {
  pyd_standalone_source_t source = {.copy = NULL};
  if (!out_program) return pyd_api_null(function, "out_program");
  *out_program = NULL;
  if (!device) return pyd_api_null(function, "device");
  pyd_status_t status = pyd_api_check_load(function, options);
  if (pyd_ok(status))
    status = options->path ? pyd_file_map(options->path, &source.map)
                           : pyd_pool_acquire(device->pool, options->size, &source.copy);
  if (!pyd_ok(status)) return status;
  source.file = options->path ? source.map.span : (pyd_span_t){source.copy, options->size};
  if (source.copy && options->size) memcpy(source.copy, options->data, options->size);
  status = pyd_standalone_load(device, source, options, out_program);
  return options->path ? pyd_status_annotate(status, "%s: %s", options->path, pyd_status_text(status)) : status;
}

// Loads a program from a file; the slot |program_load_file| of the table.
static pyd_status_t program_load_file(pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program) {
  const pyd_api_load_t options = {.struct_size = sizeof(options), .path = path};
  return load("program_load_file", device, &options, out_program);
}

static pyd_status_t program_load_bytes(pyd_api_device_t* device, const void* data, size_t size,
                                       pyd_api_program_t** out_program) {
  const pyd_api_load_t options = {.struct_size = sizeof(options), .data = data, .size = size};
  return load("program_load_bytes", device, &options, out_program);
}

static pyd_status_t program_load(pyd_api_device_t* device, const pyd_api_load_t* options,
                                 pyd_api_program_t** out_program) {
  return load("program_load", device, options, out_program);
}

// Fills |out_table| with the functions that work without Python: as many whole members as fit into |size| bytes, the
// size of the caller's version of the table.
void pyd_standalone_fill_sized(pyd_api_t* out_table, size_t size) {
  pyd_api_t table;
  pyd_api_fill(&table);
  table.device_open = device_open;
  table.device_create = device_create;
  table.program_load_file = program_load_file;
  table.program_load_bytes = program_load_bytes;
  table.program_load = program_load;
  table.device_add_import = pyd_standalone_add_import;
  table.device_add_command = pyd_standalone_add_command;
  table.device_add_plugin = pyd_standalone_add_plugin;
  table.device_remove_provider = pyd_standalone_remove_provider;
  const size_t head = offsetof(pyd_api_t, status_code);  // bytes before the first function pointer
  if (!out_table || size < head) return;
  if (size > sizeof(table)) size = sizeof(table);
  table.size = (uint32_t)(head + (size - head) / sizeof(void*) * sizeof(void*));
  memcpy(out_table, &table, table.size);
}

// Fills the table of a program that was built when pyd_standalone_fill() had no size: up to call_run_timed, the last
// member of the oldest version of the table.
#undef pyd_standalone_fill
#if defined(PYD_BUILD_LIBRARY)
__attribute__((visibility("default")))
#endif
void pyd_standalone_fill(pyd_api_t* out_table);
void pyd_standalone_fill(pyd_api_t* out_table) {
  pyd_standalone_fill_sized(out_table, offsetof(pyd_api_t, memory_import));  // it follows call_run_timed
}
