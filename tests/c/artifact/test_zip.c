// links: base platform artifact
// Zip records that contradict each other or hide bytes, and names of members that are no names: each refusal with its
// text, beside a valid archive that differs in the same field only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/artifact.h"

static int failures;

// Offsets in the archive that write_zip64() writes with a name of one byte.
enum { kDirectory = 67, kEnd64 = 114, kLocator = 170, kEnd = 190, kFileBytes = 212 };

typedef struct file_s {
  uint8_t bytes[1024];
  size_t length;
} file_t;

static void put(file_t* file, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) file->bytes[file->length++] = (uint8_t)value;
}
static void put_bytes(file_t* file, const char* bytes, size_t size) {
  memcpy(file->bytes + file->length, bytes, size);
  file->length += size;
}
static void patch(file_t* file, size_t offset, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) file->bytes[offset + (size_t)i] = (uint8_t)value;
}

// Fields that the local header and the entry of the directory share, from the flags to the length of the name.
static void put_member(file_t* file, uint32_t flags, size_t name_length) {
  put(file, flags, 2), put(file, 0, 6), put(file, pyd_crc32(0, "abc", 3), 4), put(file, 3, 4), put(file, 3, 4);
  put(file, name_length, 2);
}

// Write the local header of a member and its three bytes, which start at a multiple of 64.
static void put_local(file_t* file, uint32_t flags, const char* name) {
  size_t length = strlen(name), padding = (64 - (30 + length + 4) % 64) % 64;
  put(file, 0x04034B50, 4), put(file, 20, 2), put_member(file, flags, length), put(file, padding + 4, 2);
  put_bytes(file, name, length), put(file, 0xD935, 2), put(file, padding, 2);
  for (size_t i = 0; i < padding; ++i) put(file, 0, 1);
  put_bytes(file, "abc", 3);
}

// Write the directory of one member with |extra_bytes| bytes of |extra|, and its end record.
static void put_directory(file_t* file, uint32_t flags, const char* name, const char* extra, size_t extra_bytes) {
  size_t start = file->length, length = strlen(name);
  put(file, 0x02014B50, 4), put(file, 20, 2), put(file, 20, 2), put_member(file, flags, length);
  put(file, extra_bytes, 2), put(file, 0, 14), put_bytes(file, name, length), put_bytes(file, extra, extra_bytes);
  size_t size = file->length - start;
  put(file, 0x06054B50, 4), put(file, 0, 4), put(file, 1, 2), put(file, 1, 2), put(file, size, 4), put(file, start, 4);
  put(file, 0, 2);
}

static file_t write_zip(uint32_t flags, const char* name) {
  file_t file = {.length = 0};
  put_local(&file, flags, name);
  put_directory(&file, flags, name, "", 0);
  return file;
}

static file_t write_zip64(void) {
  file_t file = write_zip(0, "a");
  file.length -= 22;
  put(&file, 0x06064B50, 4), put(&file, 44, 8), put(&file, 45, 2), put(&file, 45, 2), put(&file, 0, 8);
  put(&file, 1, 8), put(&file, 1, 8), put(&file, kEnd64 - kDirectory, 8), put(&file, kDirectory, 8);
  put(&file, 0x07064B50, 4), put(&file, 0, 4), put(&file, kEnd64, 8), put(&file, 1, 4);
  put(&file, 0x06054B50, 4), put(&file, 0, 4), put(&file, UINT64_MAX, 8), put(&file, UINT64_MAX, 4), put(&file, 0, 2);
  return file;
}

// Open a copy of exactly the file's size, so that sanitizers detect a read past it. |refusal|: NULL for a valid file.
static void expect(const file_t* file, const char* refusal, int line) {
  uint8_t* copy = malloc(file->length);
  memcpy(copy, file->bytes, file->length);
  pyd_artifact_t* artifact = NULL;
  pyd_status_t status = pyd_artifact_open((pyd_span_t){copy, file->length}, &artifact);
  bool is_right = refusal ? pyd_status_code(status) == PYD_CODE_CORRUPT && strstr(pyd_status_text(status), refusal)
                          : pyd_ok(status) && pyd_artifact_member_count(artifact) == 1;
  if (!is_right || (artifact != NULL) != !refusal) {
    fprintf(stderr, "%s:%d: expected \"%s\", got \"%s\"\n", __FILE__, line, refusal ? refusal : "",
            pyd_ok(status) ? "" : pyd_status_text(status));
    ++failures;
  }
  pyd_status_free(status);
  pyd_artifact_free(artifact);
  free(copy);
}

static void expect_patched(size_t offset, uint64_t value, int bytes, const char* refusal, int line) {
  file_t file = write_zip64();
  patch(&file, offset, value, bytes);
  expect(&file, refusal, line);
}
#define PATCHED(offset, value, bytes, refusal) expect_patched((offset), (value), (bytes), (refusal), __LINE__)

