// Connecting a program with what it needs from outside.
#include <stdlib.h>
#include <string.h>

#include "program/internal.h"

// Links the result of query |index|.
void pyd_program_set_query(pyd_program_t* program, uint32_t index, bool found, uint64_t value) {
  if (index >= program->query_count) return;
  program->query_links[index].found = found;
  program->query_links[index].value = value;
}

// Links the bytes of a constant, which are borrowed.
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
  // NULL would mean that the constant is not linked, so an empty one gets any other address.
  program->constant_links[index] = (pyd_span_t){bytes.data ? bytes.data : (const uint8_t*)program->words, bytes.size};
  return PYD_STATUS_OK;
}

void pyd_program_set_constant_mapped(pyd_program_t* program, uint32_t index) {
  if (index < program->constant_count) program->constant_is_mapped[index] = true;
}

// Compares as memcmp does; of two names of which one begins with the other, the shorter one is less.
static int compare_names(const char* left, size_t left_length, const char* right, size_t right_length) {
  int order = memcmp(left, right, left_length < right_length ? left_length : right_length);
  return order ? order : (left_length > right_length) - (left_length < right_length);
}

// The name of an export of a library.
typedef struct name_s {
  const char* text;  // not NULL; empty for an export without a name
  size_t length;
  uint32_t ordinal;
} name_t;

// Compares by name, and equal names by ordinal, for qsort.
static int by_name(const void* left, const void* right) {
  const name_t *a = left, *b = right;
  int order = compare_names(a->text, a->length, b->text, b->length);
  return order ? order : a->ordinal < b->ordinal ? -1 : 1;  // ordinals differ
}

// The exports of a library, with an index that is created when the first export does not have the ordinal that the
// program expects.
typedef struct lookup_s {
  const pyd_library_exports_t* exports;
  name_t* names;  // one per export, sorted by name; NULL until created
} lookup_t;

// Returns whether the export with this ordinal has this name.
static bool is_named(const pyd_library_exports_t* exports, uint32_t ordinal, pyd_string_t name) {
  const char* candidate = exports->names[ordinal];
  PYD_COUNT_WORK(1);
  // The name of a hostile program may have zeros inside: nothing past the end of the candidate is read.
  return candidate && strnlen(candidate, (size_t)name.length + 1) == name.length &&
         memcmp(candidate, name.data, name.length) == 0;
}

// Creates the sorted names of |lookup|.
static pyd_status_t sort_names(lookup_t* lookup) {
  uint32_t count = lookup->exports->count;
  lookup->names = calloc(count, sizeof(*lookup->names));
  if (!lookup->names) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the names of %u exports", count);
  for (uint32_t i = 0; i < count; ++i) {
    const char* text = lookup->exports->names[i] ? lookup->exports->names[i] : "";
    lookup->names[i] = (name_t){text, strlen(text), i};
  }
  PYD_COUNT_WORK(count);
  qsort(lookup->names, count, sizeof(*lookup->names), by_name);
  return PYD_STATUS_OK;
}

