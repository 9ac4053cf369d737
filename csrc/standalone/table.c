// The slots of api.h that need Python elsewhere.
#include "pydispatch/standalone.h"

#include <stdlib.h>
#include <string.h>

#include "standalone/standalone.h"

static const uint64_t kRetainBytes = UINT64_C(256) << 20;

typedef struct threads_s {
  pyd_sched_t* sched;
  pyd_pool_t* pool;
} threads_t;

static void drop_threads(void* self) {
  threads_t* t = self;
  pyd_sched_destroy(t->sched);
  if (t->pool) pyd_pool_destroy(t->pool);
  free(t);
}

static pyd_status_t make_device(const pyd_sched_options_t* options, pyd_api_device_t** out_device) {
  threads_t* t = calloc(1, sizeof(*t));
  if (!t) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a device");
  pyd_status_t status = pyd_pool_create(kRetainBytes, &t->pool);
  if (pyd_ok(status)) status = pyd_sched_create(options, &t->sched);
  if (pyd_ok(status)) status = pyd_api_device_make(t->sched, t->pool, (pyd_api_owner_t){t, drop_threads}, out_device);
  if (!pyd_ok(status)) drop_threads(t);
  return status;
}

// ---- slots

// "cpu", "cpu?workers=N", "local-sync".
static bool read_name(const char* name, uint32_t* out_workers) {
  static const char kCount[] = "cpu?workers=";
  *out_workers = strcmp(name, "local-sync") == 0;
  if (*out_workers || strcmp(name, "cpu") == 0) return true;
  if (strncmp(name, kCount, sizeof(kCount) - 1) != 0) return false;
  const char* digit = name + sizeof(kCount) - 1;
  for (; *digit >= '0' && *digit <= '9' && *out_workers < 100000; ++digit) *out_workers = *out_workers * 10 + (uint32_t)(*digit - '0');
  return !*digit && *out_workers;  // the scheduler has the limit
}

static pyd_status_t device_open(const char* name, pyd_api_device_t** out_device) {
  pyd_sched_options_t options = {.spin_us = -1};
  if (!out_device) return pyd_api_null("device_open", "out_device");
  *out_device = NULL;
  if (!name) return pyd_api_null("device_open", "name");
  if (read_name(name, &options.workers)) return make_device(&options, out_device);
  return pyd_status_make(PYD_CODE_UNAVAILABLE, "device_open: there is no device '%s'; without Python there are 'cpu', 'local-sync' and "
                         "'cpu?workers=N'", name);
}

static pyd_status_t device_create(const pyd_api_device_options_t* given, pyd_api_device_t** out_device) {
  pyd_sched_options_t options;
  if (!out_device) return pyd_api_null("device_create", "out_device");
  *out_device = NULL;
  pyd_status_t status = pyd_api_read_device_options(given, &options);
  return pyd_ok(status) ? make_device(&options, out_device) : status;
}

static pyd_status_t check(const char* function, const pyd_api_device_t* device, const void* source, pyd_api_program_t** out_program) {
  if (!out_program) return pyd_api_null(function, "out_program");
  *out_program = NULL;
  if (!device) return pyd_api_null(function, "device");
  return source ? PYD_STATUS_OK : pyd_api_null(function, "path or data");
}

static pyd_status_t program_load_file(pyd_api_device_t* device, const char* path, pyd_api_program_t** out_program) {
  pyd_standalone_source_t source = {.copy = NULL};
  pyd_status_t status = check("program_load_file", device, path, out_program);
  if (pyd_ok(status)) status = pyd_file_map(path, &source.map);
  if (!pyd_ok(status)) return status;
  source.file = source.map.span;
  status = pyd_standalone_load(device, source, out_program);
  return pyd_status_annotate(status, "%s: %s", path, pyd_status_text(status));
}

static pyd_status_t program_load_bytes(pyd_api_device_t* device, const void* data, size_t size, pyd_api_program_t** out_program) {
  pyd_standalone_source_t source = {.copy = NULL};
  pyd_status_t status = check("program_load_bytes", device, data, out_program);
  if (pyd_ok(status)) status = pyd_pool_acquire(device->pool, size, &source.copy);
  if (!pyd_ok(status)) return status;
  if (size) memcpy(source.copy, data, size);
  source.file = (pyd_span_t){source.copy, size};
  return pyd_standalone_load(device, source, out_program);
}

void pyd_standalone_fill(pyd_api_t* out_table) {
  pyd_api_fill(out_table);
  out_table->device_open = device_open;
  out_table->device_create = device_create;
  out_table->program_load_file = program_load_file;
  out_table->program_load_bytes = program_load_bytes;
}
