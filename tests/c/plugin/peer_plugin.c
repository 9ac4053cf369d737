// A plugin as the other system's documents describe it, with the binary interface written down here a second time:
// nothing of pydispatch/plugin.h, so that the two cannot be wrong together. -DSYSTEM: with the C library.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void* status_t;  // a code in the low 5 bits
typedef struct {
  const char* data;
  size_t size;
} view_t;
typedef struct {
  view_t first, second;
} pair_t;
typedef struct {
  void* self;
  status_t (*ctl)(void* self, int command, const void* params, void** inout);
} allocator_t;
typedef struct {
  allocator_t host_allocator;
} environment_t;
typedef struct {
  uint32_t version;
  const char *name, *description;
  uint32_t features, sanitizer;
  uint64_t reserved[8];
} header_t;
typedef struct {
  size_t count;
  const char* const* names;
  void** functions;
  void** contexts;
} resolve_t;
typedef struct {
  const header_t* header;
  status_t (*load)(const environment_t*, size_t, const pair_t*, void**);
  void (*unload)(void*);
  status_t (*resolve)(void*, const resolve_t*, uint32_t*);
} plugin_t;

typedef struct {
  allocator_t allocator;
  float scale;
} instance_t;

#ifdef SYSTEM
#include <stdio.h>
#include <string.h>
#define compare strcmp
#else
static int compare(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a - *b;
}
#endif

typedef struct {
  const float* lhs;
  size_t lhs_offset;
  const float* rhs;
  size_t rhs_offset;
  float* out;
  size_t out_offset;
  size_t size, tid;
  uint32_t processor_id;
  const uint64_t* processor_data;
} params_t;

static int simple_mul_workgroup(void* params_ptr, void* context, void* reserved) {
  const params_t* p = params_ptr;
  const instance_t* instance = context;
  if (reserved) return 1;
#ifdef SYSTEM
  if (instance->scale == 5) fprintf(stdout, "processor_id=%u\n", p->processor_id);
#endif
  size_t end = p->size < p->tid + 64 ? p->size : p->tid + 64;
  for (size_t i = p->tid; i < end; ++i) {
    p->out[p->out_offset + i] = p->lhs[p->lhs_offset + i] * p->rhs[p->rhs_offset + i] * instance->scale;
  }
  return 0;
}

static status_t load(const environment_t* environment, size_t count, const pair_t* pairs, void** out_self) {
  struct {
    size_t byte_length;
  } size = {sizeof(instance_t)};
  void* memory = NULL;
  *out_self = NULL;
  status_t status = environment->host_allocator.ctl(environment->host_allocator.self, 0, &size, &memory);
  if (status) return status;
  instance_t* instance = memory;
  instance->allocator = environment->host_allocator;
  instance->scale = 1;
  for (size_t i = 0; i < count; ++i) {
    if (pairs[i].first.size == 5 && pairs[i].second.size == 1) instance->scale = (float)(pairs[i].second.data[0] - '0');
  }
  if (instance->scale == 0) {  // an instance that will not do
    instance->allocator.ctl(instance->allocator.self, 3, NULL, &memory);
    return (status_t)(uintptr_t)3;
  }
  *out_self = instance;
  return NULL;
}

static void unload(void* self) {
  allocator_t allocator = ((instance_t*)self)->allocator;
  allocator.ctl(allocator.self, 3, NULL, &self);
}

static status_t resolve(void* self, const resolve_t* params, uint32_t* out_resolution) {
  bool missing = false;
  *out_resolution = 0;
  for (size_t i = 0; i < params->count; ++i) {
    if (params->functions[i]) continue;
    const char* name = params->names[i];
    bool optional = name[0] == '?';
    if (compare(name + optional, "simple_mul_workgroup") == 0) {
      params->contexts[i] = self;
      params->functions[i] = (void*)simple_mul_workgroup;
    } else if (optional) {
      *out_resolution |= 1;
    } else {
      missing = true;
    }
  }
  return (status_t)(uintptr_t)(missing ? 5 : 0);
}

__attribute__((visibility("default"))) const header_t** iree_hal_executable_plugin_query(uint32_t max_version,
                                                                                         void* reserved) {
#ifndef NAME
#define NAME "peer_sample"
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef SANITIZER
#define SANITIZER 0
#endif
#ifndef RESOLVE
#define RESOLVE resolve
#endif
#ifndef FEATURES
#ifdef SYSTEM
#define FEATURES 0
#else
#define FEATURES 1
#endif
#endif
  static const header_t header = {VERSION, NAME, "a plugin by the document", FEATURES, SANITIZER, {0}};
  static const plugin_t plugin = {&header, load, unload, RESOLVE};
  return max_version <= 1 && !reserved ? (const header_t**)&plugin : NULL;
}
