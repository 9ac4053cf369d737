// Memory of modules that are loaded together: one mapping, which is unmapped when the last module is freed.
#ifndef PYD_ELF_MAPPING_H_
#define PYD_ELF_MAPPING_H_

#include "elf/format.h"
#include "elf/view.h"

// Maps |count| > 0 images, writable, with the bytes that their files store, and sets the address of each in |modules|.
// On failure |modules| are as before. OUT_OF_MEMORY.
pyd_status_t pyd_elf_mapping_make(const pyd_elf_view_t* views, uint32_t count, pyd_elf_module_t* modules);

// Gives all |count| images of one mapping, which are relocated, their final protection. SYSTEM, OUT_OF_MEMORY.
pyd_status_t pyd_elf_mapping_protect(const pyd_elf_view_t* views, uint32_t count, const pyd_elf_module_t* modules);

// Drops the reference of one module. Any thread; NULL is allowed.
void pyd_elf_mapping_release(pyd_elf_mapping_t* mapping);

#endif  // PYD_ELF_MAPPING_H_
