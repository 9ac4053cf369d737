// Readers of the records of a zip file, each checked by itself. open.c checks how the records fit together.
#include "artifact/zip_read.h"

#include <string.h>

#include "base/span.h"

// Returns a CORRUPT failure about a record at |offset| in the file. |fault|: what is wrong, for the text.
static pyd_status_t corrupt_end(const char* fault, uint64_t offset) {
  return pyd_status_make(PYD_CODE_CORRUPT, "not a usable artifact: %s at offset %llu", fault,
                         (unsigned long long)offset);
}

// Finds the offset of the end record. A comment of up to 65,535 bytes follows it, so its signature is searched
// backwards from the end of the file. The last signature counts, and its comment must reach exactly to the end of the
// file: a file that two readers interpret differently would be two archives.
static pyd_status_t find_end(pyd_span_t file, uint64_t* out_offset) {
  if (file.size < PYD_ZIP_END_BYTES) {
    return pyd_status_make(PYD_CODE_CORRUPT, "not an artifact: %zu bytes are too few for a zip file", file.size);
  }
  // The offsets of a record with an empty comment, and with the longest one.
  uint64_t last = file.size - PYD_ZIP_END_BYTES;
  uint64_t first = last > PYD_ZIP_FULL16 ? last - PYD_ZIP_FULL16 : 0;
  for (uint64_t offset = last;; --offset) {
    const uint8_t* record = pyd_span_get(file, offset, PYD_ZIP_END_BYTES);
    if (pyd_load_u32(record) == PYD_ZIP_END_SIGNATURE) {
      uint64_t comment = pyd_load_u16(record + PYD_ZIP_END_COMMENT_LENGTH);
      if (offset + PYD_ZIP_END_BYTES + comment != file.size) {
        return pyd_status_make(
            PYD_CODE_CORRUPT, "the zip comment has %llu bytes, but %llu follow the end record at offset %llu",
            (unsigned long long)comment, (unsigned long long)(last - offset), (unsigned long long)offset);
      }
      *out_offset = offset;
      return PYD_STATUS_OK;
    }
    if (offset == first) break;
  }
  bool is_start = pyd_load_u32(file.data) == PYD_ZIP_LOCAL_SIGNATURE;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         is_start ? "the zip file has no end record: it was cut off after %zu bytes"
                                  : "not an artifact: no zip end record in %zu bytes",
                         file.size);
}

// Returns whether a narrow field of the end record agrees with its zip64 field |wide|: it holds the same value, or the
// mark |full| (all bits set), which says that the value is in the zip64 field.
static bool agrees(uint64_t narrow, uint64_t full, uint64_t wide) { return narrow == full || narrow == wide; }

// Returns whether the bytes of the end record |end| agree with |wide|, the values of the zip64 end record |record|.
static bool end_records_agree(const uint8_t* record, const uint8_t* end, const pyd_zip_end_t* wide) {
  const bool is_one_volume = wide->count == pyd_load_u64(record + PYD_ZIP_END64_COUNT_HERE);
  return is_one_volume && agrees(pyd_load_u16(end + PYD_ZIP_END_COUNT), PYD_ZIP_FULL16, wide->count) &&
         agrees(pyd_load_u32(end + PYD_ZIP_END_DIRECTORY_SIZE), PYD_ZIP_FULL32, wide->directory_size) &&
         agrees(pyd_load_u32(end + PYD_ZIP_END_DIRECTORY_OFFSET), PYD_ZIP_FULL32, wide->directory_offset);
}

// Returns whether the directory ends at |offset|, where the end record begins: nothing may hide between them.
static bool directory_ends_at(const pyd_zip_end_t* end, uint64_t offset) {
  return end->directory_size <= offset && end->directory_offset == offset - end->directory_size;
}

// Reads the zip64 end record that the locator at |locator_offset| points to, and checks it against |end|, the bytes of
// the end record.
static pyd_status_t read_end64(pyd_span_t file, uint64_t locator_offset, const uint8_t* end, pyd_zip_end_t* out_end) {
  const uint8_t* locator = pyd_span_get(file, locator_offset, PYD_ZIP_LOCATOR_BYTES);
  uint64_t offset = pyd_load_u64(locator + PYD_ZIP_LOCATOR_OFFSET);
  const uint8_t* record = pyd_span_get(file, offset, PYD_ZIP_END64_BYTES);
  if (!record || offset > locator_offset) return corrupt_end("its zip64 locator leads nowhere,", locator_offset);
  if (pyd_load_u32(record) != PYD_ZIP_END64_SIGNATURE) return corrupt_end("no zip64 end record", offset);
  uint64_t size = pyd_load_u64(record + PYD_ZIP_END64_RECORD_SIZE);
  // The record states its size without its first 12 bytes: signature and this field.
  // The record must end where its locator begins.
  if (size < PYD_ZIP_END64_BYTES - 12 || size != locator_offset - offset - 12) {
    return corrupt_end("wrong length of the zip64 end record", offset);
  }
  if (pyd_load_u32(locator + PYD_ZIP_LOCATOR_DISK) != 0 || pyd_load_u32(locator + PYD_ZIP_LOCATOR_DISKS) > 1 ||
      pyd_load_u32(record + PYD_ZIP_END64_DISK) != 0 || pyd_load_u32(record + PYD_ZIP_END64_DIRECTORY_DISK) != 0) {
    return corrupt_end("the zip file is split over several volumes: end record", offset);
  }
  out_end->count = pyd_load_u64(record + PYD_ZIP_END64_COUNT);
  out_end->directory_size = pyd_load_u64(record + PYD_ZIP_END64_DIRECTORY_SIZE);
  out_end->directory_offset = pyd_load_u64(record + PYD_ZIP_END64_DIRECTORY_OFFSET);
  if (!end_records_agree(record, end, out_end))
    return corrupt_end("the two end records of the zip file disagree,", offset);
  return directory_ends_at(out_end, offset)
             ? PYD_STATUS_OK
             : corrupt_end("the zip directory does not end where its zip64 end record starts,", offset);
}

