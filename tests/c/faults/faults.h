// Every request of the C core to the C library and the system goes through here (the linker's --wrap): it is counted,
// and the n-th can be refused, alone or with all that follow. Linked by `// flags:`, see test_faults.c.
#ifndef PYD_TESTS_FAULTS_H_
#define PYD_TESTS_FAULTS_H_

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// What a refused call of the system leaves in errno; its text has to come back.
enum { REFUSAL = EMFILE };

static atomic_bool is_armed;         // set by the test around the code under test
static atomic_long calls_left = -1;  // until a refusal
static bool refuses_rest;
static const char* refused;                                 // the first call that was refused
static bool refused_memory;                                 // it was one for memory of the C library
static atomic_long blocks, mapped_bytes, files, libraries;  // taken and not given back

static bool refuses(const char* name, bool is_memory) {
  if (!is_armed) return false;
  long left = calls_left--;
  if (left != 0 && !(left < 0 && refused && refuses_rest)) return false;
  if (!refused) refused = name, refused_memory = is_memory;
  errno = is_memory ? ENOMEM : REFUSAL;
  return true;
}

void* __real_malloc(size_t size);
void* __wrap_malloc(size_t size);
void* __wrap_malloc(size_t size) {
  if (refuses("malloc", true)) return NULL;
  void* memory = __real_malloc(size);
  blocks += memory != NULL;
  return memory;
}
void* __real_calloc(size_t count, size_t size);
void* __wrap_calloc(size_t count, size_t size);
void* __wrap_calloc(size_t count, size_t size) {
  if (refuses("calloc", true)) return NULL;
  void* memory = __real_calloc(count, size);
  blocks += memory != NULL;
  return memory;
}
void* __real_realloc(void* memory, size_t size);
void* __wrap_realloc(void* memory, size_t size);
void* __wrap_realloc(void* memory, size_t size) {
  if (refuses("realloc", true)) return NULL;
  void* moved = __real_realloc(memory, size);
  blocks += moved && !memory;
  return moved;
}
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  if (refuses("aligned_alloc", true)) return NULL;
  void* memory = __real_aligned_alloc(alignment, size);
  blocks += memory != NULL;
  return memory;
}
void __real_free(void* memory);
void __wrap_free(void* memory);
void __wrap_free(void* memory) {
  blocks -= memory != NULL;
  __real_free(memory);
}

void* __real_mmap(void* at, size_t size, int access, int flags, int file, off_t offset);
void* __wrap_mmap(void* at, size_t size, int access, int flags, int file, off_t offset);
void* __wrap_mmap(void* at, size_t size, int access, int flags, int file, off_t offset) {
  if (refuses("mmap", false)) return MAP_FAILED;
  void* memory = __real_mmap(at, size, access, flags, file, offset);
  if (memory != MAP_FAILED) mapped_bytes += (long)((size + 4095) / 4096 * 4096);
  return memory;
}
int __real_munmap(void* at, size_t size);
int __wrap_munmap(void* at, size_t size);
int __wrap_munmap(void* at, size_t size) {
  mapped_bytes -= (long)((size + 4095) / 4096 * 4096);
  return __real_munmap(at, size);
}
int __real_mprotect(void* at, size_t size, int access);
int __wrap_mprotect(void* at, size_t size, int access);
int __wrap_mprotect(void* at, size_t size, int access) {
  return refuses("mprotect", false) ? -1 : __real_mprotect(at, size, access);
}
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*entry)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*entry)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*entry)(void*), void* argument) {
  return refuses("pthread_create", false) ? REFUSAL : __real_pthread_create(thread, attributes, entry, argument);
}

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  int mode = flags & O_CREAT ? va_arg(args, int) : 0;
  va_end(args);
  if (refuses("open", false)) return -1;
  int file = __real_open(path, flags, mode);
  files += file >= 0;
  return file;
}
int __real_memfd_create(const char* name, unsigned flags);
int __wrap_memfd_create(const char* name, unsigned flags);
int __wrap_memfd_create(const char* name, unsigned flags) {
  if (refuses("memfd_create", false)) return -1;
  int file = __real_memfd_create(name, flags);
  files += file >= 0;
  return file;
}
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
  --files;
  return __real_close(file);
}
int __real_fstat(int file, struct stat* info);
int __wrap_fstat(int file, struct stat* info);
int __wrap_fstat(int file, struct stat* info) { return refuses("fstat", false) ? -1 : __real_fstat(file, info); }
ssize_t __real_read(int file, void* bytes, size_t size);
ssize_t __wrap_read(int file, void* bytes, size_t size);
ssize_t __wrap_read(int file, void* bytes, size_t size) {
  return refuses("read", false) ? -1 : __real_read(file, bytes, size);
}
ssize_t __real_write(int file, const void* bytes, size_t size);
ssize_t __wrap_write(int file, const void* bytes, size_t size);
ssize_t __wrap_write(int file, const void* bytes, size_t size) {
  return refuses("write", false) ? -1 : __real_write(file, bytes, size);
}

FILE* __real_fopen(const char* path, const char* mode);
FILE* __wrap_fopen(const char* path, const char* mode);
FILE* __wrap_fopen(const char* path, const char* mode) {
  if (refuses("fopen", false)) return NULL;
  FILE* file = __real_fopen(path, mode);
  files += file != NULL;
  return file;
}
FILE* __real_fdopen(int number, const char* mode);
FILE* __wrap_fdopen(int number, const char* mode);
FILE* __wrap_fdopen(int number, const char* mode) {
  return refuses("fdopen", false) ? NULL : __real_fdopen(number, mode);
}
int __real_fclose(FILE* file);
int __wrap_fclose(FILE* file);
int __wrap_fclose(FILE* file) {
  --files;
  return __real_fclose(file);
}
size_t __real_fread(void* bytes, size_t size, size_t count, FILE* file);
size_t __wrap_fread(void* bytes, size_t size, size_t count, FILE* file);
size_t __wrap_fread(void* bytes, size_t size, size_t count, FILE* file) {
  return refuses("fread", false) ? 0 : __real_fread(bytes, size, count, file);
}
char* __real_fgets(char* text, int size, FILE* file);
char* __wrap_fgets(char* text, int size, FILE* file);
char* __wrap_fgets(char* text, int size, FILE* file) {
  return refuses("fgets", false) ? NULL : __real_fgets(text, size, file);
}

int __real_sched_getaffinity(pid_t process, size_t size, cpu_set_t* set);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t* set);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t* set) {
  return refuses("sched_getaffinity", false) ? -1 : __real_sched_getaffinity(process, size, set);
}

void* __real_dlopen(const char* path, int flags);
void* __wrap_dlopen(const char* path, int flags);
void* __wrap_dlopen(const char* path, int flags) {
  if (refuses("dlopen", false)) {
    __real_dlopen("/no/such/library", RTLD_NOW);  // so that dlerror has a text
    return NULL;
  }
  void* library = __real_dlopen(path, flags);
  libraries += library != NULL;
  return library;
}
int __real_dlclose(void* library);
int __wrap_dlclose(void* library);
int __wrap_dlclose(void* library) {
  --libraries;
  return __real_dlclose(library);
}

#endif  // PYD_TESTS_FAULTS_H_
