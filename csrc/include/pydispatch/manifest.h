// Reading the manifest of an artifact: what loading needs of it, which is the variants of executables and the names of
// functions. The parts for people are only checked.
#ifndef PYDISPATCH_MANIFEST_H_
#define PYDISPATCH_MANIFEST_H_

#include "pydispatch/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// The code of an executable for one target. |member|: the member of the artifact that has the code. |format|: kind of
// code and architecture, such as "embedded-elf-x86_64".
typedef struct pyd_manifest_variant_s {
  pyd_string_t name, member, format;
  uint32_t alignment;  // that bindings need, in bytes; a power of two up to PYD_POOL_ALIGNMENT
  uint32_t first_requirement, requirement_count;
  uint32_t first_contract, contract_count;  // by ordinal of the export; PYD_PROGRAM_NONE: the export has none
  uint32_t import_count;
  bool has_contracts;  // the manifest lists contracts for it, perhaps none
  bool is_dynamic;     // |member| is empty: the code is supplied when the program is loaded
} pyd_manifest_variant_t;

// An executable with its variants. Of the variants that run on a machine, the one with the most requirements is chosen;
// the earlier one of equals.
typedef struct pyd_manifest_executable_s {
  pyd_string_t name;
  uint32_t export_count;
  uint32_t first_variant, variant_count;
} pyd_manifest_executable_t;

// A manifest of an artifact, as far as the runtime reads it. Each executable has a range of |variants|, each variant a
// range of |requirements| and of |contracts|. pyd_manifest_free() frees it.
typedef struct pyd_manifest_s {
  char* text;  // a copy, which all strings point into
  pyd_manifest_executable_t* executables;
  pyd_manifest_variant_t* variants;
  pyd_string_t* requirements;  // names of device features, such as "avx2"
  uint32_t* contracts;         // indices of functions of contracts.bin, which bound the accesses of an export
  pyd_string_t* functions;     // names, sorted, no name twice
  uint32_t executable_count, variant_count, requirement_count, contract_count, function_count;
} pyd_manifest_t;

// Accepts any bytes. CORRUPT names the byte, and what was expected there. On failure |out_manifest| is zero.
pyd_status_t pyd_manifest_read(pyd_span_t bytes, pyd_manifest_t* out_manifest);
void pyd_manifest_free(pyd_manifest_t* manifest);

// Returns whether a function of the manifest has the name. Logarithmic in the number of functions.
bool pyd_manifest_has_function(const pyd_manifest_t* manifest, pyd_string_t name);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_MANIFEST_H_
