// Files as bytes on Windows.
#define WIN32_LEAN_AND_MEAN 1
#include "platform/text_windows.h"

#include <malloc.h>

#include "pydispatch/artifact.h"

// Alignment of copied files in bytes: the alignment of an artifact's members.
enum { kAlignment = 64 };

// Files of up to this many bytes are copied: a mapping costs two handles and 64 KiB of address space.
#define COPY_LIMIT ((uint64_t)64 << 10)

// Returns the failure to |verb| (such as "open") the file at |path|, with the last error of Windows.
static pyd_status_t system_error(const char* verb, const char* path) {
  return pyd_status_make(PYD_CODE_SYSTEM, "cannot %s '%s': Windows error %lu", verb, path,
                         (unsigned long)GetLastError());
}

// Reads the first |size| bytes of |file|, at most COPY_LIMIT, into aligned memory. |path|: for messages.
static pyd_status_t read_copy(HANDLE file, const char* path, size_t size, pyd_file_map_t* out_map) {
  uint8_t* data = _aligned_malloc(size, kAlignment);
  if (!data)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the %llu bytes of '%s'", (unsigned long long)size,
                           path);
  DWORD done = 0;
  pyd_status_t status = PYD_STATUS_OK;
  if (!ReadFile(file, data, (DWORD)size, &done, NULL)) {
    status = system_error("read", path);
  } else if (done != size) {  // the file has ended: ReadFile reads fewer bytes of a file only at its end
    status = pyd_status_make(PYD_CODE_SYSTEM, "'%s' became shorter while it was read: %lu of %lu bytes", path,
                             (unsigned long)done, (unsigned long)size);
  }
  if (!pyd_ok(status)) {
    _aligned_free(data);
    return status;
  }
  *out_map = (pyd_file_map_t){.span = {data, size}, .is_copy = true};
  return PYD_STATUS_OK;
}

// Copies a file of at most COPY_LIMIT bytes, and maps a larger one.
static pyd_status_t map_or_read(HANDLE file, const char* path, pyd_file_map_t* out_map) {
  LARGE_INTEGER size;
  if (!GetFileSizeEx(file, &size)) return system_error("read", path);
  if (size.QuadPart == 0) return pyd_status_make(PYD_CODE_CORRUPT, "'%s' is empty", path);
  if ((uint64_t)size.QuadPart > SIZE_MAX)
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "'%s' is too large to be mapped", path);
  if ((uint64_t)size.QuadPart <= COPY_LIMIT) return read_copy(file, path, (size_t)size.QuadPart, out_map);
  HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
  if (!mapping) return system_error("map", path);
  const void* data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  pyd_status_t status = data ? PYD_STATUS_OK : system_error("map", path);
  CloseHandle(mapping);  // the view keeps the mapping alive
  if (data) *out_map = (pyd_file_map_t){.span = {data, (size_t)size.QuadPart}};
  return status;
}

// Maps the file at |path|, or copies it into memory if it is small.
pyd_status_t pyd_file_map(const char* path, pyd_file_map_t* out_map) {
  *out_map = (pyd_file_map_t){0};
  wchar_t* wide;
  pyd_status_t status = pyd_windows_wide(path, &wide);
  if (!pyd_ok(status)) return pyd_status_annotate(status, "cannot open '%s': %s", path, pyd_status_text(status));
  HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
  free(wide);
  if (file == INVALID_HANDLE_VALUE) return system_error("open", path);
  status = map_or_read(file, path, out_map);
  CloseHandle(file);
  return status;
}

void pyd_file_drop_pages(pyd_span_t bytes) { (void)bytes; }  // Windows trims views of files by itself

// Unmaps or frees the bytes of a file.
void pyd_file_unmap(pyd_file_map_t* map) {
  if (map->is_copy) {
    _aligned_free((void*)map->span.data);
  } else if (map->span.data) {
    UnmapViewOfFile(map->span.data);
  }
  *map = (pyd_file_map_t){0};
}
