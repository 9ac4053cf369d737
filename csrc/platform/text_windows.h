// Paths are UTF-8 in this project and UTF-16 in Windows. Included only by the *_windows.c files.
#ifndef PYD_PLATFORM_TEXT_WINDOWS_H_
#define PYD_PLATFORM_TEXT_WINDOWS_H_

#include <windows.h>

#include <stdlib.h>
#include <string.h>

#include "pydispatch/status.h"

// Converts a path to UTF-16. The caller frees |*out_wide|, which is NULL after a failure. SYSTEM for a path that is not
// UTF-8; OUT_OF_MEMORY. Messages have no subject: the caller puts it before them.
static inline pyd_status_t pyd_windows_wide(const char* path, wchar_t** out_wide) {
  *out_wide = NULL;
  int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);  // -1: up to and with its 0
  if (length <= 0) return pyd_status_make(PYD_CODE_SYSTEM, "its path is not UTF-8");
  wchar_t* wide = malloc((size_t)length * sizeof(wchar_t));
  if (!wide) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for its path");
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, length);
  *out_wide = wide;
  return PYD_STATUS_OK;
}

#endif  // PYD_PLATFORM_TEXT_WINDOWS_H_
