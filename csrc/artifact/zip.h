// Places of the zip format that the reader needs (PKWARE APPNOTE 4.3 and 4.5): byte offsets inside each record.
#ifndef PYD_ARTIFACT_ZIP_H_
#define PYD_ARTIFACT_ZIP_H_

#include <stdint.h>

// Signatures of the records of a zip file, byte offsets of their fields, and their sizes (PKWARE's APPNOTE, chapter 4).
enum {
  PYD_ZIP_LOCAL_SIGNATURE = 0x04034B50,
  PYD_ZIP_ENTRY_SIGNATURE = 0x02014B50,
  PYD_ZIP_END_SIGNATURE = 0x06054B50,
  PYD_ZIP_END64_SIGNATURE = 0x06064B50,
  PYD_ZIP_LOCATOR_SIGNATURE = 0x07064B50,

  // Local header, before each member.
  PYD_ZIP_LOCAL_FLAGS = 6,
  PYD_ZIP_LOCAL_METHOD = 8,
  PYD_ZIP_LOCAL_CRC = 14,
  PYD_ZIP_LOCAL_PACKED = 18,
  PYD_ZIP_LOCAL_SIZE = 22,
  PYD_ZIP_LOCAL_NAME_LENGTH = 26,
  PYD_ZIP_LOCAL_EXTRA_LENGTH = 28,
  PYD_ZIP_LOCAL_BYTES = 30,

  // Entry of the central directory.
  PYD_ZIP_ENTRY_FLAGS = 8,
  PYD_ZIP_ENTRY_METHOD = 10,
  PYD_ZIP_ENTRY_CRC = 16,
  PYD_ZIP_ENTRY_PACKED = 20,
  PYD_ZIP_ENTRY_SIZE = 24,
  PYD_ZIP_ENTRY_NAME_LENGTH = 28,
  PYD_ZIP_ENTRY_EXTRA_LENGTH = 30,
  PYD_ZIP_ENTRY_COMMENT_LENGTH = 32,
  PYD_ZIP_ENTRY_DISK = 34,
  PYD_ZIP_ENTRY_LOCAL_OFFSET = 42,
  PYD_ZIP_ENTRY_BYTES = 46,

  // End of the central directory.
  PYD_ZIP_END_DISK = 4,
  PYD_ZIP_END_DIRECTORY_DISK = 6,
  PYD_ZIP_END_COUNT_HERE = 8,
  PYD_ZIP_END_COUNT = 10,
  PYD_ZIP_END_DIRECTORY_SIZE = 12,
  PYD_ZIP_END_DIRECTORY_OFFSET = 16,
  PYD_ZIP_END_COMMENT_LENGTH = 20,
  PYD_ZIP_END_BYTES = 22,

  // End of the central directory with 64-bit fields (zip64), and the locator: the record with its offset.
  PYD_ZIP_END64_RECORD_SIZE = 4,  // without the 12 bytes up to its own end
  PYD_ZIP_END64_DISK = 16,
  PYD_ZIP_END64_DIRECTORY_DISK = 20,
  PYD_ZIP_END64_COUNT_HERE = 24,
  PYD_ZIP_END64_COUNT = 32,
  PYD_ZIP_END64_DIRECTORY_SIZE = 40,
  PYD_ZIP_END64_DIRECTORY_OFFSET = 48,
  PYD_ZIP_END64_BYTES = 56,
  PYD_ZIP_LOCATOR_DISK = 4,
  PYD_ZIP_LOCATOR_OFFSET = 8,
  PYD_ZIP_LOCATOR_DISKS = 16,
  PYD_ZIP_LOCATOR_BYTES = 20,

  PYD_ZIP_EXTRA_ZIP64 = 0x0001,
  PYD_ZIP_FLAG_ENCRYPTED = 0x0001,
  PYD_ZIP_FLAG_DESCRIPTOR = 0x0008,
  PYD_ZIP_FLAG_UTF8 = 0x0800,
  PYD_ZIP_METHOD_STORED = 0,
};

#define PYD_ZIP_FULL16 0xFFFFu  // the value of such a field is in a zip64 record
#define PYD_ZIP_FULL32 0xFFFFFFFFu

// Where the central directory of a zip file is: the list of its entries.
typedef struct pyd_zip_end_s {
  uint64_t count;
  uint64_t directory_offset;
  uint64_t directory_size;
} pyd_zip_end_t;

// One entry of the central directory: a file in the zip file. Values from zip64 records replace the 32-bit fields.
typedef struct pyd_zip_entry_s {
  const char* name;       // in the bytes of the zip file, not terminated
  uint16_t name_length;   // bytes
  uint16_t flags;         // PYD_ZIP_FLAG_*
  uint16_t method;        // of compression
  uint32_t crc32;         // of the uncompressed data
  uint64_t packed_size;   // bytes of the data in the zip file
  uint64_t size;          // bytes of the uncompressed data
  uint64_t local_offset;  // of the local header, from the start of the zip file
} pyd_zip_entry_t;

#endif  // PYD_ARTIFACT_ZIP_H_
