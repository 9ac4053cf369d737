// Linked into the tests of the generic platform files, which run code from the heap as bare metal does: from here on
// Linux makes readable memory executable, and every block of a page or more is fresh memory.
#if defined(__linux__)
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>

__attribute__((constructor)) static void make_executable(void) {
  int now = personality(0xFFFFFFFF);
  if (now < 0 || personality((unsigned long)now | READ_IMPLIES_EXEC) < 0 || !mallopt(M_MMAP_THRESHOLD, 4096)) {
    perror("an executable heap");
    exit(1);
  }
}
#endif
