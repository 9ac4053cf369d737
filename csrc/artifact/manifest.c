// Reader of an artifact's manifest. Values that loading does not need are checked for their types, as Python's reader
// does (runtime/program/manifest.py), and not stored.
#include "pydispatch/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "artifact/json.h"

// The state of reading a manifest.
typedef struct reader_s {
  pyd_json_t json;           // the parser; after its first fault each list that is read ends
  pyd_manifest_t* manifest;  // the result so far
} reader_t;

// Marks a member of the current object in |*seen|, the set of the members read so far. |bit|: the bit of the member. A
// member that is in the set already is a fault.
static void once(reader_t* r, uint32_t* seen, uint32_t bit) {
  if (*seen & bit) pyd_json_refuse(&r->json, "no member twice");
  *seen |= bit;
}

// Requires that the members |bits| were seen. |expected|: the text of the fault.
static void need(reader_t* r, uint32_t seen, uint32_t bits, const char* expected) {
  if ((seen & bits) != bits) pyd_json_refuse(&r->json, expected);
}

// Skips an array of any values.
static void skip_array(reader_t* r) {
  pyd_json_list_t list = {false};
  while (pyd_json_element(&r->json, &list)) pyd_json_skip(&r->json);
}

// Skips an object with any members.
static void skip_object(reader_t* r) {
  pyd_json_list_t list = {false};
  pyd_string_t key;
  while (pyd_json_member(&r->json, &list, &key)) pyd_json_skip(&r->json);
}

// Skips a string; another value is a fault.
static void skip_text(reader_t* r) {
  pyd_string_t text;
  pyd_json_text(&r->json, &text);
}

// Skips an array of strings. Returns how many there are.
static uint32_t skip_texts(reader_t* r) {
  pyd_json_list_t list = {false};
  uint32_t count = 0;
  for (; pyd_json_element(&r->json, &list); ++count) skip_text(r);
  return count;
}

// ---- executables

_Static_assert(PYD_POOL_ALIGNMENT == 64, "the text of the fault below states the limit");

// Reads the alignment that a variant needs of its operands, in bytes.
static void read_alignment(reader_t* r, pyd_manifest_variant_t* out) {
  uint64_t number;
  if (!pyd_json_number(&r->json, &number)) return;
  out->alignment = (uint32_t)number;
  if (number == 0 || number > PYD_POOL_ALIGNMENT || (number & (number - 1)))
    pyd_json_refuse(&r->json, "a power of two up to 64");
}

// Reads the names of the CPU features that a variant requires. They become one range of the manifest's list.
static void read_requirements(reader_t* r, pyd_manifest_variant_t* out) {
  pyd_manifest_t* m = r->manifest;
  pyd_json_list_t list = {false};
  pyd_string_t text;
  out->first_requirement = m->requirement_count;
  while (pyd_json_element(&r->json, &list) && pyd_json_text(&r->json, &text)) {
    pyd_string_t* added = pyd_json_grow(&r->json, (void**)&m->requirements, &m->requirement_count, sizeof(*added));
    if (added) *added = text;
  }
  out->requirement_count = m->requirement_count - out->first_requirement;
}

// Reads, for each export of a variant, the function of contracts.bin that says which elements the export reads and
// writes: its index, or null, which is stored as PYD_PROGRAM_NONE. They become one range of the manifest's list.
static void read_contracts(reader_t* r, pyd_manifest_variant_t* out) {
  pyd_manifest_t* m = r->manifest;
  pyd_json_list_t list = {false};
  out->has_contracts = true;  // also for an empty list
  out->first_contract = m->contract_count;
  while (pyd_json_element(&r->json, &list)) {
    uint64_t number = PYD_PROGRAM_NONE;  // stays so for null
    bool is_none = pyd_json_null(&r->json);
    if (!is_none && pyd_json_number(&r->json, &number) && number >= PYD_PROGRAM_NONE)
      pyd_json_refuse(&r->json, "a number below 2^32 - 1");
    uint32_t* added = pyd_json_grow(&r->json, (void**)&m->contracts, &m->contract_count, sizeof(*added));
    if (added) *added = (uint32_t)number;
  }
  out->contract_count = m->contract_count - out->first_contract;
}

