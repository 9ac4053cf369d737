// Reader of FatELF: several ELF files in one, each with a record of the machine that it is for.
#include "pydispatch/fatelf.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/span.h"

#define CORRUPT(...) pyd_status_make(PYD_CODE_CORRUPT, "FatELF: " __VA_ARGS__)
#define UNSUPPORTED(...) pyd_status_make(PYD_CODE_UNSUPPORTED, "FatELF: " __VA_ARGS__)

// Returns whether |file| begins like a FatELF archive.
bool pyd_fatelf_is(pyd_span_t file) {
  const uint8_t* magic = pyd_span_get(file, 0, 4);
  return magic && pyd_load_u32(magic) == PYD_FATELF_MAGIC;
}

// Checks the header {u32 magic, u16 version, u8 number of records, u8 reserved}, and that the records are in the file.
pyd_status_t pyd_fatelf_open(pyd_span_t file, uint32_t* out_count) {
  *out_count = 0;
  if (!pyd_fatelf_is(file)) return CORRUPT("the file does not start with FA 70 0E 1F");
  const uint8_t* header = pyd_span_get(file, 0, PYD_FATELF_HEADER_SIZE);
  if (!header) return CORRUPT("cut off after %zu bytes, the header has %u", file.size, PYD_FATELF_HEADER_SIZE);
  uint32_t version = pyd_load_u16(header + 4), count = header[6];
  if (version != PYD_FATELF_VERSION) return UNSUPPORTED("has version %u, version 1 can be read", version);
  if (!pyd_span_get(file, PYD_FATELF_HEADER_SIZE, (uint64_t)count * PYD_FATELF_RECORD_SIZE)) {
    return CORRUPT("%u records need %u bytes, the file has %zu: is it cut off?", count,
                   PYD_FATELF_HEADER_SIZE + count * PYD_FATELF_RECORD_SIZE, file.size);
  }
  *out_count = count;
  return PYD_STATUS_OK;
}

// Reads record |index|, which is in the file.
static void read_record(pyd_span_t file, uint32_t index, pyd_fatelf_record_t* out_record) {
  const uint8_t* bytes = file.data + PYD_FATELF_HEADER_SIZE + (size_t)index * PYD_FATELF_RECORD_SIZE;
  *out_record = (pyd_fatelf_record_t){
      .machine = pyd_load_u16(bytes),
      .osabi = bytes[2],
      .osabi_version = bytes[3],
      .word_size = bytes[4],
      .byte_order = bytes[5],
      .offset = pyd_load_u64(bytes + 8),
      .size = pyd_load_u64(bytes + 16),
  };
}

// Reads record |index| of a file that pyd_fatelf_open accepted, and its ELF file (|out_elf| may be NULL).
pyd_status_t pyd_fatelf_record(pyd_span_t file, uint32_t index, pyd_fatelf_record_t* out_record, pyd_span_t* out_elf) {
  uint32_t count;
  *out_record = (pyd_fatelf_record_t){0};
  if (out_elf) *out_elf = (pyd_span_t){0};
  pyd_status_t status = pyd_fatelf_open(file, &count);
  if (!pyd_ok(status)) return status;
  if (index >= count) return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "FatELF: record %u of %u", index, count);
  read_record(file, index, out_record);
  uint64_t table_end = PYD_FATELF_HEADER_SIZE + (uint64_t)count * PYD_FATELF_RECORD_SIZE;
  const uint8_t* data = pyd_span_get(file, out_record->offset, out_record->size);
  if (!data || out_record->offset < table_end || out_record->size == 0) {
    return CORRUPT("record %u covers %" PRIu64 " bytes at %" PRIu64 "; a file of %zu bytes has room from %" PRIu64
                   " on: is it cut off?",
                   index, out_record->size, out_record->offset, file.size, table_end);
  }
  if (out_elf) *out_elf = (pyd_span_t){data, (size_t)out_record->size};
  return PYD_STATUS_OK;
}

// Returns whether the ELF file of a record can be loaded on |machine|: it is a 64-bit little-endian file, for no
// specific system, Linux or bare machines.
static bool fits(const pyd_fatelf_record_t* record, uint32_t machine) {
  enum { ELFOSABI_NONE = 0, ELFOSABI_LINUX = 3, ELFOSABI_STANDALONE = 255 };
  const bool is_64_bit = record->word_size == 2, is_little_endian = record->byte_order == 1;
  const bool is_system =
      record->osabi == ELFOSABI_NONE || record->osabi == ELFOSABI_LINUX || record->osabi == ELFOSABI_STANDALONE;
  return record->machine == machine && is_64_bit && is_little_endian && is_system;
}

// Returns the failure of an archive without a record for |machine_name|. Lists the machines of the records, as many as
// fit into the text.
static pyd_status_t report_none(pyd_span_t file, uint32_t count, const char* machine_name) {
  char list[256] = "";
  size_t length = 0;
  for (uint32_t i = 0; i < count && length + 16 < sizeof(list); ++i) {
    pyd_fatelf_record_t record;
    read_record(file, i, &record);
    // Numbers of machines as in ELF headers (e_machine).
    const char* name = record.machine == 62    ? "x86_64"
                       : record.machine == 183 ? "aarch64"
                       : record.machine == 243 ? "riscv64"
                                               : NULL;
    const char* separator = i ? ", " : "";
    // 16 bytes hold any of them with its separator: ", machine 65535" and a 0.
    int written = name ? snprintf(list + length, sizeof(list) - length, "%s%s", separator, name)
                       : snprintf(list + length, sizeof(list) - length, "%smachine %u", separator, record.machine);
    length += (size_t)written;
  }
  return UNSUPPORTED("has no record for %s; it has %s", machine_name, count ? list : "none at all");
}

// Returns in |*out_elf| the ELF file of the first record for |machine|; |file| itself unless it is a FatELF archive.
// UNSUPPORTED if no record fits.
pyd_status_t pyd_fatelf_select(pyd_span_t file, uint32_t machine, const char* machine_name, pyd_span_t* out_elf) {
  uint32_t count;
  *out_elf = file;
  if (!pyd_fatelf_is(file)) return PYD_STATUS_OK;
  *out_elf = (pyd_span_t){0};
  pyd_status_t status = pyd_fatelf_open(file, &count);
  for (uint32_t i = 0; pyd_ok(status) && i < count; ++i) {
    pyd_fatelf_record_t record;
    read_record(file, i, &record);
    if (fits(&record, machine)) return pyd_fatelf_record(file, i, &record, out_elf);
  }
  return pyd_ok(status) ? report_none(file, count, machine_name) : status;
}
