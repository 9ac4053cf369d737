#ifndef PYD_PROCESS_DEBUG_IMAGE_H_
#define PYD_PROCESS_DEBUG_IMAGE_H_

#include "pydispatch/process.h"

// An ELF file in memory that tells a debugger the names of |info|'s symbols at their absolute addresses: a .text
// section without content, .symtab, .strtab. The caller frees |out_bytes|. OUT_OF_MEMORY.
pyd_status_t pyd_process_debug_image_make(const pyd_process_code_info_t* info, uint8_t** out_bytes, size_t* out_size);

#endif  // PYD_PROCESS_DEBUG_IMAGE_H_