// Skips the operation counts of the exports of a variant: a list or null for each.
static void skip_flops(reader_t* r) {
  pyd_json_list_t list = {false};
  while (pyd_json_element(&r->json, &list)) {
    if (!pyd_json_null(&r->json)) skip_array(r);
  }
}

// Skips an array of strings, whose number is |import_count| of the variant.
static void count_imports(reader_t* r, pyd_manifest_variant_t* out) { out->import_count = skip_texts(r); }

static void read_name(reader_t* r, pyd_manifest_variant_t* out) { pyd_json_text(&r->json, &out->name); }

static void read_member(reader_t* r, pyd_manifest_variant_t* out) { pyd_json_text(&r->json, &out->member); }

static void read_format(reader_t* r, pyd_manifest_variant_t* out) { pyd_json_text(&r->json, &out->format); }

static void read_dynamic(reader_t* r, pyd_manifest_variant_t* out) { pyd_json_bool(&r->json, &out->is_dynamic); }

// A member of the JSON object of a variant. Either |read| stores its value in the variant, or |skip| only checks its
// type.
typedef struct variant_member_s {
  const char* key;
  bool is_required;
  void (*read)(reader_t* r, pyd_manifest_variant_t* out);
  void (*skip)(reader_t* r);
} variant_member_t;

static const variant_member_t kVariantMembers[] = {
    {"name", true, .read = read_name},
    {"member", true, .read = read_member},
    {"format", true, .read = read_format},
    {"alignment", true, .read = read_alignment},
    {"requires", true, .read = read_requirements},
    {"imports", true, .read = count_imports},
    {"contracts", false, .read = read_contracts},
    {"dynamic", false, .read = read_dynamic},
    {"flops", false, .skip = skip_flops},
    {"calls", false, .skip = skip_array},
    {"warnings", false, .skip = skip_array},
    {"ptx", false, .skip = skip_object},
    {"spirv", false, .skip = skip_object},
    {"wgsl", false, .skip = skip_object},
};
enum { kVariantMemberCount = sizeof(kVariantMembers) / sizeof(*kVariantMembers) };

// Reads one variant, an object, and appends it to the manifest. Unknown members are skipped.
static void read_variant(reader_t* r) {
  pyd_manifest_variant_t v = {.alignment = 1};
  pyd_json_list_t list = {false};
  pyd_string_t key;
  uint32_t seen = 0, required = 0;  // bit i: kVariantMembers[i]
  while (pyd_json_member(&r->json, &list, &key)) {
    uint32_t i = 0;
    while (i < kVariantMemberCount && !pyd_text_is(key, kVariantMembers[i].key)) ++i;
    if (i == kVariantMemberCount) {
      pyd_json_skip(&r->json);
      continue;
    }
    once(r, &seen, 1u << i);
    if (kVariantMembers[i].read) {
      kVariantMembers[i].read(r, &v);
    } else {
      kVariantMembers[i].skip(r);
    }
  }
  for (uint32_t i = 0; i < kVariantMemberCount; ++i) required |= (uint32_t)kVariantMembers[i].is_required << i;
  need(r, seen, required, "a variant with name, member, format, alignment, requires and imports");
  pyd_manifest_variant_t* added =
      pyd_json_grow(&r->json, (void**)&r->manifest->variants, &r->manifest->variant_count, sizeof(*added));
  if (added) *added = v;
}

// Reads one executable and appends it to the manifest. Its variants are one range of the manifest's list of variants.
static void read_executable(reader_t* r) {
  enum { NAME = 1, VARIANTS = 2, EXPORTS = 4 };
  pyd_manifest_executable_t e = {.first_variant = r->manifest->variant_count};
  pyd_json_list_t list = {false}, variants = {false};
  pyd_string_t key;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "name")) {
      once(r, &seen, NAME), pyd_json_text(&r->json, &e.name);
    } else if (pyd_text_is(key, "variants")) {
      once(r, &seen, VARIANTS);
      while (pyd_json_element(&r->json, &variants)) read_variant(r);
    } else if (pyd_text_is(key, "exports")) {
      once(r, &seen, EXPORTS), e.export_count = skip_texts(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, NAME | VARIANTS | EXPORTS, "an executable with name, exports and variants");
  e.variant_count = r->manifest->variant_count - e.first_variant;
  pyd_manifest_executable_t* added =
      pyd_json_grow(&r->json, (void**)&r->manifest->executables, &r->manifest->executable_count, sizeof(*added));
  if (added) *added = e;
}

