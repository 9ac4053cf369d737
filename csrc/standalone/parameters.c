// The parameters of a program: memory of the embedder, or tensors of files that are mapped. Both are memory handles of
// the API.
#include <stdlib.h>

#include "artifact/json.h"
#include "standalone/standalone.h"
#include "standalone/weights.h"

// A safetensors file that parameters of one scope come from.
typedef struct file_s {
  const char* scope;  // borrowed from the caller's options, like |path|: valid while they are read
  const char* path;
  pyd_file_map_t map;
  pyd_weights_t weights;  // the file's tensors by name
} file_t;

// The parameters of a program, and the files that their memory is in.
struct pyd_standalone_parameters_s {
  pyd_api_memory_t** memories;  // by index of the parameter: one reference each, NULL if not found
  uint32_t count;
  file_t* files;
  uint32_t file_count;
};

// Checks that no parameter and no file of |options| has a NULL pointer.
static pyd_status_t check_options(const pyd_api_load_t* options) {
  if (options->parameter_count && !options->parameters) return pyd_api_null("program_load", "parameters");
  if (options->file_count && !options->files) return pyd_api_null("program_load", "files");
  for (uint32_t i = 0; i < options->parameter_count; ++i) {
    const pyd_api_parameter_t* source = &options->parameters[i];
    if (!source->scope || !source->key || !source->memory)
      return pyd_api_null("program_load", "the scope, key or memory of a parameter");
  }
  for (uint32_t i = 0; i < options->file_count; ++i) {
    if (!options->files[i].scope || !options->files[i].path)
      return pyd_api_null("program_load", "the scope or path of a file");
  }
  return PYD_STATUS_OK;
}

// Maps a .safetensors file of parameters and reads its header. Failures name the path.
static pyd_status_t open_file(const pyd_api_parameter_file_t* source, file_t* out_file) {
  out_file->scope = source->scope, out_file->path = source->path;
  pyd_status_t status = pyd_file_map(source->path, &out_file->map);
  if (pyd_ok(status)) status = pyd_weights_read(out_file->map.span, &out_file->weights);
  return pyd_status_annotate(status, "%s: %s", source->path, pyd_status_text(status));
}

// Checks that |memory| has the element type and the dimensions of |parameter|, and returns a reference to it.
static pyd_status_t take_memory(pyd_api_memory_t* memory, const pyd_program_parameter_t* parameter,
                                pyd_api_memory_t** out_memory) {
  const pyd_api_value_t value = {.dtype = parameter->dtype, .rank = parameter->rank};
  pyd_status_t status = pyd_api_memory_check(memory, "program_load", "parameter", 0, &value, parameter->dims);
  if (!pyd_ok(status)) return status;
  pyd_api_retain(&memory->references);
  *out_memory = memory;
  return status;
}

// Returns the elements of |tensor|, which stay in the mapped |file|, as memory of |device| that fits |parameter|.
static pyd_status_t take_tensor(pyd_api_device_t* device, const file_t* file, const pyd_weight_t* tensor,
                                const pyd_program_parameter_t* parameter, pyd_api_memory_t** out_memory) {
  const pyd_api_memory_info_t info = {.struct_size = sizeof(info),
                                      .data = (void*)tensor->data.data,
                                      .dtype = tensor->dtype,
                                      .rank = tensor->rank,
                                      .dims = tensor->rank ? file->weights.dims + tensor->first_dim : NULL,
                                      .is_read_only = 1};
  pyd_api_memory_t* memory = NULL;
  pyd_status_t status = tensor->dtype
                            ? pyd_api_memory_import(device, &info, &memory)
                            : pyd_status_make(PYD_CODE_UNSUPPORTED, "its type is one that programs do not have");
  if (pyd_ok(status)) status = take_memory(memory, parameter, out_memory);
  pyd_api_memory_release(memory);  // |*out_memory| has a reference of its own
  return pyd_status_annotate(status, "%s: %s", file->path, pyd_status_text(status));
}

