// An embedded ELF for the running machine that is both a kernel library with the exports of sample.h and a plugin,
// written with elf_builder.h. Its kernels return 0, its plugin supplies nothing.
#ifndef PYD_TESTS_FAULTS_LIBRARY_ELF_H_
#define PYD_TESTS_FAULTS_LIBRARY_ELF_H_

#include <stddef.h>

#define builder_s elf_builder_s
#define builder_t elf_builder_t
#define put elf_put
#define built elf_built
#define expect elf_expect
#include "elf/elf_builder.h"
#undef builder_s
#undef builder_t
#undef put
#undef built
#undef expect

#include "pydispatch/library.h"
#include "pydispatch/plugin.h"

// The writable data, of 512 bytes. Pointers are addresses in the file, for relocations to move.
enum {
  E_LIBRARY = B_PLACE,
  E_PLUGIN = B_PLACE + 128,
  E_HEADER = B_PLACE + 160,
  E_TABLES = B_PLACE + 184,
  E_PLUGIN_HEADER = B_PLACE + 368,
  E_TEXTS = B_PLACE + 464
};

static inline void elf_pointer(elf_builder_t* b, uint64_t at, uint64_t to) {
  uint32_t host = pyd_elf_machine_host();
  add_rela(b, at, host == PYD_ELF_MACHINE_X86_64 ? 8 : host == PYD_ELF_MACHINE_AARCH64 ? 1027 : 3, 0, to);
}
static inline void elf_data(elf_builder_t* b, uint64_t at, uint32_t bytes, uint64_t value) {
  elf_put(b, at - B_DATA_FROM_FILE, bytes, value);
}

// At |vaddr|: a function that returns the address |to|, and one for 0 when that is 0.
static inline void elf_function(elf_builder_t* b, uint64_t vaddr, uint64_t to) {
  uint64_t at = vaddr - B_CODE_VADDR + B_CODE, distance = to - vaddr;
  switch (pyd_elf_machine_host()) {
    case PYD_ELF_MACHINE_X86_64:
      if (!to)
        elf_put(b, at, 3, 0xC3C031);  // xor eax, eax; ret
      else
        elf_put(b, at, 3, 0x058D48), elf_put(b, at + 3, 4, distance - 7),
            elf_put(b, at + 7, 1, 0xC3);  // lea rax, [rip + ...]; ret
      break;
    case PYD_ELF_MACHINE_AARCH64:  // mov x0, #0 or adr x0; ret
      elf_put(b, at, 4, to ? 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 : 0xD2800000);
      elf_put(b, at + 4, 4, 0xD65F03C0);
      break;
    default:  // li a0, 0 or auipc a0; addi a0; ret
      elf_put(b, at, 4, to ? 0x517 | ((distance + 0x800) & 0xFFFFF000) : 0x513);
      elf_put(b, at + 4, 4, to ? 0x50513 | (distance & 0xFFF) << 20 : 0x50513);
      elf_put(b, at + 8, 4, 0x8067);
  }
}

static inline pyd_span_t library_elf(void) {
  static elf_builder_t b;
  const uint64_t ptrs = E_TABLES, names = E_TABLES + 16, attrs = E_TABLES + 32, symbols = E_TABLES + 160;
  build_begin(&b, pyd_elf_machine_host());
  add_symbol(&b, PYD_LIBRARY_QUERY_SYMBOL, 1, 2, 1, B_CODE_VADDR);
  add_symbol(&b, PYD_PLUGIN_QUERY_SYMBOL, 1, 2, 1, B_CODE_VADDR + 16);
  elf_function(&b, B_CODE_VADDR, E_LIBRARY), elf_function(&b, B_CODE_VADDR + 16, E_PLUGIN),
      elf_function(&b, B_CODE_VADDR + 32, 0);
  const uint64_t zero = B_CODE_VADDR + 32;
  elf_pointer(&b, E_LIBRARY, E_HEADER);
  elf_data(&b, E_LIBRARY + offsetof(pyd_library_t, imports), 4, 2);
  elf_pointer(&b, E_LIBRARY + offsetof(pyd_library_t, imports.symbols), symbols);
  elf_pointer(&b, symbols, E_TEXTS + 14), elf_pointer(&b, symbols + 8, E_TEXTS + 12);
  elf_data(&b, E_LIBRARY + offsetof(pyd_library_t, exports), 4, 2);
  elf_pointer(&b, E_LIBRARY + offsetof(pyd_library_t, exports.ptrs), ptrs);
  elf_pointer(&b, E_LIBRARY + offsetof(pyd_library_t, exports.attrs), attrs);
  elf_pointer(&b, E_LIBRARY + offsetof(pyd_library_t, exports.names), names);
  elf_pointer(&b, ptrs, zero), elf_pointer(&b, ptrs + 8, zero);
  elf_pointer(&b, names, E_TEXTS), elf_pointer(&b, names + 8, E_TEXTS + 4);
  elf_data(&b, attrs + offsetof(pyd_library_export_attrs_t, constant_count), 1, 1);
  elf_data(&b, attrs + offsetof(pyd_library_export_attrs_t, binding_count), 1, 3);
  elf_data(&b, attrs + 64 + offsetof(pyd_library_export_attrs_t, binding_count), 1, 1);
  elf_data(&b, E_HEADER, 4, 6), elf_pointer(&b, E_HEADER + 8, E_TEXTS);
  elf_pointer(&b, E_PLUGIN, E_PLUGIN_HEADER);
  for (uint32_t i = 1; i < 4; ++i) elf_pointer(&b, E_PLUGIN + 8 * i, zero);
  elf_data(&b, E_PLUGIN_HEADER, 4, PYD_PLUGIN_VERSION), elf_pointer(&b, E_PLUGIN_HEADER + 8, E_TEXTS);
  elf_data(&b, E_PLUGIN_HEADER + 24, 4, PYD_PLUGIN_FEATURE_STANDALONE);
  memcpy(b.bytes + E_TEXTS - B_DATA_FROM_FILE, "mul\0touch\0\0\0b\0?a", 17);
  build_end(&b);
  return elf_built(&b);
}

#endif  // PYD_TESTS_FAULTS_LIBRARY_ELF_H_
