// Any system with a C library: the file is copied.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/artifact.h"

// Bytes: the alignment of a file's bytes, and the size of the first buffer for them.
enum { kAlignment = 64, kFirstRoom = 64 << 10 };

// Reads a file into a buffer that grows by doubling: ISO C has no portable way to learn the size of a binary file but
// to read it. The caller frees |*out_data|, also after a failure.
static pyd_status_t read_all(FILE* file, const char* path, uint8_t** out_data, size_t* out_size) {
  size_t room = kFirstRoom;
  size_t size = 0;
  uint8_t* data = malloc(room);
  while (data) {
    size += fread(data + size, 1, room - size, file);
    if (size < room) break;
    uint8_t* grown = room <= SIZE_MAX / 2 ? realloc(data, room * 2) : NULL;
    if (!grown) free(data);  // a failed realloc leaves it
    data = grown;
    room *= 2;
  }
  if (!data) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the bytes of '%s'", path);
  *out_data = data;
  *out_size = size;
  if (ferror(file)) return pyd_status_make(PYD_CODE_SYSTEM, "cannot read '%s': %s", path, strerror(errno));
  if (size == 0) return pyd_status_make(PYD_CODE_CORRUPT, "'%s' is empty", path);
  return PYD_STATUS_OK;
}

// Copies |data| to an address that is a multiple of kAlignment. The address from malloc is stored directly before the
// copy, for pyd_file_unmap().
static pyd_status_t align(const uint8_t* data, size_t size, const char* path, pyd_file_map_t* out_map) {
  enum { kExtra = kAlignment - 1 + sizeof(void*) };
  uint8_t* block = size <= SIZE_MAX - kExtra ? malloc(size + kExtra) : NULL;
  if (!block) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the %zu bytes of '%s'", size, path);
  uint8_t* aligned = block + sizeof(void*);
  aligned += (kAlignment - (uintptr_t)aligned % kAlignment) % kAlignment;
  memcpy(aligned - sizeof(void*), &block, sizeof(block));
  memcpy(aligned, data, size);
  *out_map = (pyd_file_map_t){.span = {aligned, size}, .is_copy = true};
  return PYD_STATUS_OK;
}

// Reads a whole file into memory at a multiple of kAlignment bytes; |out_map->is_copy| is true.
pyd_status_t pyd_file_map(const char* path, pyd_file_map_t* out_map) {
  uint8_t* data = NULL;
  size_t size = 0;
  *out_map = (pyd_file_map_t){0};
  FILE* file = fopen(path, "rb");
  if (!file) return pyd_status_make(PYD_CODE_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
  pyd_status_t status = read_all(file, path, &data, &size);
  fclose(file);
  if (pyd_ok(status)) status = align(data, size, path, out_map);
  free(data);
  return status;
}

void pyd_file_drop_pages(pyd_span_t bytes) { (void)bytes; }  // there are no mappings

// Frees the copy, by the address from malloc() that align() stored before it.
void pyd_file_unmap(pyd_file_map_t* map) {
  if (map->span.data) {
    void* block;
    memcpy(&block, map->span.data - sizeof(void*), sizeof(block));
    free(block);
  }
  *map = (pyd_file_map_t){0};
}
