// What every system with ELF libraries checks before it opens one. Included by the dl_<os>.c files alone.
#ifndef PYD_PLATFORM_DL_ELF_H_
#define PYD_PLATFORM_DL_ELF_H_

#include <inttypes.h>

#include "base/span.h"
#include "platform/dl.h"
#include "platform/sanitizer.h"
#include "pydispatch/elf.h"

enum { kElfHeader = 64, kElfShared = 3, kProgramHeader = 56, kDynamicEntry = 16 };

static pyd_status_t check_elf_header(pyd_span_t file) {
  const uint8_t* header = pyd_span_get(file, 0, kElfHeader);
  if (file.size < 4 || memcmp(file.data, "\177ELF", 4) != 0) {
    return pyd_status_make(PYD_CODE_CORRUPT, "is not an ELF file: it does not start with 7F 45 4C 46");
  }
  if (!header) return pyd_status_make(PYD_CODE_CORRUPT, "is cut off after %zu bytes, an ELF header has 64", file.size);
  if (header[4] != 2 || header[5] != 1) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "has ELF class %u and byte order %u, expected 2 and 1 (64-bit, little-endian)",
                           header[4], header[5]);
  }
  uint32_t type = pyd_load_u16(header + 16), machine = pyd_load_u16(header + 18), host = pyd_elf_machine_host();
  if (machine != host) {
    const char* name = pyd_elf_machine_name(machine);
    const char* host_name = pyd_elf_machine_name(host);
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "is for %s (ELF machine %u), this machine is %s",
                           name ? name : "another machine", machine, host_name ? host_name : "of another kind");
  }
  if (type != kElfShared) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "has ELF type %u, expected 3: link it with -shared", type);
  }
  return PYD_STATUS_OK;
}

// The bytes of the file that are loaded at |vaddr|, up to the end of their segment.
static pyd_span_t loaded_bytes(pyd_span_t file, const uint8_t* headers, uint32_t count, uint64_t vaddr) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* header = headers + (size_t)i * kProgramHeader;
    uint64_t offset = pyd_load_u64(header + 8), start = pyd_load_u64(header + 16), size = pyd_load_u64(header + 32);
    if (pyd_load_u32(header) != 1 || vaddr < start || vaddr - start >= size) continue;
    const uint8_t* bytes = pyd_span_get(file, offset, size);
    if (bytes) return (pyd_span_t){bytes + (vaddr - start), (size_t)(size - (vaddr - start))};
  }
  return (pyd_span_t){0};
}

// The names of the symbols that a library defines or asks for.
static pyd_span_t symbol_names(pyd_span_t file) {
  uint32_t count = pyd_load_u16(file.data + 56);
  const uint8_t* headers = pyd_span_get(file, pyd_load_u64(file.data + 32), (uint64_t)count * kProgramHeader);
  if (!headers || pyd_load_u16(file.data + 54) != kProgramHeader) return (pyd_span_t){0};
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* header = headers + (size_t)i * kProgramHeader;
    if (pyd_load_u32(header) != 2) continue;
    uint64_t size = pyd_load_u64(header + 32), address = 0, length = 0;
    const uint8_t* entries = pyd_span_get(file, pyd_load_u64(header + 8), size);
    for (uint64_t at = 0; entries && size >= kDynamicEntry && at <= size - kDynamicEntry; at += kDynamicEntry) {
      uint64_t tag = pyd_load_u64(entries + at);
      if (tag == 0) break;
      if (tag == 5) address = pyd_load_u64(entries + at + 8);
      if (tag == 10) length = pyd_load_u64(entries + at + 8);
    }
    pyd_span_t names = loaded_bytes(file, headers, count, address);
    if (length < names.size) names.size = (size_t)length;
    return names;
  }
  return (pyd_span_t){0};
}

static bool has_name(pyd_span_t names, const char* name) {
  size_t length = strlen(name) + 1;
  for (size_t i = 0; i + length <= names.size; ++i) {
    if (names.data[i] == (uint8_t)name[0] && memcmp(names.data + i, name, length) == 0) return true;
  }
  return false;
}

// A sanitizer's runtime ends the process when it is not the first thing that runs in it, so such a library must not even be
// opened by a host without it.
static pyd_status_t check_elf_sanitizer(pyd_span_t file) {
  static const struct {
    const char* symbol;
    const char* name;
    bool is_ours;
  } kRuntimes[] = {
      {"__asan_init", "address", PYD_HAS_ASAN},
      {"__tsan_init", "thread", PYD_HAS_TSAN},
      {"__msan_init", "memory", false},
  };
  pyd_span_t names = symbol_names(file);
  for (size_t i = 0; i < sizeof(kRuntimes) / sizeof(kRuntimes[0]); ++i) {
    if (!kRuntimes[i].is_ours && has_name(names, kRuntimes[i].symbol)) {
      return pyd_status_make(PYD_CODE_UNSUPPORTED, "was built with the %s sanitizer, which this process was not: build it without",
                             kRuntimes[i].name);
    }
  }
  return PYD_STATUS_OK;
}

#endif  // PYD_PLATFORM_DL_ELF_H_
