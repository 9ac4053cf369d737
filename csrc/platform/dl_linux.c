// Shared libraries on Linux: from a path, or from bytes through an anonymous file (memfd).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/dl_elf.h"

pyd_status_t pyd_dl_check(pyd_span_t file) {
  pyd_status_t status = check_elf_header(file);
  if (pyd_ok(status)) status = check_elf_sanitizer(file);
  return status;
}

bool pyd_dl_may_print(pyd_span_t file) { return may_elf_print(file); }

// Opens the library at |path|, with all symbols bound at once and hidden from other libraries. SYSTEM with dlopen's
// reason.
pyd_status_t pyd_dl_open(const char* path, void** out_handle) {
  // dlopen searches the library path for a name without a slash. |path| is a file's, so "./" keeps it relative to the
  // working directory.
  char local[4096];
  if (!strchr(path, '/')) {
    if (snprintf(local, sizeof(local), "./%s", path) >= (int)sizeof(local)) {
      *out_handle = NULL;
      return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened: its name is too long");
    }
    path = local;
  }
  *out_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out_handle) return PYD_STATUS_OK;
  const char* reason = dlerror();
  return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened: %s", reason ? reason : "the system gives no reason");
}

// Writes to |path| a name of the anonymous file |*fd| that no open library has. The system's loader compares names
// before it opens a file, so it would return the library that was opened by the same number, although that was closed
// since.
// |*fd| becomes another descriptor of the file where its number is such a name.
static pyd_status_t name_unopened(int* fd, char* path, size_t size) {
  for (;;) {
    snprintf(path, size, "/proc/self/fd/%d", *fd);
    void* opened = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!opened) return PYD_STATUS_OK;
    dlclose(opened);
    int next = fcntl(*fd, F_DUPFD_CLOEXEC, *fd + 1);
    if (next < 0) return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened from memory: %s", strerror(errno));
    close(*fd);
    *fd = next;
  }
}

// Opens a library in memory: copies it to an anonymous file, which dlopen reaches through /proc.
pyd_status_t pyd_dl_open_bytes(pyd_span_t file, void** out_handle) {
  char path[64];
  *out_handle = NULL;
  int fd = memfd_create("pydispatch-plugin", MFD_CLOEXEC);
  if (fd < 0) return pyd_status_make(PYD_CODE_SYSTEM, "cannot be opened from memory: %s", strerror(errno));
  size_t done = 0;
  while (done < file.size) {
    ssize_t count = write(fd, file.data + done, file.size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // reported below
    done += (size_t)count;
  }
  pyd_status_t status = PYD_STATUS_OK;
  if (done < file.size) {
    status = pyd_status_make(PYD_CODE_SYSTEM, "cannot be copied for the system's loader: %s", strerror(errno));
  } else {
    status = name_unopened(&fd, path, sizeof(path));
    if (pyd_ok(status)) status = pyd_dl_open(path, out_handle);
  }
  close(fd);  // the mappings of an open library keep the file alive
  return status;
}

void* pyd_dl_symbol(void* handle, const char* name) { return dlsym(handle, name); }

void pyd_dl_close(void* handle) {
  if (handle) dlclose(handle);
}
