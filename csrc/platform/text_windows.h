// Paths are UTF-8 in this project and UTF-16 in Windows. Included only by the *_windows.c files.
#ifndef PYD_PLATFORM_TEXT_WINDOWS_H_
#define PYD_PLATFORM_TEXT_WINDOWS_H_

#include <windows.h>

#include <stdlib.h>
#include <string.h>

// Converts UTF-8 to UTF-16. The caller frees the result. NULL when there is no memory, or for text that is not UTF-8.
static inline wchar_t* pyd_windows_wide(const char* text) {
  int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);  // -1: up to and with its 0
  wchar_t* wide = length > 0 ? malloc((size_t)length * sizeof(wchar_t)) : NULL;
  if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
  return wide;
}

#endif  // PYD_PLATFORM_TEXT_WINDOWS_H_