// ---- functions

// Skips a shape, whose elements are numbers or non-empty names of dynamic sizes; another element is a fault.
static void skip_shape(reader_t* r) {
  pyd_json_list_t list = {false};
  while (pyd_json_element(&r->json, &list)) {
    pyd_string_t name = {"", 1};  // not empty, for an element that is a number
    uint64_t size;
    if (pyd_json_is_text(&r->json)) {
      pyd_json_text(&r->json, &name);
    } else {
      pyd_json_number(&r->json, &size);
    }
    if (name.length == 0) pyd_json_refuse(&r->json, "the name of a size");
  }
}

// Skips the arguments or the results of a function: objects with a name, a non-empty type and an optional shape. Other
// values are a fault.
static void skip_values(reader_t* r) {
  enum { NAME = 1, TYPE = 2, SHAPE = 4 };
  pyd_json_list_t list = {false};
  while (pyd_json_element(&r->json, &list)) {
    pyd_json_list_t value = {false};
    pyd_string_t key, type = {"", 0};
    uint32_t seen = 0;
    while (pyd_json_member(&r->json, &value, &key)) {
      if (pyd_text_is(key, "name")) {
        once(r, &seen, NAME), skip_text(r);
      } else if (pyd_text_is(key, "type")) {
        once(r, &seen, TYPE), pyd_json_text(&r->json, &type);
      } else if (pyd_text_is(key, "shape")) {
        once(r, &seen, SHAPE), skip_shape(r);
      } else {
        pyd_json_skip(&r->json);
      }
    }
    // An empty type is refused like a missing one.
    need(r, type.length ? seen : 0, NAME | TYPE, "a value with name and type");
  }
}

// Reads the name of one function, an object, and appends it to the manifest.
static void read_function(reader_t* r) {
  enum { NAME = 1, SIGNATURE = 2, INPUTS = 4, OUTPUTS = 8 };
  pyd_json_list_t list = {false};
  pyd_string_t key, name = {"", 0};
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "name")) {
      once(r, &seen, NAME), pyd_json_text(&r->json, &name);
    } else if (pyd_text_is(key, "signature")) {
      once(r, &seen, SIGNATURE), skip_text(r);
    } else if (pyd_text_is(key, "inputs")) {
      once(r, &seen, INPUTS), skip_values(r);
    } else if (pyd_text_is(key, "outputs")) {
      once(r, &seen, OUTPUTS), skip_values(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, NAME | SIGNATURE, "a function with name and signature");
  pyd_string_t* added =
      pyd_json_grow(&r->json, (void**)&r->manifest->functions, &r->manifest->function_count, sizeof(*added));
  if (added) *added = name;
}

// Compares two strings byte by byte, for qsort and bsearch.
static int compare_strings(const void* a, const void* b) {
  const pyd_string_t *x = a, *y = b;
  uint32_t shorter = x->length < y->length ? x->length : y->length;
  int order = shorter ? memcmp(x->data, y->data, shorter) : 0;
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

// Sorts the names of functions, and refuses equal ones. They are not hashed: the author of the file chooses the names,
// and could make them collide.
static void sort_functions(reader_t* r) {
  pyd_manifest_t* m = r->manifest;
  if (m->function_count) qsort(m->functions, m->function_count, sizeof(*m->functions), compare_strings);
  for (uint32_t i = 1; i < m->function_count; ++i) {
    if (compare_strings(&m->functions[i - 1], &m->functions[i]) == 0)
      pyd_json_refuse(&r->json, "functions of different names");
  }
}

// Returns whether a function of the manifest has the name, by binary search.
bool pyd_manifest_has_function(const pyd_manifest_t* manifest, pyd_string_t name) {
  return manifest->function_count &&
         bsearch(&name, manifest->functions, manifest->function_count, sizeof(name), compare_strings);
}

// ---- the whole

// Skips one constant, an object with the member that has its bytes, its type and its shape.
static void skip_constant(reader_t* r) {
  enum { MEMBER = 1, DTYPE = 2, SHAPE = 4 };
  pyd_json_list_t list = {false}, shape = {false};
  pyd_string_t key;
  uint64_t size;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "member")) {
      once(r, &seen, MEMBER), skip_text(r);
    } else if (pyd_text_is(key, "dtype")) {
      once(r, &seen, DTYPE), skip_text(r);
    } else if (pyd_text_is(key, "shape")) {
      once(r, &seen, SHAPE);
      while (pyd_json_element(&r->json, &shape)) pyd_json_number(&r->json, &size);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, MEMBER | DTYPE | SHAPE, "a constant with member, dtype and shape");
}

