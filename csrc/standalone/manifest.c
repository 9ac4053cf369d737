// Reader of the part of an artifact's manifest that loading needs: the variants of its executables.
#include "standalone/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "standalone/json.h"

typedef struct reader_s {
  pyd_json_t json;
  pyd_manifest_t* made;  // the result so far
} reader_t;

// Marks a member of an object, a bit of its own, in |seen|. A member that was seen already is a fault.
static void once(reader_t* r, uint32_t* seen, uint32_t bit) {
  if (*seen & bit) pyd_json_refuse(&r->json, "no member twice");
  *seen |= bit;
}

// Requires that the members |bits| were seen. |expected|: the text of the fault.
static void need(reader_t* r, uint32_t seen, uint32_t bits, const char* expected) {
  if ((seen & bits) != bits) pyd_json_refuse(&r->json, expected);
}

enum { kMaxAlignment = 4096 };  // bytes

// Reads the alignment that a variant needs of its operands, in bytes.
static void read_alignment(reader_t* r, pyd_manifest_variant_t* out) {
  uint64_t number;
  if (!pyd_json_number(&r->json, &number)) return;
  out->alignment = (uint32_t)number;
  if (number == 0 || number > kMaxAlignment || (number & (number - 1)))
    pyd_json_refuse(&r->json, "a power of two up to 4096");
}

// Reads the names of the CPU features that a variant requires. They become one range of the manifest's list.
static void read_requirements(reader_t* r, pyd_manifest_variant_t* out) {
  pyd_manifest_t* m = r->made;
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
// writes: its index, or null. They become one range of the manifest's list.
static void read_contracts(reader_t* r, pyd_manifest_variant_t* out) {
  pyd_manifest_t* m = r->made;
  pyd_json_list_t list = {false};
  out->has_contracts = true;  // also for an empty list
  out->first_contract = m->contract_count;
  while (pyd_json_element(&r->json, &list)) {
    uint64_t number = PYD_PROGRAM_NONE;
    bool is_none = pyd_json_null(&r->json);
    if (!is_none && pyd_json_number(&r->json, &number) && number >= PYD_PROGRAM_NONE)
      pyd_json_refuse(&r->json, "a number below 2^32 - 1");
    uint32_t* added = pyd_json_grow(&r->json, (void**)&m->contracts, &m->contract_count, sizeof(*added));
    if (added) *added = (uint32_t)number;
  }
  out->contract_count = m->contract_count - out->first_contract;
}

// Reads one variant, an object, and appends it to the manifest. Unknown members are skipped.
static void read_variant(reader_t* r) {
  enum { NAME = 1, MEMBER = 2, FORMAT = 4, ALIGNMENT = 8, REQUIRES = 16, CONTRACTS = 32, DYNAMIC = 64 };
  pyd_manifest_variant_t v = {.alignment = 1};
  pyd_json_list_t list = {false};
  pyd_string_t key;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "name"))
      once(r, &seen, NAME), pyd_json_text(&r->json, &v.name);
    else if (pyd_text_is(key, "member"))
      once(r, &seen, MEMBER), pyd_json_text(&r->json, &v.member);
    else if (pyd_text_is(key, "format"))
      once(r, &seen, FORMAT), pyd_json_text(&r->json, &v.format);
    else if (pyd_text_is(key, "alignment"))
      once(r, &seen, ALIGNMENT), read_alignment(r, &v);
    else if (pyd_text_is(key, "requires"))
      once(r, &seen, REQUIRES), read_requirements(r, &v);
    else if (pyd_text_is(key, "contracts"))
      once(r, &seen, CONTRACTS), read_contracts(r, &v);
    else if (pyd_text_is(key, "dynamic"))
      once(r, &seen, DYNAMIC), pyd_json_bool(&r->json, &v.is_dynamic);
    else
      pyd_json_skip(&r->json);
  }
  need(r, seen, NAME | MEMBER | FORMAT | ALIGNMENT | REQUIRES,
       "a variant with name, member, format, alignment and requires");
  pyd_manifest_variant_t* added =
      pyd_json_grow(&r->json, (void**)&r->made->variants, &r->made->variant_count, sizeof(*added));
  if (added) *added = v;
}

// Reads one executable with its variants, which are consecutive in the manifest.
static void read_executable(reader_t* r) {
  enum { NAME = 1, VARIANTS = 2 };
  pyd_manifest_executable_t e = {.first_variant = r->made->variant_count};
  pyd_json_list_t list = {false}, variants = {false};
  pyd_string_t key;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "name")) {
      once(r, &seen, NAME), pyd_json_text(&r->json, &e.name);
    } else if (pyd_text_is(key, "variants")) {
      once(r, &seen, VARIANTS);
      while (pyd_json_element(&r->json, &variants)) read_variant(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, NAME | VARIANTS, "an executable with name and variants");
  e.variant_count = r->made->variant_count - e.first_variant;
  pyd_manifest_executable_t* added =
      pyd_json_grow(&r->json, (void**)&r->made->executables, &r->made->executable_count, sizeof(*added));
  if (added) *added = e;
}

// Reads the member "pydispatch", whose format must be 1.
static void read_header(reader_t* r) {
  pyd_json_list_t list = {false};
  pyd_string_t key;
  uint64_t format = 0;
  uint32_t seen = 0;
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "format")) {
      once(r, &seen, /* bit */ 1), pyd_json_number(&r->json, &format);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  if (format != 1) pyd_json_refuse(&r->json, "format 1");
}

static void read_all(reader_t* r) {
  enum { HEADER = 1, EXECUTABLES = 2 };
  pyd_json_list_t list = {false}, executables = {false};
  pyd_string_t key;
  uint32_t seen = 0;
  pyd_json_skip_space(&r->json);
  while (pyd_json_member(&r->json, &list, &key)) {
    if (pyd_text_is(key, "pydispatch")) {
      once(r, &seen, HEADER), read_header(r);
    } else if (pyd_text_is(key, "executables")) {
      once(r, &seen, EXECUTABLES);
      while (pyd_json_element(&r->json, &executables)) read_executable(r);
    } else {
      pyd_json_skip(&r->json);
    }
  }
  need(r, seen, HEADER | EXECUTABLES, "an object with pydispatch and executables");
  pyd_json_finish(&r->json);
}

pyd_status_t pyd_manifest_read(pyd_span_t bytes, pyd_manifest_t* out_manifest) {
  *out_manifest = (pyd_manifest_t){.text = malloc(bytes.size + 1)};
  if (!out_manifest->text || bytes.size >= UINT32_MAX) {
    pyd_manifest_free(out_manifest);
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a manifest of %zu bytes", bytes.size);
  }
  if (bytes.size) memcpy(out_manifest->text, bytes.data, bytes.size);
  // The parser decodes strings in place, so it works on a copy.
  reader_t r = {.json = {.text = out_manifest->text, .size = bytes.size}, .made = out_manifest};
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
  *manifest = (pyd_manifest_t){0};
}
