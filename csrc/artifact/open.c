// Opens artifacts: makes members of the records of a zip file. The members must follow one another without a gap from
// the first byte of the file to the directory, in the directory's order: then they cannot overlap, nothing can hide
// between them, and one pass proves it.
#include "pydispatch/artifact.h"

#include <stdlib.h>
#include <string.h>

#include "artifact/zip_read.h"
#include "base/span.h"
#include "base/utf8.h"

enum {
  kAlignment = 64,    // bytes, of the data of each member in the file
  kMessageName = 96,  // bytes of a name that a message shows
};

// The directory of an artifact, a zip file whose members are stored without compression.
struct pyd_artifact_s {
  uint32_t count;
  const pyd_artifact_member_t** by_name;  // sorted
  pyd_artifact_member_t* members;         // in the order of the file
};

// A name from a broken file, made printable for a message: shortened, and without control characters.
typedef struct printable_s {
  char text[kMessageName + 4];  // "..." and a 0 may follow
} printable_t;

// Returns a name for messages: each byte that is no printable ASCII character is replaced by "?", and "..." replaces
// the bytes after the first kMessageName.
static printable_t printable(const char* name, size_t length) {
  printable_t result;
  size_t kept = length < kMessageName ? length : kMessageName;
  for (size_t i = 0; i < kept; ++i) {
    unsigned char c = (unsigned char)name[i];
    const bool is_printable = c >= 0x20 && c < 0x7F;
    result.text[i] = is_printable ? (char)c : '?';
  }
  if (kept < length) {
    memcpy(result.text + kept, "...", sizeof("..."));
  } else {
    result.text[kept] = 0;
  }
  return result;
}

// Makes the failure of a member: its name and offset, followed by |format|, a literal, with at least one argument.
#define CORRUPT_MEMBER(entry, format, ...)                                                                        \
  pyd_status_make(PYD_CODE_CORRUPT, "member '%s' at offset %llu " format,                                         \
                  printable((entry)->name, (entry)->name_length).text, (unsigned long long)(entry)->local_offset, \
                  __VA_ARGS__)

// Checks the name of a member: a relative path without "..", in UTF-8 or ASCII as its flag says, without control
// characters and backslashes.
static pyd_status_t check_name(const pyd_zip_entry_t* entry) {
  const uint8_t* name = (const uint8_t*)entry->name;
  size_t length = entry->name_length;
  if (length == 0) return CORRUPT_MEMBER(entry, "%s", "has an empty name");
  if (name[0] == '/') return CORRUPT_MEMBER(entry, "%s", "has an absolute path for a name");
  bool is_utf8 = (entry->flags & PYD_ZIP_FLAG_UTF8) != 0;
  for (size_t i = 0; i < length;) {
    size_t step = pyd_utf8_length(name + i, length - i);
    if (step == 0 || (step > 1 && !is_utf8)) {
      return CORRUPT_MEMBER(entry, "has a name that is not %s from its byte %zu on", is_utf8 ? "UTF-8" : "ASCII", i);
    }
    bool is_control = name[i] < 0x20 || name[i] == 0x7F;
    if (is_control || name[i] == '\\') {
      return CORRUPT_MEMBER(entry, "has the character 0x%02X in its name", name[i]);
    }
    bool is_start = i == 0 || name[i - 1] == '/';  // of a component of the path
    size_t left = length - i;
    bool is_dots = left >= 2 && name[i] == '.' && name[i + 1] == '.';
    if (is_start && is_dots && (left == 2 || name[i + 2] == '/')) {
      return CORRUPT_MEMBER(entry, "%s", "has a name that leaves its folder by '..'");
    }
    i += step;
  }
  return PYD_STATUS_OK;
}

// Checks the entry of a member in the directory: its data is neither compressed nor encrypted, the sizes are in its
// local header and not after the data, and its name is valid.
static pyd_status_t check_entry(const pyd_zip_entry_t* entry) {
  if (entry->flags & PYD_ZIP_FLAG_ENCRYPTED) return CORRUPT_MEMBER(entry, "%s", "is encrypted");
  if (entry->method != PYD_ZIP_METHOD_STORED) {
    return CORRUPT_MEMBER(entry, "is compressed (zip method %u); members are stored: pack it again without compression",
                          entry->method);
  }
  if (entry->flags & PYD_ZIP_FLAG_DESCRIPTOR) {
    return CORRUPT_MEMBER(entry, "has its sizes behind its data (zip flags 0x%04X)", entry->flags);
  }
  if (entry->flags & ~PYD_ZIP_FLAG_UTF8) return CORRUPT_MEMBER(entry, "has unknown zip flags 0x%04X", entry->flags);
  if (entry->packed_size != entry->size) {
    return CORRUPT_MEMBER(entry, "is stored, but has %llu bytes in the file and %llu outside it",
                          (unsigned long long)entry->packed_size, (unsigned long long)entry->size);
  }
  return check_name(entry);
}

