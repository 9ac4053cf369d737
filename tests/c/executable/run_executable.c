// Loads an executable library from an ELF file as the runtime does and runs each export once over three buffers of
// eight floats, the first 2, the second 4: the last one is printed. An import named "known" is provided; nothing else
// is.
//
//   run_executable FILE NAME
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/artifact.h"
#include "pydispatch/executable.h"

static int32_t known(void* params, void* context, void* reserved) {
  (void)reserved;
  float* value = *(float**)params;
  *value *= *(float*)context;
  return 0;
}

static float factor = 12;

static pyd_status_t provide(void* self, uint32_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  (void)self;
  for (uint32_t i = 0; i < count; ++i) {
    if (functions[i] || strcmp(names[i], "known") != 0) continue;
    functions[i] = known;
    contexts[i] = &factor;
  }
  return PYD_STATUS_OK;
}

static int32_t run_export(const pyd_executable_t* executable, uint32_t index, float* buffers) {
  const pyd_library_export_attrs_t* attrs = &pyd_executable_library(executable)->exports.attrs[index];
  uint32_t constants[PYD_LIBRARY_MAX_CONSTANTS] = {8};
  void* pointers[3] = {buffers, buffers + 16, buffers + 32};
  size_t lengths[3] = {32, 32, 32};
  _Alignas(16) pyd_dispatch_state_t dispatch = {.workgroup_size_x = 1,
                                                .workgroup_size_y = 1,
                                                .workgroup_size_z = 1,
                                                .constant_count = attrs->constant_count,
                                                .workgroup_count_x = 1,
                                                .workgroup_count_y = 1,
                                                .workgroup_count_z = 1,
                                                .max_concurrency = 1,
                                                .binding_count = attrs->binding_count,
                                                .constants = constants,
                                                .binding_ptrs = pointers,
                                                .binding_lengths = lengths};
  _Alignas(16) pyd_workgroup_state_t workgroup = {0};
  return pyd_executable_library(executable)
      ->exports.ptrs[index](pyd_executable_environment(executable), &dispatch, &workgroup);
}

static int run(const pyd_executable_t* executable) {
  const pyd_library_t* library = pyd_executable_library(executable);
  pyd_span_t image = pyd_executable_image(executable);
  printf("library %s 0.%u, image %s\n", library->header->name, library->header->version,
         (const uint8_t*)library > image.data && (const uint8_t*)library < image.data + image.size ? "holds it"
                                                                                                   : "elsewhere");
  _Alignas(64) float buffers[48] = {0};
  for (int i = 0; i < 8; ++i) buffers[i] = 2, buffers[16 + i] = 4;
  for (uint32_t i = 0; i < library->exports.count; ++i) {
    printf("%s: %d\n", library->exports.names[i], run_export(executable, i, buffers));
  }
  for (int i = 0; i < 8; ++i) printf("%g%s", buffers[32 + i], i < 7 ? " " : "\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  pyd_file_map_t map = {0};
  pyd_executable_t* executable = NULL;
  pyd_resolver_t resolver = {.self = NULL, .resolve = provide};
  pyd_executable_options_t options = {.name = argv[2], .resolver = &resolver};
  pyd_status_t status = pyd_file_map(argv[1], &map);
  if (pyd_ok(status)) status = pyd_executable_load_elf(map.span, &options, &executable);
  pyd_file_unmap(&map);  // everything was copied
  int result = pyd_ok(status) ? run(executable) : 1;
  if (!pyd_ok(status)) fprintf(stderr, "%s\n", pyd_status_text(status));
  pyd_status_free(status);
  pyd_executable_free(executable);
  return result;
}