// Returns memory for |parameter|, from the caller's memories or else from the files, in their order. Searches only
// sources of the parameter's scope (a name space of parameters); several sources may have the same scope.
static pyd_status_t find(const pyd_standalone_parameters_t* p, pyd_api_device_t* device, const pyd_api_load_t* options,
                         const pyd_program_parameter_t* parameter, pyd_api_memory_t** out_memory) {
  bool has_scope = false;
  for (uint32_t i = 0; i < options->parameter_count; ++i) {
    const pyd_api_parameter_t* source = &options->parameters[i];
    if (!pyd_text_is(parameter->scope, source->scope)) continue;
    has_scope = true;
    if (pyd_text_is(parameter->key, source->key)) return take_memory(source->memory, parameter, out_memory);
  }
  for (uint32_t i = 0; i < p->file_count; ++i) {
    if (!pyd_text_is(parameter->scope, p->files[i].scope)) continue;
    has_scope = true;
    const pyd_weight_t* tensor = pyd_weights_find(&p->files[i].weights, parameter->key);
    if (tensor) return take_tensor(device, &p->files[i], tensor, parameter, out_memory);
  }
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s; give it to program_load, in memory or in a .safetensors file",
                         has_scope ? "it is in none of the sources of its scope" : "its scope was not given");
}

// Allocates |*out_parameters| for |count| parameters and |file_count| files, without memories and files.
// pyd_standalone_parameters_free() frees it, also after a failure.
static pyd_status_t allocate(uint32_t count, uint32_t file_count, pyd_standalone_parameters_t** out_parameters) {
  pyd_standalone_parameters_t* p = *out_parameters = calloc(1, sizeof(*p));
  // One more element than needed, as calloc may return NULL for none.
  if (p) p->memories = calloc((size_t)count + 1, sizeof(*p->memories));
  if (p) p->files = calloc((size_t)file_count + 1, sizeof(*p->files));
  if (!p || !p->memories || !p->files) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the parameters of a program");
  }
  p->count = count;  // from here on pyd_standalone_parameters_free() releases the elements
  p->file_count = file_count;
  return PYD_STATUS_OK;
}

// Finds memory for all parameters of |program|: in the memories that |options| names, else in its files, which are
// mapped.
pyd_status_t pyd_standalone_parameters_open(const pyd_program_t* program, pyd_api_device_t* device,
                                            const pyd_api_load_t* options,
                                            pyd_standalone_parameters_t** out_parameters) {
  *out_parameters = NULL;
  pyd_status_t status = check_options(options);
  if (!pyd_ok(status)) return status;
  const uint32_t count = pyd_program_parameter_count(program);
  pyd_standalone_parameters_t* p = NULL;
  status = allocate(count, options->file_count, &p);
  for (uint32_t i = 0; i < options->file_count && pyd_ok(status); ++i)
    status = open_file(&options->files[i], &p->files[i]);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    const pyd_program_parameter_t* parameter = pyd_program_parameter(program, i);
    status = find(p, device, options, parameter, &p->memories[i]);
    status = pyd_status_annotate(status, "parameter '%.*s' of scope '%.*s': %s", (int)parameter->key.length,
                                 parameter->key.data, (int)parameter->scope.length, parameter->scope.data,
                                 pyd_status_text(status));
  }
  if (pyd_ok(status)) {
    *out_parameters = p;
  } else {
    pyd_standalone_parameters_free(p);
  }
  return status;
}

// Returns the memory of the parameter with |index| in the program, borrowed from |parameters|.
const pyd_api_memory_t* pyd_standalone_parameter(const pyd_standalone_parameters_t* parameters, uint32_t index) {
  return parameters->memories[index];
}

// Returns whether |bytes| are in a mapped file of parameters.
bool pyd_standalone_is_mapped(const pyd_standalone_parameters_t* parameters, pyd_span_t bytes) {
  for (uint32_t i = 0; i < parameters->file_count; ++i) {
    if (pyd_file_is_mapped(&parameters->files[i].map, bytes)) return true;
  }
  return false;
}

// Frees the parameters and unmaps their files.
void pyd_standalone_parameters_free(pyd_standalone_parameters_t* p) {
  if (!p) return;
  for (uint32_t i = 0; i < p->count; ++i) pyd_api_memory_release(p->memories[i]);
  for (uint32_t i = 0; i < p->file_count; ++i) {
    pyd_weights_free(&p->files[i].weights);
    pyd_file_unmap(&p->files[i].map);
  }
  free(p->memories);
  free(p->files);
  free(p);
}
