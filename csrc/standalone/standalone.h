// Devices and programs that belong to no Python object.
#ifndef PYD_STANDALONE_STANDALONE_H_
#define PYD_STANDALONE_STANDALONE_H_

#include "api/internal.h"
#include "pydispatch/artifact.h"
#include "standalone/manifest.h"

// choose.c: what programs may ask about this machine. |out_found|: whether it is known here. UNSUPPORTED.
pyd_status_t pyd_standalone_answer(const pyd_program_query_t* query, uint32_t workers, bool* out_found, uint64_t* out_value);
// Of the variants of executable |index| that run here the one with the most requirements, the first of equals: its number among
// those of the executable. UNAVAILABLE when none does, CORRUPT when manifest and program differ.
pyd_status_t pyd_standalone_choose(const pyd_manifest_t* manifest, const pyd_program_t* program, uint32_t index,
                                   uint32_t* out_variant);

// load.c: the bytes of an artifact, which are freed or unmapped with the program, and after a failure.
typedef struct pyd_standalone_source_s {
  pyd_span_t file;
  pyd_file_map_t map;  // of a file
  void* copy;          // of bytes, 64-byte aligned: a block of the device's pool
} pyd_standalone_source_t;
pyd_status_t pyd_standalone_load(pyd_api_device_t* device, pyd_standalone_source_t source, pyd_api_program_t** out_program);

#endif  // PYD_STANDALONE_STANDALONE_H_