// Returns whether the locator of a zip64 end record directly precedes the end record at |offset|.
static bool has_locator(pyd_span_t file, uint64_t offset) {
  if (offset < PYD_ZIP_LOCATOR_BYTES) return false;
  const uint8_t* locator = pyd_span_get(file, offset - PYD_ZIP_LOCATOR_BYTES, PYD_ZIP_LOCATOR_BYTES);
  return locator && pyd_load_u32(locator) == PYD_ZIP_LOCATOR_SIGNATURE;
}

// Fills in number of entries, size and offset of the directory, from the zip64 end record if there is one, else from
// the end record. Refuses files that are split over several volumes (disks).
pyd_status_t pyd_zip_read_end(pyd_span_t file, pyd_zip_end_t* out_end) {
  uint64_t offset = 0;
  pyd_status_t status = find_end(file, &offset);
  if (!pyd_ok(status)) return status;
  const uint8_t* end = pyd_span_get(file, offset, PYD_ZIP_END_BYTES);
  uint16_t disk = pyd_load_u16(end + PYD_ZIP_END_DISK);
  uint16_t count_here = pyd_load_u16(end + PYD_ZIP_END_COUNT_HERE);
  out_end->count = pyd_load_u16(end + PYD_ZIP_END_COUNT);
  out_end->directory_size = pyd_load_u32(end + PYD_ZIP_END_DIRECTORY_SIZE);
  out_end->directory_offset = pyd_load_u32(end + PYD_ZIP_END_DIRECTORY_OFFSET);
  const bool is_first_disk = disk == 0 || disk == PYD_ZIP_FULL16;  // all bits set: the zip64 end record has the number
  if (disk != pyd_load_u16(end + PYD_ZIP_END_DIRECTORY_DISK) || !is_first_disk || count_here != out_end->count) {
    return corrupt_end("the zip file is split over several volumes: end record", offset);
  }
  if (has_locator(file, offset)) return read_end64(file, offset - PYD_ZIP_LOCATOR_BYTES, end, out_end);
  if (directory_ends_at(out_end, offset)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "the zip directory (%llu bytes at offset %llu) does not end at its end record at offset %llu",
                         (unsigned long long)out_end->directory_size, (unsigned long long)out_end->directory_offset,
                         (unsigned long long)offset);
}

// Walks the fields of the extra area of a header: 16 bits of tag, 16 bits of length, content. |*out_field| becomes the
// content of the zip64 field, or empty if there is none. Returns false if a field leaves the area or zip64 is repeated.
static bool find_zip64(pyd_span_t extra, pyd_span_t* out_field) {
  *out_field = (pyd_span_t){0};
  for (uint64_t at = 0; at < extra.size;) {
    const uint8_t* header = pyd_span_get(extra, at, 4);
    if (!header) return false;
    uint16_t length = pyd_load_u16(header + 2);
    const uint8_t* content = pyd_span_get(extra, at + 4, length);
    if (!content) return false;
    if (pyd_load_u16(header) == PYD_ZIP_EXTRA_ZIP64) {
      if (out_field->data) return false;
      *out_field = (pyd_span_t){content, length};
    }
    at += 4u + length;
  }
  return true;
}

// Replaces |*value| by the next 64-bit value of the zip64 |field| if all 32 bits of |*value| are set, which mark a
// value that does not fit. Removes the 64-bit value from |field|. Returns false if |field| has no value left.
static bool widen(uint64_t* value, pyd_span_t* field) {
  if (*value != PYD_ZIP_FULL32) return true;
  const uint8_t* wide = pyd_span_get(*field, 0, 8);
  if (!wide) return false;
  *value = pyd_load_u64(wide);
  *field = (pyd_span_t){field->data + 8, field->size - 8};
  return true;
}

