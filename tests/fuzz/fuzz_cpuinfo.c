// The files of the system by which CPUs and their quota are counted: whatever stands in /proc and /sys, an answer comes.
// Byte 0 of each part is its length / 4.
// links: base
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <stdio.h>

#include "take.h"

static const uint8_t* texts;
static size_t texts_size;

// Every file that is opened has the next part as its content; without one left, the first again.
static FILE* open_part(const char* path, const char* mode) {
  static const uint8_t* first;
  static size_t first_size, at;
  (void)path, (void)mode;
  if (first != texts || first_size != texts_size) first = texts, first_size = texts_size, at = 0;
  if (at >= texts_size) at = 0;
  if (!texts_size || texts[at] == 255) {
    ++at;
    errno = ENOENT;
    return NULL;
  }
  size_t length = (size_t)texts[at++] * 4;
  if (length > texts_size - at) length = texts_size - at;
  at += length;
  return length ? fmemopen((void*)(uintptr_t)(texts + at - length), length, "r") : NULL;
}

#define fopen open_part
#include "platform/cpu_linux.c"
#undef fopen

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint8_t* copy = malloc(size ? size : 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  texts = copy;
  texts_size = size;
  require(pyd_cpu_quota("") <= INT_MAX);
  require(pyd_cpu_quota("/sys/fs/somewhere/else") <= INT_MAX);
  require(pyd_cpu_available() >= 1);
  uint64_t l1, l2;
  pyd_cpu_cache_sizes(&l1, &l2);
  free(copy);
  return 0;
}
