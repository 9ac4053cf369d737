// What a program consists of, and connecting it with what it needs from outside.
#include <string.h>

#include "program/internal.h"

uint32_t pyd_program_executable_count(const pyd_program_t* program) { return program->executable_count; }
const pyd_program_executable_t* pyd_program_executable(const pyd_program_t* program, uint32_t index) {
  return index < program->executable_count ? &program->executables[index] : NULL;
}
uint32_t pyd_program_query_count(const pyd_program_t* program) { return program->query_count; }
const pyd_program_query_t* pyd_program_query(const pyd_program_t* program, uint32_t index) {
  return index < program->query_count ? &program->queries[index] : NULL;
}
uint32_t pyd_program_constant_count(const pyd_program_t* program) { return program->constant_count; }
const pyd_program_constant_t* pyd_program_constant(const pyd_program_t* program, uint32_t index) {
  return index < program->constant_count ? &program->constants[index] : NULL;
}
uint32_t pyd_program_function_count(const pyd_program_t* program) { return program->function_count; }
const pyd_program_function_t* pyd_program_function(const pyd_program_t* program, uint32_t index) {
  return index < program->function_count ? &program->functions[index].info : NULL;
}

uint32_t pyd_program_procedure_count(const pyd_program_t* program) { return program->procedure_count; }
const pyd_program_function_t* pyd_program_procedure(const pyd_program_t* program, uint32_t index) {
  return index < program->procedure_count ? &program->procedures[index].info : NULL;
}
uint32_t pyd_program_parameter_count(const pyd_program_t* program) { return program->parameter_count; }
const pyd_program_parameter_t* pyd_program_parameter(const pyd_program_t* program, uint32_t index) {
  return index < program->parameter_count ? &program->parameters[index] : NULL;
}
uint32_t pyd_program_check_count(const pyd_program_t* program) { return program->check_count; }
const pyd_program_check_t* pyd_program_check(const pyd_program_t* program, uint32_t index) {
  return index < program->check_count ? &program->checks[index] : NULL;
}

void pyd_program_set_query(pyd_program_t* program, uint32_t index, bool found, uint64_t value) {
  if (index >= program->query_count) return;
  program->query_links[index].found = found;
  program->query_links[index].value = value;
}

pyd_status_t pyd_program_set_constant(pyd_program_t* program, uint32_t index, pyd_span_t bytes) {
  if (index >= program->constant_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "constant %u does not exist, the program has %u", index,
                           program->constant_count);
  }
  const pyd_program_constant_t* constant = &program->constants[index];
  if (bytes.size != constant->length || (!bytes.data && bytes.size)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "constant %u ('%.*s') has %llu bytes, got %zu", index,
                           (int)constant->member.length, constant->member.data, (unsigned long long)constant->length,
                           bytes.size);
  }
  // An empty constant is linked, too.
  program->constant_links[index] = (pyd_span_t){bytes.data ? bytes.data : (const uint8_t*)program->words, bytes.size};
  return PYD_STATUS_OK;
}

static bool is_named(const pyd_library_exports_t* exports, uint32_t ordinal, pyd_string_t name) {
  const char* candidate = exports->names ? exports->names[ordinal] : NULL;
  return candidate && strlen(candidate) == name.length && memcmp(candidate, name.data, name.length) == 0;
}

// By name, first at the ordinal; an export without a name, or a library without names, by ordinal alone.
static bool find_export(const pyd_library_exports_t* exports, const pyd_export_t* export, uint32_t* out_ordinal) {
  *out_ordinal = export->ordinal;
  if (export->name.length == 0 || !exports->names) return export->ordinal < exports->count;
  if (export->ordinal < exports->count && is_named(exports, export->ordinal, export->name)) return true;
  for (uint32_t i = 0; i < exports->count; ++i) {
    if (!is_named(exports, i, export->name)) continue;
    *out_ordinal = i;
    return true;
  }
  return false;
}

static pyd_status_t check_export(const pyd_program_t* program, const pyd_export_t* export,
                                 const pyd_library_exports_t* exports, uint32_t* out_ordinal) {
  pyd_string_t executable = program->executables[export->executable].name;
  if (!find_export(exports, export, out_ordinal)) {
    const char* there = export->ordinal < exports->count && exports->names ? exports->names[export->ordinal] : NULL;
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "executable '%.*s' has no export '%.*s': its library has %u exports, number %u is %s%s%s",
                           (int)executable.length, executable.data, (int)export->name.length, export->name.data,
                           exports->count, export->ordinal, there ? "'" : "", there ? there : "not among them",
                           there ? "'" : "");
  }
  const pyd_library_export_attrs_t* attrs = &exports->attrs[*out_ordinal];
  if (!exports->ptrs[*out_ordinal] || attrs->constant_count != export->constant_count ||
      attrs->binding_count != export->binding_count) {
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "executable '%.*s', export '%.*s': the program passes %u constants and %u bindings, the library "
                           "takes %u and %u",
                           (int)executable.length, executable.data, (int)export->name.length, export->name.data,
                           export->constant_count, export->binding_count, attrs->constant_count, attrs->binding_count);
  }
  return PYD_STATUS_OK;
}

pyd_status_t pyd_program_set_executable(pyd_program_t* program, uint32_t index, const pyd_executable_t* executable,
                                        uint32_t variant, uint32_t alignment) {
  if (index >= program->executable_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable %u does not exist, the program has %u", index,
                           program->executable_count);
  }
  pyd_string_t name = program->executables[index].name;
  if (alignment == 0 || alignment > PYD_POOL_ALIGNMENT || (alignment & (alignment - 1))) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "executable '%.*s' wants its bindings aligned to %u bytes; powers of two up to %u are possible",
                           (int)name.length, name.data, alignment, PYD_POOL_ALIGNMENT);
  }
  const pyd_library_t* library = pyd_executable_library(executable);
  const pyd_library_exports_t* exports = &library->exports;
  uint32_t ordinal;
  for (uint32_t i = 0; i < program->export_count; ++i) {
    if (program->exports[i].executable != index) continue;
    pyd_status_t status = check_export(program, &program->exports[i], exports, &ordinal);
    if (!pyd_ok(status)) return status;
  }
  for (uint32_t i = 0; i < program->export_count; ++i) {
    pyd_export_t* export = &program->exports[i];
    if (export->executable != index || !find_export(exports, export, &ordinal)) continue;
    export->function = exports->ptrs[ordinal];
    export->attrs = &exports->attrs[ordinal];
  }
  program->links[index] = (pyd_executable_link_t){
      .executable = executable,
      .environment = pyd_executable_environment(executable),
      .variant = variant,
      .alignment = alignment,
      .is_embedded = pyd_executable_image(executable).size != 0,
  };
  return PYD_STATUS_OK;
}
