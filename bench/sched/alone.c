// Contender of rounds.c: a loop on the calling thread.
#include "contender.h"

// There is nothing to start: the caller's thread runs all indices, however many workers are asked for.
void contender_start(uint32_t workers, const char* variant) { (void)workers, (void)variant; }

void contender_prepare(uint32_t picoseconds) { (void)picoseconds; }

void contender_run(kernel_t kernel, void* self, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) kernel(self, i);
}
