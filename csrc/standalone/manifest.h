// The part of an artifact's manifest that loading reads: the variants of its executables.
#ifndef PYD_STANDALONE_MANIFEST_H_
#define PYD_STANDALONE_MANIFEST_H_

#include "pydispatch/program.h"

typedef struct pyd_manifest_variant_s {
  pyd_string_t name, member, format;
  uint32_t alignment;  // a power of two up to 4096
  uint32_t first_requirement, requirement_count;
  uint32_t first_contract, contract_count;  // by ordinal; PYD_PROGRAM_NONE: the export has none
  bool has_contracts;
  bool is_dynamic;  // the device supplies its code
} pyd_manifest_variant_t;

typedef struct pyd_manifest_executable_s {
  pyd_string_t name;
  uint32_t first_variant, variant_count;
} pyd_manifest_executable_t;

typedef struct pyd_manifest_s {
  char* text;  // a copy, which all strings point into
  pyd_manifest_executable_t* executables;
  pyd_manifest_variant_t* variants;
  pyd_string_t* requirements;  // features of CPUs
  uint32_t* contracts;
  uint32_t executable_count, variant_count, requirement_count, contract_count;
} pyd_manifest_t;

// Accepts any bytes. CORRUPT names the byte, and what was expected there. On failure |out_manifest| is zero.
pyd_status_t pyd_manifest_read(pyd_span_t bytes, pyd_manifest_t* out_manifest);
void pyd_manifest_free(pyd_manifest_t* manifest);

#endif  // PYD_STANDALONE_MANIFEST_H_
