// The choice of variants for the CPU of this machine, which programs with and without Python share.
#ifndef PYD_STANDALONE_CHOOSE_H_
#define PYD_STANDALONE_CHOOSE_H_

#include "pydispatch/cpu.h"
#include "pydispatch/manifest.h"

// Properties of a machine, against which the requirements of variants are checked.
typedef struct pyd_standalone_machine_s {
  const char* format;  // of its executables, in IREE's spelling; "" when there are none for it
  uint64_t features[PYD_CPU_FEATURE_WORDS];
} pyd_standalone_machine_t;

// Describes the machine that runs this code. Querying the CPU takes microseconds, and far more in a virtual machine:
// call it once for a program, not for each variant.
void pyd_standalone_machine_host(pyd_standalone_machine_t* out_machine);

// Compares the executables and public functions of a manifest with its program. CORRUPT when their counts or the names
// of functions differ.
pyd_status_t pyd_standalone_compare(const pyd_manifest_t* manifest, const pyd_program_t* program);

// Chooses the variant of executable |index| with the most requirements that runs on |machine|, the first among equals.
// |*out_variant| is its index among the variants of the executable. UNAVAILABLE when no variant runs on |machine|,
// CORRUPT when manifest and program differ.
pyd_status_t pyd_standalone_choose(const pyd_manifest_t* manifest, const pyd_program_t* program, uint32_t index,
                                   const pyd_standalone_machine_t* machine, uint32_t* out_variant);

#endif  // PYD_STANDALONE_CHOOSE_H_
