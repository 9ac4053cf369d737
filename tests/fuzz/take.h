// Values out of the bytes of a fuzzer; zeros when there are none left.
#ifndef PYD_TESTS_FUZZ_TAKE_H_
#define PYD_TESTS_FUZZ_TAKE_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct take_s {
  const uint8_t* data;
  size_t size;
} take_t;

static inline uint8_t take_u8(take_t* t) {
  if (!t->size) return 0;
  --t->size;
  return *t->data++;
}
static inline uint16_t take_u16(take_t* t) { return (uint16_t)(take_u8(t) | take_u8(t) << 8); }
static inline uint32_t take_u32(take_t* t) { return take_u16(t) | (uint32_t)take_u16(t) << 16; }
static inline uint64_t take_u64(take_t* t) { return take_u32(t) | (uint64_t)take_u32(t) << 32; }
// Mostly small, now and then any number: what hostile counts and sizes look like.
static inline uint64_t take_number(take_t* t) {
  static const uint64_t kEdges[] = {UINT32_MAX, INT32_MAX, INT64_MAX, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 32, 65536, 4096};
  uint8_t kind = take_u8(t);
  return kind < 200 ? kind % 10 : kind < 240 ? kEdges[kind % 8] : take_u64(t);
}
// A word of |text|, or NULL; valid as long as the next three.
static inline const char* take_name(take_t* t) {
  static char names[4][24];
  static unsigned at;
  uint8_t kind = take_u8(t);
  if (kind < 8) return NULL;
  if (kind < 16) return "";
  char* name = names[at++ % 4];
  size_t length = kind % 5 + 1;
  for (size_t i = 0; i < length; ++i) name[i] = "?abfg"[take_u8(t) % 5];
  name[length] = 0;
  return name;
}

#define require(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

#endif  // PYD_TESTS_FUZZ_TAKE_H_
