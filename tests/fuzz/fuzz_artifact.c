// The artifact reader on any bytes: it never reads outside them, and what it accepts keeps the promises of artifact.h.
// Half of the mutations change a member inside a valid archive, whose checksums and offsets are then put right, so that what is
// behind them is reached, too.
// links: base artifact
#include <stdlib.h>
#include <string.h>

#include "pydispatch/artifact.h"

static void require(bool condition) {
  if (!condition) abort();
}

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

typedef struct writer_s {
  uint8_t* data;
  size_t size, capacity;
} writer_t;

static void put(writer_t* w, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i, value >>= 8) {
    if (w->size < w->capacity) w->data[w->size] = (uint8_t)value;
    ++w->size;
  }
}
static void put_bytes(writer_t* w, const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) put(w, ((const uint8_t*)bytes)[i], 1);
}

typedef struct copy_s {
  char name[64];
  uint8_t* data;
  size_t name_length, size, at;
} copy_t;

static void put_head(writer_t* w, const copy_t* m) {  // what a local header and an entry share, up to the length of the name
  put(w, 0, 2), put(w, 0, 2), put(w, 0, 4), put(w, pyd_crc32(0, m->data, m->size), 4);
  put(w, m->size, 4), put(w, m->size, 4), put(w, m->name_length, 2);
}

// The members again as an archive, each at a multiple of 64.
static size_t write_archive(copy_t* members, uint32_t count, uint8_t* data, size_t capacity) {
  writer_t w = {data, 0, capacity};
  for (uint32_t i = 0; i < count; ++i) {
    copy_t* m = &members[i];
    m->at = w.size;
    size_t padding = (64 - (w.size + 30 + m->name_length + 4) % 64) % 64;
    put(&w, 0x04034B50, 4), put(&w, 20, 2), put_head(&w, m), put(&w, 4 + padding, 2), put_bytes(&w, m->name, m->name_length);
    put(&w, 0xD935, 2), put(&w, padding, 2);  // an extra field that nobody knows
    while (padding--) put(&w, 0, 1);
    put_bytes(&w, m->data, m->size);
  }
  size_t directory = w.size;
  for (uint32_t i = 0; i < count; ++i) {
    const copy_t* m = &members[i];
    put(&w, 0x02014B50, 4), put(&w, 20, 2), put(&w, 20, 2), put_head(&w, m), put(&w, 0, 12), put(&w, m->at, 4);
    put_bytes(&w, m->name, m->name_length);
  }
  size_t bytes = w.size - directory;
  put(&w, 0x06054B50, 4), put(&w, 0, 4), put(&w, count, 2), put(&w, count, 2), put(&w, bytes, 4), put(&w, directory, 4), put(&w, 0, 2);
  return w.size;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  enum { MEMBERS = 8 };
  pyd_artifact_t* artifact = NULL;
  copy_t members[MEMBERS] = {0};
  uint32_t count = 0;
  size_t written = 0;
  if (seed % 2) pyd_status_free(pyd_artifact_open((pyd_span_t){data, size}, &artifact));
  for (; artifact && count < MEMBERS && count < pyd_artifact_member_count(artifact); ++count) {
    const pyd_artifact_member_t* from = pyd_artifact_member(artifact, count);
    copy_t* to = &members[count];
    size_t room = from->data.size + 256;
    to->data = malloc(room);
    to->name_length = from->name_length < sizeof(to->name) ? from->name_length : sizeof(to->name);
    to->size = to->data ? from->data.size : 0;
    memcpy(to->name, from->name, to->name_length);
    if (to->size) memcpy(to->data, from->data.data, to->size);
  }
  if (count) {
    copy_t* chosen = &members[seed / 2 % count];
    if (seed / 16 % 4 == 0) {
      chosen->name_length = LLVMFuzzerMutate((uint8_t*)chosen->name, chosen->name_length, sizeof(chosen->name));
    } else if (chosen->data) {
      chosen->size = LLVMFuzzerMutate(chosen->data, chosen->size, chosen->size + 256);
    }
    written = write_archive(members, count, data, max_size);
  }
  for (uint32_t i = 0; i < count; ++i) free(members[i].data);
  pyd_artifact_free(artifact);
  return written && written <= max_size ? written : LLVMFuzzerMutate(data, size, max_size);
}

static void check_member(const pyd_artifact_t* artifact, uint32_t index, pyd_span_t file, const uint8_t** end) {
  const pyd_artifact_member_t* member = pyd_artifact_member(artifact, index);
  require(member->name_length > 0 && (const uint8_t*)member->name >= file.data &&
          (const uint8_t*)member->name + member->name_length <= file.data + file.size);
  require(member->data.data >= *end && (size_t)(member->data.data - file.data) % 64 == 0);
  require(member->data.size <= (size_t)(file.data + file.size - member->data.data));
  *end = member->data.data + member->data.size;
  require(pyd_artifact_find(artifact, member->name, member->name_length) == member);  // so no name is there twice
  pyd_status_t status = pyd_artifact_verify(member);
  require(pyd_ok(status) == (pyd_crc32(0, member->data.data, member->data.size) == member->crc32));
  pyd_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pyd_artifact_t* artifact = NULL;
  pyd_span_t file = {data, size};
  pyd_status_t status = pyd_artifact_open(file, &artifact);
  require(pyd_ok(status) == (artifact != NULL));
  if (artifact) {
    const uint8_t* end = data;
    for (uint32_t i = 0; i < pyd_artifact_member_count(artifact); ++i) check_member(artifact, i, file, &end);
    require(pyd_artifact_member(artifact, pyd_artifact_member_count(artifact)) == NULL);
  } else {
    require(pyd_status_code(status) == PYD_CODE_CORRUPT && pyd_status_text(status)[0] != 0);
  }
  pyd_status_free(status);
  pyd_artifact_free(artifact);
  return 0;
}
