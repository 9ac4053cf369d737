// links: base platform artifact
// The reader from C: a file on disk small and large, lookup, sums; and every cut and flip of an archive under the
// sanitizers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "artifact/zip_read.h"
#include "pydispatch/artifact.h"

static int failures;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

static void put(uint8_t** at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) *(*at)++ = (uint8_t)(value >> 8 * i);
}

// An archive with the members "a" (of |size| bytes, all 7) and "b" (three bytes), written here from the format's text.
static size_t write_archive(uint8_t* out, size_t size) {
  const char* names[2] = {"a", "b"};
  size_t sizes[2] = {size, 3};
  size_t offsets[2];
  uint32_t sums[2];
  uint8_t* at = out;
  for (int i = 0; i < 2; ++i) {
    offsets[i] = (size_t)(at - out);
    size_t extra = 63 - (offsets[i] + 30 + 1 + 63) % 64;
    if (extra < 4) extra += 64;
    uint8_t* data = at + 30 + 1 + extra;
    memset(data, 7, sizes[i]);
    sums[i] = pyd_crc32(0, data, sizes[i]);
    put(&at, 0x04034B50, 4), put(&at, 10, 2), put(&at, 0, 8), put(&at, sums[i], 4), put(&at, sizes[i], 4);
    put(&at, sizes[i], 4), put(&at, 1, 2), put(&at, extra, 2), put(&at, (uint8_t)names[i][0], 1);
    put(&at, 0xD935, 2), put(&at, extra - 4, 2);
    memset(at, 0, extra - 4);
    at = data + sizes[i];
  }
  size_t directory = (size_t)(at - out);
  for (int i = 0; i < 2; ++i) {
    put(&at, 0x02014B50, 4), put(&at, 10, 2), put(&at, 10, 2), put(&at, 0, 8), put(&at, sums[i], 4);
    put(&at, sizes[i], 4), put(&at, sizes[i], 4), put(&at, 1, 2), put(&at, 0, 8), put(&at, 0, 4);
    put(&at, offsets[i], 4), put(&at, (uint8_t)names[i][0], 1);
  }
  size_t directory_size = (size_t)(at - out) - directory;
  put(&at, 0x06054B50, 4), put(&at, 0, 4), put(&at, 2, 2), put(&at, 2, 2), put(&at, directory_size, 4);
  put(&at, directory, 4), put(&at, 0, 2);
  return (size_t)(at - out);
}

static void test_sums(void) {
  // The check value of the CRC catalogue for CRC-32/ISO-HDLC, and a sum taken in two parts.
  CHECK(pyd_crc32(0, "123456789", 9) == 0xCBF43926);
  CHECK(pyd_crc32(0, NULL, 0) == 0 && pyd_crc32(5, "", 0) == 5);
  uint8_t bytes[1000];
  for (int i = 0; i < 1000; ++i) bytes[i] = (uint8_t)(i * 37 >> 2);
  uint32_t whole = pyd_crc32(0, bytes, sizeof(bytes));
  for (size_t cut = 0; cut <= sizeof(bytes); ++cut) {
    CHECK(pyd_crc32(pyd_crc32(0, bytes, cut), bytes + cut, sizeof(bytes) - cut) == whole);
  }
}

static void test_file(size_t size, bool is_copy) {
  uint8_t* bytes = malloc(size + 1024);
  size_t length = write_archive(bytes, size);
  char path[] = "/tmp/pydispatch-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
  close(fd);
  pyd_file_map_t map;
  pyd_artifact_t* artifact = NULL;
  pyd_status_t status = pyd_file_map(path, &map);
  CHECK(pyd_ok(status) && map.is_copy == is_copy && map.span.size == length && (uintptr_t)map.span.data % 64 == 0);
  status = pyd_artifact_open(map.span, &artifact);
  if (!pyd_ok(status)) fprintf(stderr, "%s\n", pyd_status_text(status));
  CHECK(pyd_ok(status) && pyd_artifact_member_count(artifact) == 2);
  const pyd_artifact_member_t* a = pyd_artifact_find(artifact, "a", 1);
  CHECK(a == pyd_artifact_member(artifact, 0) && a->data.size == size && (uintptr_t)a->data.data % 64 == 0);
  CHECK(pyd_ok(pyd_artifact_verify(a)));
  CHECK(pyd_file_is_mapped(&map, a->data) == !is_copy);
  CHECK(!pyd_file_is_mapped(&map, (pyd_span_t){bytes, 1}) && !pyd_file_is_mapped(&map, (pyd_span_t){NULL, 0}));
  if (!is_copy) {  // dropped pages are read again
    pyd_file_drop_pages(a->data);
    pyd_file_drop_pages((pyd_span_t){a->data.data, 1});  // less than a page
    CHECK(pyd_ok(pyd_artifact_verify(a)));
  }
  CHECK(pyd_artifact_find(artifact, "b", 1) == pyd_artifact_member(artifact, 1));
  CHECK(!pyd_artifact_find(artifact, "ab", 2) && !pyd_artifact_find(artifact, "", 0) &&
        !pyd_artifact_find(artifact, "c", 1));
  pyd_artifact_free(artifact);
  pyd_file_unmap(&map);
  CHECK(map.span.data == NULL);
  pyd_file_unmap(&map);  // allowed
  unlink(path);
  free(bytes);
}

