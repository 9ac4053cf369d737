// Any bytes as a host program: decoded, planned for small sizes without and with executables, and run where that is small.
// links: base platform sched program
#include "program/sample.h"
#include "program/small_pool.h"

#include "program/double.c"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pyd_span_t bytes = {data, size & ~(size_t)3};
  uint32_t* words = malloc(bytes.size + 1);
  if (!words) return 0;
  if (bytes.size >= 12) {  // the three words that any change of size would break
    memcpy(words, data, bytes.size);
    words[0] = PYD_PROGRAM_MAGIC;
    words[1] = PYD_PROGRAM_VERSION;
    words[2] = (uint32_t)(bytes.size / 4);
    bytes.data = (const uint8_t*)words;
  }
  try_program(bytes, false);
  try_program(bytes, true);
  free(words);
  return 0;
}
