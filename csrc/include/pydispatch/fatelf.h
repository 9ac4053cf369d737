// FatELF: several ELF files, one per machine, in one file (".sos"). Reading works on any bytes and allocates nothing.
#ifndef PYDISPATCH_FATELF_H_
#define PYDISPATCH_FATELF_H_

#include <stdbool.h>

#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Little-endian throughout. A header of 8 bytes {u32 magic, u16 version, u8 record count, u8 reserved}, then records of
// 24 {u16 machine, u8 osabi, u8 osabi version, u8 word size, u8 byte order, u16 reserved, u64 offset, u64 size}.
#define PYD_FATELF_MAGIC 0x1F0E70FAu
#define PYD_FATELF_VERSION 1u
#define PYD_FATELF_HEADER_SIZE 8u
#define PYD_FATELF_RECORD_SIZE 24u
#define PYD_FATELF_MAX_RECORDS 255u

// An entry of the directory: one ELF file for one machine.
typedef struct pyd_fatelf_record_s {
  uint16_t machine;  // as in an ELF header
  uint8_t osabi;
  uint8_t osabi_version;
  uint8_t word_size;   // 1: 32 bits, 2: 64 bits
  uint8_t byte_order;  // 0: big, 1: little (an ELF header says 2 and 1)
  uint64_t offset;     // of the ELF file, in the whole file
  uint64_t size;       // bytes
} pyd_fatelf_record_t;

// Whether |file| begins like a FatELF; otherwise it may be a plain ELF file.
bool pyd_fatelf_is(pyd_span_t file);

// Reads the number of records from the header. CORRUPT when they do not fit into the file, UNSUPPORTED for a version
// other than 1.
pyd_status_t pyd_fatelf_open(pyd_span_t file, uint32_t* out_count);
// Reads record |index| of a file that pyd_fatelf_open accepted, and its ELF file (|out_elf| may be
// NULL). CORRUPT, with the numbers, when that lies outside the file or overlaps the records.
pyd_status_t pyd_fatelf_record(pyd_span_t file, uint32_t index, pyd_fatelf_record_t* out_record, pyd_span_t* out_elf);

// The ELF file for |machine|, from the first record for it that is 64-bit, little-endian and made for no specific
// system, for Linux or for bare machines (osabi 0, 3, 255). A file that is not a FatELF is returned unchanged.
// UNSUPPORTED, with the machines present, when none fits. |machine_name| is for that message.
pyd_status_t pyd_fatelf_select(pyd_span_t file, uint32_t machine, const char* machine_name, pyd_span_t* out_elf);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_FATELF_H_