// Reads the member "pydispatch", whose format must be 1.
static void read_header(reader_t* r) {
  enum { FORMAT = 1, VERSION = 2 };
  pyd_json_list_t list = {false};
  pyd_string_t key;
  uint64_t format = 0;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "format")) {
      once(r, &seen, FORMAT), pyd_json_number(&r->json, &format);
    } else if (pyd_text_is(key, "version")) {
      once(r, &seen, VERSION), skip_text(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  if (format != 1) pyd_json_refuse(&r->json, "format 1");
  need(r, seen, VERSION, "a version");
}

// Reads the whole manifest, an object that must have four members, each once. Other members are skipped.
static void read_all(reader_t* r) {
  enum { HEADER = 1, EXECUTABLES = 2, FUNCTIONS = 4, CONSTANTS = 8 };
  pyd_json_list_t list = {false}, entries = {false};
  pyd_string_t key;
  uint32_t seen = 0;
  pyd_json_skip_space(&r->json);
  while (pyd_json_member(&r->json, &list, &key)) {
    entries.has_begun = false;  // the next member's array is read from its beginning
    if (pyd_text_is(key, "pydispatch")) {
      once(r, &seen, HEADER), read_header(r);
    } else if (pyd_text_is(key, "executables")) {
      once(r, &seen, EXECUTABLES);
      while (pyd_json_element(&r->json, &entries)) read_executable(r);
    } else if (pyd_text_is(key, "functions")) {
      once(r, &seen, FUNCTIONS);
      while (pyd_json_element(&r->json, &entries)) read_function(r);
    } else if (pyd_text_is(key, "constants")) {
      once(r, &seen, CONSTANTS);
      while (pyd_json_element(&r->json, &entries)) skip_constant(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, HEADER | EXECUTABLES | FUNCTIONS | CONSTANTS,
       "an object with pydispatch, executables, functions and constants");
  pyd_json_finish(&r->json);
  sort_functions(r);
}

// Reads a manifest from any bytes. CORRUPT names the offset of a fault.
pyd_status_t pyd_manifest_read(pyd_span_t bytes, pyd_manifest_t* out_manifest) {
  *out_manifest = (pyd_manifest_t){.text = malloc(bytes.size + 1)};
  if (!out_manifest->text || bytes.size >= UINT32_MAX) {
    pyd_manifest_free(out_manifest);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a manifest of %zu bytes", bytes.size);
  }
  if (bytes.size) memcpy(out_manifest->text, bytes.data, bytes.size);
  // The parser decodes strings in place, so it works on a copy.
  reader_t r = {.json = {.text = out_manifest->text, .size = bytes.size}, .manifest = out_manifest};
  read_all(&r);
  if (!r.json.fault) return PYD_STATUS_OK;
  pyd_status_t status =
      r.json.is_out_of_memory
          ? pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "manifest.json: no memory for its tables")
          : pyd_status_make(PYD_CODE_CORRUPT, "manifest.json, byte %zu: expected %s", r.json.at, r.json.fault);
  pyd_manifest_free(out_manifest);
  return status;
}

void pyd_manifest_free(pyd_manifest_t* manifest) {
  free(manifest->text);
  free(manifest->executables);
  free(manifest->variants);
  free(manifest->requirements);
  free(manifest->contracts);
  free(manifest->functions);
  *manifest = (pyd_manifest_t){0};
}
