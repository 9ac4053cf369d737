// Programs: descriptions of the public functions, made once when a program is loaded.
#include <string.h>

#include "api/internal.h"
#include "base/carve.h"
#include "base/sized.h"

// All descriptions are in one block of memory. The copy_* functions run twice: first with block->base NULL, to measure
// the size of the block, then to fill it.

// Copies a text, with a 0 at its end. Returns NULL while the size is measured.
static const char* copy_text(pyd_carve_t* block, pyd_string_t text) {
  char* copy = pyd_carve(block, (size_t)text.length + 1, 1);
  if (!copy) return NULL;
  if (text.length) memcpy(copy, text.data, text.length);
  copy[text.length] = 0;
  return copy;
}

// Copies the descriptions of |count| arguments or results. Returns an array of pointers to them, which is not to be
// read while the size is measured.
static const pyd_api_value_t* const* copy_values(pyd_carve_t* block, const pyd_program_value_t* values,
                                                 uint32_t count) {
  const pyd_api_value_t** list = pyd_carve(block, count, sizeof(*list));
  for (uint32_t i = 0; i < count; ++i) {
    pyd_api_value_t* out = pyd_carve(block, 1, sizeof(*out));
    const char* name = copy_text(block, values[i].name);
    if (!out) continue;  // measured only
    *out = (pyd_api_value_t){
        .kind = values[i].kind,
        .dtype = values[i].dtype,
        .element_bytes = pyd_element_bytes(values[i].dtype),
        .rank = values[i].rank,
        .dims = values[i].dims,  // memory of the program, which outlives this description
        .name = name,
    };
    list[i] = out;
  }
  return list;
}

// Describes one function or procedure, which has |index| in the list of its kind. |out|, the program that |entry|
// refers to, and |entry| are NULL while the size is measured.
static void copy_function(pyd_carve_t* block, const pyd_program_function_t* fn, uint32_t index, bool is_procedure,
                          pyd_api_program_t* out, pyd_api_entry_t* entry) {
  pyd_api_function_t info = {
      .name = copy_text(block, fn->name),
      .signature = copy_text(block, fn->signature),
      .argument_count = fn->arg_count,
      .result_count = fn->result_count,
      .dims_count = fn->dims_count,
      .arguments = copy_values(block, fn->args, fn->arg_count),
      .results = copy_values(block, fn->results, fn->result_count),
  };
  for (uint32_t k = 0; k < fn->arg_count; ++k) info.scalar_count += fn->args[k].kind != PYD_API_TENSOR;
  if (out) *entry = (pyd_api_entry_t){.info = info, .program = out, .index = index, .is_procedure = is_procedure};
}

// Describes the public functions, then the public procedures if |has_state|: without a state they cannot run. |out|:
// the program whose entries are set; NULL while the size is measured.
static void copy_functions(pyd_carve_t* block, const pyd_program_t* program, bool has_state, pyd_api_program_t* out) {
  uint32_t functions = pyd_program_function_count(program), count = 0, entry = 0;
  uint32_t procedures = has_state ? pyd_program_procedure_count(program) : 0;
  for (uint32_t i = 0; i < functions; ++i) count += pyd_program_function(program, i)->is_public;
  for (uint32_t i = 0; i < procedures; ++i) count += pyd_program_procedure(program, i)->is_public;
  pyd_api_entry_t* entries = pyd_carve(block, count, sizeof(*entries));
  if (out) {
    out->entries = entries;
    out->entry_count = count;
  }
  for (uint32_t i = 0; i < functions + procedures; ++i) {
    bool is_procedure = i >= functions;
    uint32_t index = is_procedure ? i - functions : i;
    const pyd_program_function_t* fn =
        is_procedure ? pyd_program_procedure(program, index) : pyd_program_function(program, index);
    if (fn->is_public) copy_function(block, fn, index, is_procedure, out, out ? &entries[entry++] : NULL);
  }
}