// Each broken archive in a block of exactly its size, so that a read behind it is seen.
static void open_copy(const uint8_t* bytes, size_t length, bool may_open) {
  uint8_t* copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  pyd_artifact_t* artifact = NULL;
  pyd_status_t status = pyd_artifact_open((pyd_span_t){copy, length}, &artifact);
  CHECK(pyd_ok(status) == (artifact != NULL));
  CHECK(pyd_ok(status) ? may_open : pyd_status_code(status) == PYD_CODE_CORRUPT);
  for (uint32_t i = 0; artifact && i < pyd_artifact_member_count(artifact); ++i) {
    pyd_status_free(pyd_artifact_verify(pyd_artifact_member(artifact, i)));
  }
  pyd_status_free(status);
  pyd_artifact_free(artifact);
  free(copy);
}

static void test_broken(void) {
  uint8_t bytes[1024];
  size_t length = write_archive(bytes, 20);
  open_copy(bytes, length, true);
  for (size_t cut = 0; cut < length; ++cut) {
    open_copy(bytes, cut, false);
    open_copy(bytes + cut + 1, length - cut - 1, false);
  }
  for (size_t bit = 0; bit < length * 8; ++bit) {
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    open_copy(bytes, length, true);
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  static const uint8_t kValues[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
  for (size_t at = 0; at + 4 <= length; ++at) {
    for (size_t v = 0; v < sizeof(kValues); ++v) {
      for (size_t run = 1; run <= 4; ++run) {
        uint8_t kept[4];
        memcpy(kept, bytes + at, 4);
        memset(bytes + at, kValues[v], run);
        open_copy(bytes, length, true);
        memcpy(bytes + at, kept, 4);
      }
    }
  }
}

static void test_files_that_cannot_be_read(void) {
#if defined(PYD_PLATFORM_GENERIC)
  static const char kFolder[] = "cannot read '/': Is a directory";  // what the C library has to say
#else
  static const char kFolder[] = "it is a folder";
#endif
  pyd_file_map_t map;
  pyd_status_t status = pyd_file_map("/nowhere/x.pdx", &map);
  CHECK(pyd_status_code(status) == PYD_CODE_SYSTEM && map.span.data == NULL);
  CHECK(strcmp(pyd_status_text(status), "cannot open '/nowhere/x.pdx': No such file or directory") == 0);
  pyd_status_free(status);
  status = pyd_file_map("/", &map);
  CHECK(pyd_status_code(status) == PYD_CODE_SYSTEM && strstr(pyd_status_text(status), kFolder));
  pyd_status_free(status);
  char path[] = "/tmp/pydispatch-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
  status = pyd_file_map(path, &map);
  CHECK(pyd_status_code(status) == PYD_CODE_CORRUPT && strstr(pyd_status_text(status), "' is empty"));
  pyd_status_free(status);
  unlink(path);
}

// A local header that no directory leads to: whoever asks for one may give any offset.
static void test_local_headers(void) {
  static const uint8_t bytes[64] = "PK\3\4";
  pyd_zip_entry_t entry;
  uint64_t data;
  const char* fault;
  CHECK(pyd_zip_read_local((pyd_span_t){bytes, sizeof(bytes)}, 0, &entry, &data, &fault) && data == 30 && !fault);
  CHECK(!pyd_zip_read_local((pyd_span_t){bytes, sizeof(bytes)}, 40, &entry, &data, &fault) &&
        strcmp(fault, "lies outside the file") == 0);
  CHECK(!pyd_zip_read_local((pyd_span_t){bytes, sizeof(bytes)}, UINT64_MAX, &entry, &data, &fault));
  CHECK(!pyd_zip_read_local((pyd_span_t){bytes, sizeof(bytes)}, 30, &entry, &data, &fault) &&
        strcmp(fault, "has no signature") == 0);
}

// A size that both headers agree on and that the file does not have.
static void test_long_member(void) {
  static uint8_t bytes[1024];
  size_t length = write_archive(bytes, 100), second = 64;
  while (memcmp(bytes + second, "PK\3\4", 4) != 0) ++second;
  size_t entry = second + 4;
  while (memcmp(bytes + entry, "PK\1\2", 4) != 0) ++entry;
  entry += 47;  // of "b", behind that of "a"
  for (int i = 0; i < 2; ++i) bytes[second + 18 + 4 * (size_t)i + 2] = bytes[entry + 20 + 4 * (size_t)i + 2] = 1;
  pyd_artifact_t* artifact = NULL;
  pyd_status_t status = pyd_artifact_open((pyd_span_t){bytes, length}, &artifact);
  CHECK(pyd_status_code(status) == PYD_CODE_CORRUPT && !artifact);
  CHECK(strstr(pyd_status_text(status), "its 65539 bytes run past the start of the directory"));
  pyd_status_free(status);
}

int main(void) {
  test_long_member();
  test_local_headers();
  test_sums();
  test_file(100, true);
  test_file(0, true);
#if defined(PYD_PLATFORM_GENERIC)
  test_file(1 << 20, true);
#else
  test_file(1 << 20, false);
#endif
  test_broken();
  test_files_that_cannot_be_read();
  return failures != 0;
}
