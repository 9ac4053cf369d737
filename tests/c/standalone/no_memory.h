// Allocations that fail on request, for tests that are linked with -Wl,--wrap=malloc,--wrap=realloc.
#ifndef PYD_TESTS_STANDALONE_NO_MEMORY_H_
#define PYD_TESTS_STANDALONE_NO_MEMORY_H_

#include <stdint.h>
#include <stdlib.h>

static int64_t g_allowed = INT64_MAX;  // allocations that succeed
void* __real_malloc(size_t size);
void* __real_realloc(void* block, size_t size);
void* __wrap_malloc(size_t size) { return g_allowed-- > 0 ? __real_malloc(size) : NULL; }
void* __wrap_realloc(void* block, size_t size) { return g_allowed-- > 0 ? __real_realloc(block, size) : NULL; }

#endif  // PYD_TESTS_STANDALONE_NO_MEMORY_H_
