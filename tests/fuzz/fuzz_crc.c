// The checksum by every way that this machine has, in one piece and in several, against the definition bit by bit.
// links: base artifact
#include "pydispatch/artifact.h"
#include "take.h"

static uint32_t by_bits(const uint8_t* data, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  take_t t = {data, size};
  size_t first = take_u16(&t);
  if (first > t.size) first = t.size;
  uint8_t* copy = malloc(t.size ? t.size : 1);  // of exactly this size, so that the sanitizer sees one byte too far
  if (!copy) return 0;
  memcpy(copy, t.data, t.size);
  uint32_t whole = pyd_crc32(0, copy, t.size);
  require(whole == by_bits(copy, t.size));
  require(whole == pyd_crc32(pyd_crc32(0, copy, first), copy + first, t.size - first));
  free(copy);
  return 0;
}