static void test_zip64_records(void) {
  file_t file = write_zip64();
  expect(&file, file.length == kFileBytes ? NULL : "a layout as in the enumeration above", __LINE__);
  PATCHED(kLocator + 8, 1 << 20, 8, "its zip64 locator leads nowhere, at offset 170");
  PATCHED(kLocator + 8, UINT64_MAX, 8, "its zip64 locator leads nowhere");
  PATCHED(kLocator + 8, kEnd64 - 1, 8, "no zip64 end record at offset 113");
  PATCHED(kEnd64 + 4, 43, 8, "wrong length of the zip64 end record at offset 114");
  PATCHED(kEnd64 + 4, 45, 8, "wrong length of the zip64 end record at offset 114");
  static const size_t kVolumes[] = {kLocator + 4, kEnd64 + 16, kEnd64 + 20};
  for (size_t i = 0; i < sizeof(kVolumes) / sizeof(kVolumes[0]); ++i) {
    PATCHED(kVolumes[i], 1, 4, "is split over several volumes: end record at offset 114");
  }
  PATCHED(kLocator + 16, 0, 4, NULL);
  PATCHED(kLocator + 16, 2, 4, "is split over several volumes: end record at offset 114");
  // A record after its locator, in the comment of the archive.
  patch(&file, kLocator + 8, kFileBytes, 8);
  patch(&file, kEnd + 20, 56, 2);
  memcpy(file.bytes + kFileBytes, file.bytes + kEnd64, 56);
  file.length += 56;
  expect(&file, "its zip64 locator leads nowhere", __LINE__);
}

static void test_two_end_records(void) {
  static const char kDisagree[] = "the two end records of the zip file disagree, at offset 114";
  static const char kHidden[] = "the zip directory does not end where its zip64 end record starts, at offset 114";
  PATCHED(kEnd + 8, 0x00010001, 4, NULL);
  PATCHED(kEnd + 8, 0x00020002, 4, kDisagree);
  PATCHED(kEnd + 8, 0x00010002, 4, "is split over several volumes: end record at offset 190");
  PATCHED(kEnd + 12, kEnd64 - kDirectory, 4, NULL);
  PATCHED(kEnd + 12, kEnd64 - kDirectory - 1, 4, kDisagree);
  PATCHED(kEnd + 16, kDirectory, 4, NULL);
  PATCHED(kEnd + 16, kDirectory + 1, 4, kDisagree);
  PATCHED(kEnd64 + 24, 2, 8, kDisagree);
  PATCHED(kEnd64 + 40, kEnd64 + 1, 8, kHidden);
  PATCHED(kEnd64 + 40, kEnd64 - kDirectory - 1, 8, kHidden);
  PATCHED(kEnd64 + 48, kDirectory - 1, 8, kHidden);
}

static void test_hidden_bytes(void) {
  file_t file = {.length = 0};
  put_local(&file, 0, "a");
  put(&file, 0, 2);
  put_directory(&file, 0, "a", "", 0);
  expect(&file, "bytes 67 to 69 of the file belong to no member", __LINE__);
  file = (file_t){.length = 40};
  expect(&file, "not an artifact: no zip end record in 40 bytes", __LINE__);
  memcpy(file.bytes, "PK\3\4", 4);
  expect(&file, "the zip file has no end record: it was cut off after 40 bytes", __LINE__);
}

static void test_extra_fields(void) {
  file_t file = {.length = 0};
  put_local(&file, 0, "a");
  file_t twice = file;
  put_directory(&file, 0, "a", "\1\0\0\0", 4);
  expect(&file, NULL, __LINE__);
  put_directory(&twice, 0, "a", "\1\0\0\0\1\0\0\0", 8);
  expect(&twice, "entry 0 of the zip directory is broken: its extra fields do not fit", __LINE__);
}

static void expect_name(uint32_t flags, const char* name, const char* refusal, int line) {
  file_t file = write_zip(flags, name);
  expect(&file, refusal, line);
}
#define NAMED(flags, name, refusal) expect_name((flags), (name), (refusal), __LINE__)

static void test_names(void) {
  static const char kLeaves[] = "has a name that leaves its folder by '..'";
  static const char* const kInside[] = {"a/b", ".a", "..a", "a/..b", "a..", "a./b", "a../b", "..."};
  static const char* const kOutside[] = {"..", "../a", "a/..", "a/../b"};
  for (size_t i = 0; i < sizeof(kInside) / sizeof(kInside[0]); ++i) NAMED(0, kInside[i], NULL);
  for (size_t i = 0; i < sizeof(kOutside) / sizeof(kOutside[0]); ++i) NAMED(0, kOutside[i], kLeaves);
  NAMED(0, "", "has an empty name");
  NAMED(0, "/a", "member '/a' at offset 0 has an absolute path for a name");
  NAMED(0, "a\\b", "has the character 0x5C in its name");
  NAMED(0, "a\nb", "member 'a?b' at offset 0 has the character 0x0A in its name");
  NAMED(0, "a\x7F", "has the character 0x7F in its name");
  NAMED(0x800, "\xC3\xA9", NULL);
  NAMED(0, "a\xC3\xA9", "has a name that is not ASCII from its byte 1 on");
  // Messages show the first 96 bytes of a name.
  char name[200], text[200];
  memset(name, 'n', sizeof(name));
  for (size_t length = 95; length <= 97; ++length) {
    name[0] = '\\', name[length] = 0;
    snprintf(text, sizeof(text), "member '%.96s%s' at offset 0 has the character 0x5C", name, length > 96 ? "..." : "");
    NAMED(0, name, text);
    name[0] = 'n';
    NAMED(0, name, NULL);
    name[length] = 'n';
  }
}

int main(void) {
  test_zip64_records();
  test_two_end_records();
  test_hidden_bytes();
  test_extra_fields();
  test_names();
  return failures != 0;
}