// Creates the handle of a loaded program, with the descriptions of its public functions. |state|: the globals of its
// procedures; NULL if it has none. |owner| keeps |program| and |state| alive, and is dropped with the handle.
pyd_status_t pyd_api_program_make(pyd_api_device_t* device, const pyd_program_t* program, pyd_state_t* state,
                                  pyd_api_owner_t owner, pyd_api_program_t** out_program) {
  *out_program = NULL;
  pyd_carve_t block = {/* base */ NULL, sizeof(pyd_api_program_t), /* alignment */ sizeof(uint64_t)};
  copy_functions(&block, program, state != NULL, NULL);
  pyd_api_program_t* created = pyd_allocate(&device->allocator, block.size);
  if (!created) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a program's %zu bytes", block.size);
  atomic_init(&created->references, 1);
  created->size = block.size;
  created->device = device;
  created->program = program;
  created->state = state;
  created->owner = owner;
  block = (pyd_carve_t){(uint8_t*)created, sizeof(*created), sizeof(uint64_t)};
  copy_functions(&block, program, state != NULL, created);
  pyd_api_retain(&device->references);
  *out_program = created;
  return PYD_STATUS_OK;
}

// Checks that the options name exactly one source.
pyd_status_t pyd_api_check_load(const char* function, const pyd_api_load_t* options) {
  if (!options) return pyd_api_null(function, "options");
  if (options->struct_size < PYD_SIZE_UP_TO(pyd_api_load_t, file_count)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the options have a struct_size of %zu; set it to sizeof(pyd_api_load_t), which "
                           "is %zu",
                           function, options->struct_size, sizeof(*options));
  }
  if (options->path && options->data)
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: give a path or data, not both", function);
  return options->path || options->data ? PYD_STATUS_OK : pyd_api_null(function, "path or data");
}

// Drops a reference to a program; the last one unloads it.
void pyd_api_program_release(pyd_api_program_t* program) {
  if (!program || !pyd_api_drop(&program->references)) return;
  pyd_api_owner_t owner = program->owner;
  pyd_api_device_t* device = program->device;
  pyd_deallocate(&device->allocator, program, program->size);
  if (owner.drop) owner.drop(owner.self);
  pyd_api_device_release(device);
}

pyd_api_device_t* pyd_api_program_device(const pyd_api_program_t* program) { return program ? program->device : NULL; }

uint32_t pyd_api_program_function_count(const pyd_api_program_t* program) { return program ? program->entry_count : 0; }

const pyd_api_function_t* pyd_api_program_function(const pyd_api_program_t* program, uint32_t index) {
  return program && index < program->entry_count ? &program->entries[index].info : NULL;
}

// Writes the names of the functions, separated by commas, as many as fit into |size| bytes; "none" without functions.
static void list_functions(const pyd_api_program_t* program, char* text, size_t size) {
  size_t used = 0;
  for (uint32_t i = 0; i < program->entry_count; ++i) {
    const char* name = program->entries[i].info.name;
    size_t length = strlen(name);
    if (length + 8 > size - used) {  // ", " before the name, ", ..." and a 0 after it
      if (used) memcpy(text + used, ", ...", 6);
      break;
    }
    if (used) memcpy(text + used, ", ", 2), used += 2;
    memcpy(text + used, name, length + 1);
    used += length;
  }
  if (!used) memcpy(text, "none", 5);
}

// Finds the function |name| of a program. INVALID_ARGUMENT, with the names of the functions, if there is none.
pyd_status_t pyd_api_program_find(const pyd_api_program_t* program, const char* name,
                                  const pyd_api_function_t** out_function) {
  if (!out_function) return pyd_api_null("program_find", "out_function");
  *out_function = NULL;
  if (!program) return pyd_api_null("program_find", "program");
  if (!name) return pyd_api_null("program_find", "name");
  for (uint32_t i = 0; i < program->entry_count; ++i) {
    if (strcmp(program->entries[i].info.name, name) != 0) continue;
    *out_function = &program->entries[i].info;
    return PYD_STATUS_OK;
  }
  char known[400];
  list_functions(program, known, sizeof(known));
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "the program has no function '%s'. It has: %s", name, known);
}