// Returns the name of the first field in which the local header of a member differs from its entry in the directory;
// NULL when there is none.
static const char* first_difference(const pyd_zip_entry_t* entry, const pyd_zip_entry_t* local) {
  if (local->name_length != entry->name_length || memcmp(local->name, entry->name, entry->name_length) != 0)
    return "name";
  if (local->flags != entry->flags) return "flags";
  if (local->method != entry->method) return "method";
  if (local->crc32 != entry->crc32) return "checksum";
  if (local->size != entry->size || local->packed_size != entry->packed_size) return "size";
  return NULL;
}

// Fills in a member, which must begin at |*cursor|, the offset at which the member before it ends, and moves |*cursor|
// to the end of this one. |limit|: the offset of the directory.
static pyd_status_t place_member(pyd_span_t file, const pyd_zip_entry_t* entry, uint64_t limit, uint64_t* cursor,
                                 pyd_artifact_member_t* out_member) {
  if (entry->local_offset != *cursor) {
    return CORRUPT_MEMBER(entry, "%s: the one before it ends at offset %llu",
                          entry->local_offset < *cursor ? "overlaps another member or is out of order"
                                                        : "follows bytes that belong to no member",
                          (unsigned long long)*cursor);
  }
  pyd_zip_entry_t local;
  uint64_t data_offset = 0;
  const char* fault = NULL;
  if (!pyd_zip_read_local((pyd_span_t){file.data, (size_t)limit}, entry->local_offset, &local, &data_offset, &fault)) {
    return CORRUPT_MEMBER(entry, "is broken: its local header %s", fault);
  }
  const char* difference = first_difference(entry, &local);
  if (difference)
    return CORRUPT_MEMBER(entry, "is broken: its local header and the directory disagree on its %s", difference);
  if (entry->size > limit - data_offset) {
    return CORRUPT_MEMBER(entry, "is broken: its %llu bytes run past the start of the directory at offset %llu",
                          (unsigned long long)entry->size, (unsigned long long)limit);
  }
  if (data_offset % kAlignment != 0) {
    return CORRUPT_MEMBER(entry, "has its data at offset %llu, which is no multiple of %d: write it with pydispatch",
                          (unsigned long long)data_offset, kAlignment);
  }
  *out_member = (pyd_artifact_member_t){
      .name = entry->name,
      .name_length = entry->name_length,
      .crc32 = entry->crc32,
      .data = {file.data + data_offset, (size_t)entry->size},
  };
  *cursor = data_offset + entry->size;
  return PYD_STATUS_OK;
}

// Reads all members, and checks that together they fill the file up to the directory.
static pyd_status_t read_members(pyd_span_t file, const pyd_zip_end_t* end, pyd_artifact_t* artifact) {
  pyd_span_t directory = {file.data + end->directory_offset, (size_t)end->directory_size};
  uint64_t offset = 0;  // of the next entry, in the directory
  uint64_t cursor = 0;  // end of the last member, in the file
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < artifact->count && pyd_ok(status); ++i) {
    pyd_zip_entry_t entry;
    status = pyd_zip_read_entry(directory, &offset, i, &entry);
    if (pyd_ok(status)) status = check_entry(&entry);
    if (pyd_ok(status)) status = place_member(file, &entry, end->directory_offset, &cursor, &artifact->members[i]);
  }
  if (!pyd_ok(status)) return status;
  if (offset != directory.size) {
    return pyd_status_make(PYD_CODE_CORRUPT, "the zip directory has %llu bytes behind its %u entries",
                           (unsigned long long)(directory.size - offset), artifact->count);
  }
  if (cursor != end->directory_offset) {
    return pyd_status_make(PYD_CODE_CORRUPT, "bytes %llu to %llu of the file belong to no member",
                           (unsigned long long)cursor, (unsigned long long)end->directory_offset);
  }
  return PYD_STATUS_OK;
}

// Compares two names byte by byte. Returns a value below, equal to or above 0, as strcmp does.
static int compare_names(const char* a, size_t a_length, const char* b, size_t b_length) {
  int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
  if (order) return order;
  return (a_length > b_length) - (a_length < b_length);  // a prefix of a name comes before the name
}