// Reads the entry at |*offset| of |directory| and moves |*offset| past it. |index|: number of the entry, for messages.
pyd_status_t pyd_zip_read_entry(pyd_span_t directory, uint64_t* offset, uint64_t index, pyd_zip_entry_t* out_entry) {
  const uint8_t* record = pyd_span_get(directory, *offset, PYD_ZIP_ENTRY_BYTES);
  if (!record || pyd_load_u32(record) != PYD_ZIP_ENTRY_SIGNATURE) {
    return pyd_status_make(PYD_CODE_CORRUPT, "entry %llu of the zip directory is broken: none at its byte %llu of %zu",
                           (unsigned long long)index, (unsigned long long)*offset, directory.size);
  }
  uint16_t name_length = pyd_load_u16(record + PYD_ZIP_ENTRY_NAME_LENGTH);
  uint16_t extra_length = pyd_load_u16(record + PYD_ZIP_ENTRY_EXTRA_LENGTH);
  uint16_t comment_length = pyd_load_u16(record + PYD_ZIP_ENTRY_COMMENT_LENGTH);
  // Bytes after the fixed part: the name, the extra fields and the comment.
  uint64_t tail = (uint64_t)name_length + extra_length + comment_length;
  const uint8_t* name = pyd_span_get(directory, *offset + PYD_ZIP_ENTRY_BYTES, tail);
  if (!name) {
    return pyd_status_make(PYD_CODE_CORRUPT, "entry %llu of the zip directory is broken: %llu bytes past its end",
                           (unsigned long long)index,
                           (unsigned long long)(*offset + PYD_ZIP_ENTRY_BYTES + tail - directory.size));
  }
  *out_entry = (pyd_zip_entry_t){
      .name = (const char*)name,
      .name_length = name_length,
      .flags = pyd_load_u16(record + PYD_ZIP_ENTRY_FLAGS),
      .method = pyd_load_u16(record + PYD_ZIP_ENTRY_METHOD),
      .crc32 = pyd_load_u32(record + PYD_ZIP_ENTRY_CRC),
      .packed_size = pyd_load_u32(record + PYD_ZIP_ENTRY_PACKED),
      .size = pyd_load_u32(record + PYD_ZIP_ENTRY_SIZE),
      .local_offset = pyd_load_u32(record + PYD_ZIP_ENTRY_LOCAL_OFFSET),
  };
  pyd_span_t zip64;
  if (!find_zip64((pyd_span_t){name + name_length, extra_length}, &zip64) || !widen(&out_entry->size, &zip64) ||
      !widen(&out_entry->packed_size, &zip64) || !widen(&out_entry->local_offset, &zip64)) {
    return pyd_status_make(PYD_CODE_CORRUPT, "entry %llu of the zip directory is broken: its extra fields do not fit",
                           (unsigned long long)index);
  }
  uint16_t disk = pyd_load_u16(record + PYD_ZIP_ENTRY_DISK);
  if (disk != 0 && disk != PYD_ZIP_FULL16) {
    return pyd_status_make(PYD_CODE_CORRUPT, "entry %llu of the zip directory lies on volume %u of a split zip file",
                           (unsigned long long)index, disk);
  }
  *offset += PYD_ZIP_ENTRY_BYTES + tail;  // the next entry
  return PYD_STATUS_OK;
}

// Reads the local header at |offset|, which precedes the data of a member. Returns false if the header is broken:
// |*out_fault|, which is set before each check, completes the text "the local header ...".
bool pyd_zip_read_local(pyd_span_t file, uint64_t offset, pyd_zip_entry_t* out_entry, uint64_t* out_data_offset,
                        const char** out_fault) {
  const uint8_t* record = pyd_span_get(file, offset, PYD_ZIP_LOCAL_BYTES);
  *out_fault = "lies outside the file";
  if (!record) return false;
  *out_fault = "has no signature";
  if (pyd_load_u32(record) != PYD_ZIP_LOCAL_SIGNATURE) return false;
  uint16_t name_length = pyd_load_u16(record + PYD_ZIP_LOCAL_NAME_LENGTH);
  uint16_t extra_length = pyd_load_u16(record + PYD_ZIP_LOCAL_EXTRA_LENGTH);
  const uint8_t* name = pyd_span_get(file, offset + PYD_ZIP_LOCAL_BYTES, (uint64_t)name_length + extra_length);
  *out_fault = "runs past the end of the file";
  if (!name) return false;
  *out_entry = (pyd_zip_entry_t){
      .name = (const char*)name,
      .name_length = name_length,
      .flags = pyd_load_u16(record + PYD_ZIP_LOCAL_FLAGS),
      .method = pyd_load_u16(record + PYD_ZIP_LOCAL_METHOD),
      .crc32 = pyd_load_u32(record + PYD_ZIP_LOCAL_CRC),
      .packed_size = pyd_load_u32(record + PYD_ZIP_LOCAL_PACKED),
      .size = pyd_load_u32(record + PYD_ZIP_LOCAL_SIZE),
      .local_offset = offset,
  };
  pyd_span_t zip64;
  *out_fault = "has extra fields that do not fit";
  if (!find_zip64((pyd_span_t){name + name_length, extra_length}, &zip64) || !widen(&out_entry->size, &zip64) ||
      !widen(&out_entry->packed_size, &zip64)) {
    return false;
  }
  *out_data_offset = offset + PYD_ZIP_LOCAL_BYTES + name_length + extra_length;
  *out_fault = NULL;
  return true;
}
