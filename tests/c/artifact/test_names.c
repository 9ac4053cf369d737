// links: base platform artifact
// Names of members in UTF-8: every length, and each kind of sequence that only looks like one.
#include <stdio.h>
#include <string.h>

#include "pydispatch/artifact.h"

static void put(uint8_t** at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) *(*at)++ = (uint8_t)value;
}

// An archive with one member of three bytes.
static size_t write_archive(uint8_t* out, const char* name) {
  size_t length = strlen(name), extra = 64 - 30 - length;
  uint32_t sum = pyd_crc32(0, "abc", 3);
  uint8_t* at = out;
  put(&at, 0x04034B50, 4), put(&at, 20, 2), put(&at, 0x800, 2), put(&at, 0, 6), put(&at, sum, 4), put(&at, 3, 4),
      put(&at, 3, 4);
  put(&at, length, 2), put(&at, extra, 2), memcpy(at, name, length), at += length;
  put(&at, 0xD935, 2), put(&at, extra - 4, 2), memset(at, 0, extra - 4), at += extra - 4;
  memcpy(at, "abc", 3), at += 3;
  put(&at, 0x02014B50, 4), put(&at, 20, 2), put(&at, 20, 2), put(&at, 0x800, 2), put(&at, 0, 6), put(&at, sum, 4),
      put(&at, 3, 4);
  put(&at, 3, 4), put(&at, length, 2), put(&at, 0, 12), put(&at, 0, 4), memcpy(at, name, length), at += length;
  put(&at, 0x06054B50, 4), put(&at, 0, 4), put(&at, 1, 2), put(&at, 1, 2), put(&at, 46 + length, 4), put(&at, 67, 4),
      put(&at, 0, 2);
  return (size_t)(at - out);
}

static int check(const char* name, bool is_valid) {
  uint8_t bytes[256];
  pyd_artifact_t* artifact = NULL;
  pyd_status_t status = pyd_artifact_open((pyd_span_t){bytes, write_archive(bytes, name)}, &artifact);
  bool is_right = pyd_ok(status) == is_valid && (is_valid || pyd_status_code(status) == PYD_CODE_CORRUPT);
  if (!is_right) fprintf(stderr, "'%s': %s\n", name, pyd_ok(status) ? "accepted" : pyd_status_text(status));
  if (artifact && !pyd_artifact_find(artifact, name, strlen(name))) is_right = false;
  pyd_status_free(status);
  pyd_artifact_free(artifact);
  return !is_right;
}

int main(void) {
  static const char* const kValid[] = {"a",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF",
                                       "a\xE2\x82\xACz"};
  static const char* const kInvalid[] = {
      "\x80",
      "\xC1\xBF",
      "\xC2",
      "\xC2z",
      "\xE0\x9F\xBF",  // too long a form
      "\xED\xA0\x80",
      "\xED\xBF\xBF",  // surrogates
      "\xF0\x8F\xBF\xBF",
      "\xF4\x90\x80\x80",
      "\xF5\x80\x80\x80",
      "\xE2\x82",
      "\xF0\x90\x80",
  };
  int failures = 0;
  for (size_t i = 0; i < sizeof(kValid) / sizeof(kValid[0]); ++i) failures += check(kValid[i], true);
  for (size_t i = 0; i < sizeof(kInvalid) / sizeof(kInvalid[0]); ++i) failures += check(kInvalid[i], false);
  return failures != 0;
}