// Compares the names of two members, for qsort of an array of pointers to members.
static int compare_members(const void* a, const void* b) {
  const pyd_artifact_member_t* x = *(const pyd_artifact_member_t* const*)a;
  const pyd_artifact_member_t* y = *(const pyd_artifact_member_t* const*)b;
  return compare_names(x->name, x->name_length, y->name, y->name_length);
}

// Sorts the members by name, and refuses equal names. They are not hashed: the author of the file chooses the names,
// and could make them collide.
static pyd_status_t index_names(pyd_artifact_t* artifact) {
  for (uint32_t i = 0; i < artifact->count; ++i) artifact->by_name[i] = &artifact->members[i];
  qsort(artifact->by_name, artifact->count, sizeof(*artifact->by_name), compare_members);
  for (uint32_t i = 1; i < artifact->count; ++i) {
    if (compare_members(&artifact->by_name[i - 1], &artifact->by_name[i]) == 0) {
      const pyd_artifact_member_t* member = artifact->by_name[i];
      return pyd_status_make(PYD_CODE_CORRUPT, "two members are named '%s'",
                             printable(member->name, member->name_length).text);
    }
  }
  return PYD_STATUS_OK;
}

// Allocates an artifact with room for its members, which are not filled in. |end|: the record at the end of the zip
// file, with the number of members.
static pyd_status_t create(const pyd_zip_end_t* end, pyd_artifact_t** out_artifact) {
  // A count that the directory's own bytes cannot hold is refused before allocating.
  if (end->count > end->directory_size / PYD_ZIP_ENTRY_BYTES || end->count > UINT32_MAX) {
    return pyd_status_make(PYD_CODE_CORRUPT, "the zip directory has %llu bytes, too few for %llu members",
                           (unsigned long long)end->directory_size, (unsigned long long)end->count);
  }
  // One block: the artifact, its members, and the pointers to members by name.
  size_t count = (size_t)end->count;
  size_t bytes = sizeof(pyd_artifact_t) + count * (sizeof(pyd_artifact_member_t) + sizeof(pyd_artifact_member_t*));
  pyd_artifact_t* artifact = malloc(bytes);
  if (!artifact) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the directory of %zu members", count);
  artifact->count = (uint32_t)count;
  artifact->members = (pyd_artifact_member_t*)(artifact + 1);
  artifact->by_name = (const pyd_artifact_member_t**)(artifact->members + count);
  *out_artifact = artifact;
  return PYD_STATUS_OK;
}

// Reads the directory of |file|, which is borrowed and must outlive the artifact.
pyd_status_t pyd_artifact_open(pyd_span_t file, pyd_artifact_t** out_artifact) {
  pyd_artifact_t* artifact = NULL;
  pyd_zip_end_t end = {0};
  *out_artifact = NULL;
  pyd_status_t status = pyd_zip_read_end(file, &end);
  if (pyd_ok(status)) status = create(&end, &artifact);
  if (pyd_ok(status)) status = read_members(file, &end, artifact);
  if (pyd_ok(status)) status = index_names(artifact);
  if (pyd_ok(status)) {
    *out_artifact = artifact;
  } else {
    pyd_artifact_free(artifact);
  }
  return status;
}

void pyd_artifact_free(pyd_artifact_t* artifact) { free(artifact); }

uint32_t pyd_artifact_member_count(const pyd_artifact_t* artifact) { return artifact->count; }

const pyd_artifact_member_t* pyd_artifact_member(const pyd_artifact_t* artifact, uint32_t index) {
  return index < artifact->count ? &artifact->members[index] : NULL;
}

// Returns the member of the name, by binary search; NULL if there is none.
const pyd_artifact_member_t* pyd_artifact_find(const pyd_artifact_t* artifact, const char* name, size_t name_length) {
  uint32_t low = 0;
  uint32_t high = artifact->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const pyd_artifact_member_t* member = artifact->by_name[middle];
    int order = compare_names(member->name, member->name_length, name, name_length);
    if (order == 0) return member;
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

// Compares the bytes of a member with its checksum. CORRUPT if they differ.
pyd_status_t pyd_artifact_verify(const pyd_artifact_member_t* member) {
  uint32_t actual = pyd_crc32(0, member->data.data, member->data.size);
  if (actual == member->crc32) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "member '%s' is damaged: its checksum is %08X, the directory states %08X",
                         printable(member->name, member->name_length).text, actual, member->crc32);
}
