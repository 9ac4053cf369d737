// Reading a .pdx artifact: a plain zip whose members are stored uncompressed, so that they can be used in place.
#ifndef PYDISPATCH_ARTIFACT_H_
#define PYDISPATCH_ARTIFACT_H_

#include "pydispatch/span.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyd_artifact_s pyd_artifact_t;

// A file in an artifact.
typedef struct pyd_artifact_member_s {
  const char* name;      // in the file, not terminated
  uint32_t name_length;  // bytes
  uint32_t crc32;        // as the directory states it
  pyd_span_t data;       // inside the file
} pyd_artifact_member_t;

// Reads the directory of |file|, which is borrowed and must outlive the artifact. CORRUPT, with the member and the
// offset, for any inconsistency: a range outside the file, members that overlap or leave a gap, a local header that
// disagrees with the directory, a compressed or encrypted member, a duplicate name, data that is not 64-byte aligned.
// Linear in the size of the directory except for one sort by name; reads no member's data. Zip64 is understood.
pyd_status_t pyd_artifact_open(pyd_span_t file, pyd_artifact_t** out_artifact);
void pyd_artifact_free(pyd_artifact_t* artifact);

// Members in the order of the file; NULL when |index| is too large. Valid while the artifact is.
uint32_t pyd_artifact_member_count(const pyd_artifact_t* artifact);
const pyd_artifact_member_t* pyd_artifact_member(const pyd_artifact_t* artifact, uint32_t index);
// By name, or NULL. Logarithmic in the number of members.
const pyd_artifact_member_t* pyd_artifact_find(const pyd_artifact_t* artifact, const char* name, size_t name_length);
// Compares the member's bytes with its checksum. CORRUPT, with both sums, when they differ.
pyd_status_t pyd_artifact_verify(const pyd_artifact_member_t* member);

// Returns the CRC-32, as zip and PNG define it, of |length| bytes appended to bytes whose CRC-32 is |seed|; 0: to none.
uint32_t pyd_crc32(uint32_t seed, const void* data, size_t length);

// The bytes of a file, 64-byte aligned and read-only. A small file is copied, which costs less than mapping it; a large
// one is mapped: it must not be truncated while in use, as accessing missing pages ends the process.
typedef struct pyd_file_map_s {
  pyd_span_t span;
  bool is_copy;  // in memory of the heap
} pyd_file_map_t;
// SYSTEM, with the path and the reason, when it cannot be opened or is not a regular file; CORRUPT when it is empty.
pyd_status_t pyd_file_map(const char* path, pyd_file_map_t* out_map);
void pyd_file_unmap(pyd_file_map_t* map);
// Returns whether |bytes| begin in the mapping of |map|: never for a copy.
static inline bool pyd_file_is_mapped(const pyd_file_map_t* map, pyd_span_t bytes) {
  return !map->is_copy && map->span.data && bytes.data >= map->span.data &&
         bytes.data < map->span.data + map->span.size;
}
// Drops the whole pages within |bytes| from the memory of this process, where the system can. |bytes| are in a mapping
// of a file that is never written: the next access reads the pages again. Any thread, also while others read them.
void pyd_file_drop_pages(pyd_span_t bytes);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_ARTIFACT_H_