// Returns the number of names in |lookup->names|, which are sorted, that are less than |name|.
static uint32_t lower_bound(const lookup_t* lookup, pyd_string_t name) {
  uint32_t low = 0, high = lookup->exports->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    PYD_COUNT_WORK(1);
    if (compare_names(lookup->names[middle].text, lookup->names[middle].length, name.data, name.length) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Finds the ordinal of |export| in the library: by name, trying the expected ordinal first, or by ordinal alone if the
// export or the library has no names. |*out_ordinal| is PYD_NONE if the library does not have the export.
static pyd_status_t find_export(lookup_t* lookup, const pyd_export_t* export, uint32_t* out_ordinal) {
  const pyd_library_exports_t* exports = lookup->exports;
  bool is_inside = export->ordinal < exports->count;
  *out_ordinal = is_inside ? export->ordinal : PYD_NONE;
  if (export->name.length == 0 || !exports->names) return PYD_STATUS_OK;
  if (is_inside && is_named(exports, export->ordinal, export->name)) return PYD_STATUS_OK;
  *out_ordinal = PYD_NONE;
  if (exports->count == 0) return PYD_STATUS_OK;
  pyd_status_t status = lookup->names ? PYD_STATUS_OK : sort_names(lookup);
  if (!pyd_ok(status)) return status;
  uint32_t at = lower_bound(lookup, export->name);
  if (at == exports->count) return status;
  const name_t* found = &lookup->names[at];
  if (compare_names(found->text, found->length, export->name.data, export->name.length) == 0)
    *out_ordinal = found->ordinal;
  return status;
}

// Returns the failure of a library without |export|; it names the export of the library with the same ordinal.
static pyd_status_t refuse_missing(pyd_string_t executable, const pyd_export_t* export,
                                   const pyd_library_exports_t* exports) {
  const char* other_name = export->ordinal < exports->count && exports->names ? exports->names[export->ordinal] : NULL;
  return pyd_status_make(
      PYD_CODE_CORRUPT, "executable '%.*s' has no export '%.*s': its library has %u exports, number %u is %s%s%s",
      (int)executable.length, executable.data, (int)export->name.length, export->name.data, exports->count,
      export->ordinal, other_name ? "'" : "", other_name ? other_name : "not among them", other_name ? "'" : "");
}

// Finds the ordinal of |export| in the library, and checks that its function takes as many constants and bindings as
// the program passes.
static pyd_status_t check_export(const pyd_program_t* program, const pyd_export_t* export, lookup_t* lookup,
                                 uint32_t* out_ordinal) {
  const pyd_library_exports_t* exports = lookup->exports;
  pyd_string_t executable = program->executables[export->executable].name;
  pyd_status_t status = find_export(lookup, export, out_ordinal);
  if (!pyd_ok(status)) return status;
  if (*out_ordinal == PYD_NONE) return refuse_missing(executable, export, exports);
  const pyd_library_export_attrs_t* attrs = &exports->attrs[*out_ordinal];
  if (!exports->ptrs[*out_ordinal] || attrs->constant_count != export->constant_count ||
      attrs->binding_count != export->binding_count) {
    return pyd_status_make(
        PYD_CODE_CORRUPT,
        "executable '%.*s', export '%.*s': the program passes %u constants and %u bindings, the library "
        "takes %u and %u",
        (int)executable.length, executable.data, (int)export->name.length, export->name.data, export->constant_count,
        export->binding_count, attrs->constant_count, attrs->binding_count);
  }
  return PYD_STATUS_OK;
}

// Links the exports of executable |index| to the functions of its library: all exports or, after a failure, none.
static pyd_status_t link_exports(pyd_program_t* program, uint32_t index, const pyd_library_exports_t* exports) {
  // Numbers of the exports of this executable among all exports of the program.
  const uint32_t* numbers = program->exports_of + program->exports_first[index];
  uint32_t count = program->exports_first[index + 1] - program->exports_first[index];
  if (count == 0) return PYD_STATUS_OK;
  lookup_t lookup = {.exports = exports};
  pyd_status_t status = PYD_STATUS_OK;
  uint32_t* ordinals = calloc(count, sizeof(*ordinals));
  if (!ordinals) status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to link %u exports", count);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    status = check_export(program, &program->exports[numbers[i]], &lookup, &ordinals[i]);
  }
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    program->exports[numbers[i]].linked_ordinal = ordinals[i];
    program->exports[numbers[i]].function = exports->ptrs[ordinals[i]];
    program->exports[numbers[i]].attrs = &exports->attrs[ordinals[i]];
  }
  free(ordinals);
  free(lookup.names);
  return status;
}

// Links executable |index| to a loaded executable, which is borrowed, after checking that it has all exports of the
// program, with as many constants and bindings. |variant|: index of the chosen variant. |alignment|: of its bindings,
// in bytes. A failure changes nothing.
pyd_status_t pyd_program_set_executable(pyd_program_t* program, uint32_t index, const pyd_executable_t* executable,
                                        uint32_t variant, uint32_t alignment) {
  if (index >= program->executable_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable %u does not exist, the program has %u", index,
                           program->executable_count);
  }
  pyd_string_t name = program->executables[index].name;
  if (alignment == 0 || alignment > PYD_POOL_ALIGNMENT || (alignment & (alignment - 1))) {
    return pyd_status_make(
        PYD_CODE_UNSUPPORTED,
        "executable '%.*s' wants its bindings aligned to %u bytes; powers of two up to %u are possible",
        (int)name.length, name.data, alignment, PYD_POOL_ALIGNMENT);
  }
  pyd_status_t status = link_exports(program, index, &pyd_executable_library(executable)->exports);
  if (!pyd_ok(status)) return status;
  program->links[index] = (pyd_executable_link_t){
      .executable = executable,
      .environment = pyd_executable_environment(executable),
      .variant = variant,
      .alignment = alignment,
      .is_embedded = pyd_executable_image(executable).size != 0,
  };
  return PYD_STATUS_OK;
}

void pyd_program_set_allocator(pyd_program_t* program, const pyd_allocator_t* allocator) {
  program->allocator = *allocator;
}

// Sets how the chains of a program run, before its first plan.
void pyd_program_set_chains(pyd_program_t* program, pyd_chain_options_t options) {
  const uint64_t max_cache_bytes = UINT64_C(1) << 32;  // keeps the sums of plan/chain.c far below 2^64
  program->chains = options;
  if (options.cache_bytes > max_cache_bytes) program->chains.cache_bytes = max_cache_bytes;
}

const pyd_executable_t* pyd_program_linked_executable(const pyd_program_t* program, uint32_t index,
                                                      uint32_t* out_variant) {
  *out_variant = program->links[index].variant;
  return program->links[index].executable;
}

// Links the code of host command |index|.
pyd_status_t pyd_program_set_command(pyd_program_t* program, uint32_t index, pyd_import_fn_t function, void* context) {
  if (index >= program->command_count || !function) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "host command %u: %s; the program has %u", index,
                           function ? "it does not exist" : "its function is NULL", program->command_count);
  }
  program->command_links[index] = (pyd_command_link_t){function, context};
  return PYD_STATUS_OK;
}
